//! Records that a full store may have dropped. Only those of jobs that had ended: any other job without a record is lost.

use super::{Account, Answer, Call, Life, Wish};
use crate::clock::Millis;
use crate::limits::SECOND_MS;
use crate::model::id::JobId;
use crate::model::job::Job;
use std::collections::BTreeMap;

/// The crashes after which a job is given up.
pub(super) const CRASHES_MAX: u32 = 5;
/// The shortest lease of the actors.
const LEASE_MS_MIN: u64 = SECOND_MS;

/// A time in which the store was full and may have dropped records.
#[derive(Debug)]
pub(super) struct Dropped {
    /// When the records were read, before.
    read: Call,
    records: BTreeMap<JobId, Job>,
    /// Until then it may have dropped more.
    until: Millis,
}

impl Account {
    /// The store was full, and may have dropped records of jobs that had ended; before, it had these records.
    pub fn dropped(&mut self, read: Call, records: BTreeMap<JobId, Job>, until: Millis) {
        self.dropped.push(Dropped { read, records, until });
    }

    /// Whether the record of this job may have been dropped.
    pub(super) fn may_be_dropped(&self, id: JobId, life: &Life) -> bool {
        self.dropped.iter().any(|dropped| dropped.may_have(id, life))
    }
}

impl Dropped {
    fn may_have(&self, id: JobId, life: &Life) -> bool {
        let record = self.records.get(&id);
        let was_there = life.pushed.is_some_and(|(call, ..)| call.answered.mono < self.read.asked.mono);
        if record.is_none() && was_there && !self.may_have_moved(life) {
            // It had no record even then.
            return false;
        }
        if record.is_some_and(|record| !record.state(0).is_live()) {
            return true;
        }
        let was_asked = |call: &Call| call.asked.mono <= self.until;
        let is_over = life.leases.values().flat_map(|held| &held.ends).any(|end| {
            was_asked(&end.call)
                && match end.answered {
                    Answer::State(state, _) => !state.is_live(),
                    // It may have been made.
                    Answer::Nothing => matches!(end.wish, Wish::Complete | Wish::FailFinally),
                    Answer::Refused => false,
                }
        });
        // A cancel ends it now, or when its lease ends.
        is_over || life.cancel_asked.as_ref().is_some_and(was_asked) || self.may_be_given_up(record)
    }

    /// Whether the job may have been leased or ended, or given back by a lease that ran out, while the records were read. Pages of
    /// several indexes are no snapshot, so they may have missed it.
    fn may_have_moved(&self, life: &Life) -> bool {
        let overlaps =
            |call: &Call| call.asked.mono <= self.read.answered.mono && call.answered.mono >= self.read.asked.mono;
        let later = life.leases.values().skip(1).map(|held| held.span.call.asked.mono);
        let mut given_back = life.leases.values().zip(later).map(|(held, later)| (held.span.ends_from(), later));
        given_back.any(|(from, to)| from <= self.read.answered.mono && to >= self.read.asked.mono)
            || life
                .leases
                .values()
                .any(|held| overlaps(&held.span.call) || held.ends.iter().any(|end| overlaps(&end.call)))
    }

    /// Whether its workers may have crashed too often since the records were read. Nobody got an answer about that.
    fn may_be_given_up(&self, record: Option<&Job>) -> bool {
        let crashes = record.map_or(0, |record| record.crashes);
        let leases = 1 + (self.until - self.read.asked.mono) / LEASE_MS_MIN;
        u64::from(crashes) + leases >= u64::from(CRASHES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{CancelOutcome, Settlement};
    use crate::json::Timestamp;
    use crate::model::id::Receipt;
    use crate::model::job::{NewJob, Stage, State};
    use crate::testing::account::At;
    use crate::testing::fixtures;

    const PUSHED: u64 = 10;
    /// The records are read, and may be dropped until then.
    const READ: u64 = 5_000;
    const UNTIL: u64 = 7_000;

    fn call(mono: u64) -> Call {
        let at = At { wall: mono, mono };
        Call { asked: at, answered: at }
    }

    fn job() -> Job {
        Job {
            epoch: 1,
            due_at: Timestamp(0),
            started_at: Some(Timestamp(20)),
            lease_until: Some(Timestamp(1_020)),
            ..fixtures::job(7)
        }
    }

    /// The violations in an account of one job that has no record in the end. It was pushed and leased.
    fn judged(has_ledger: bool, tell: impl FnOnce(&mut Account, Receipt)) -> Vec<String> {
        let mut account = Account::new(has_ledger);
        account.pushed(&NewJob::new(*b"{}"), job().id, 0, call(PUSHED));
        account.leased(&job(), 1_000, call(20));
        tell(&mut account, job().receipt());
        let mut wrong = account.judge(&BTreeMap::new());
        wrong.retain(|line| !line.starts_with(' '));
        wrong
    }

    /// The store dropped records; before, it had this one.
    fn drops(account: &mut Account, record: Option<Job>) {
        account.dropped(call(READ), record.into_iter().map(|job| (job.id, job)).collect(), UNTIL);
    }

    fn completed(account: &mut Account, receipt: Receipt, mono: u64) {
        let settlement = Settlement { receipt, state: State::Succeeded, recorded: true };
        account.ended(receipt, Wish::Complete, call(mono), Some(&Ok(settlement)));
    }

    #[test]
    fn a_job_that_ended_before_records_were_dropped_is_not_lost() {
        let ended = |stage, crashes| Job { stage, crashes, ..job() };
        let nothing = |_: &mut Account, _: Receipt| {};
        assert_eq!(judged(false, nothing).len(), 1, "nothing was dropped");
        let seen = judged(false, |account, _| drops(account, Some(ended(Stage::Failed, CRASHES_MAX))));
        assert_eq!(seen, [] as [String; 0], "it was seen as ended");
        let answered = judged(false, |account, receipt| {
            completed(account, receipt, READ + 10);
            drops(account, Some(job()));
        });
        assert_eq!(answered, [] as [String; 0], "its end was answered");
        let cancelled = judged(false, |account, receipt| {
            account.cancelled(receipt.id, call(READ + 10), Some(CancelOutcome::CancelRequested));
            drops(account, Some(job()));
        });
        assert_eq!(cancelled, [] as [String; 0], "it was cancelled");
        let moved = judged(false, |account, receipt| {
            completed(account, receipt, READ);
            drops(account, None);
        });
        assert_eq!(moved, [] as [String; 0], "it ended while the records were read");
        let given_back = judged(false, |account, _| {
            let again = Job { epoch: 2, started_at: Some(Timestamp(READ + 10)), ..job() };
            account.leased(&again, 1_000, call(READ + 10));
            completed(account, again.receipt(), READ + 20);
            drops(account, None);
        });
        assert_eq!(given_back, [] as [String; 0], "its lease may have run out while the records were read");
        let crashed = judged(false, |account, _| drops(account, Some(Job { crashes: CRASHES_MAX - 1, ..job() })));
        assert_eq!(crashed, [] as [String; 0], "its last worker crashed");
    }

    #[test]
    fn a_job_that_had_not_ended_when_records_were_dropped_is_lost() {
        let lost = [format!("{} is lost", job().id)];
        assert_eq!(judged(false, |account, _| drops(account, Some(job()))), lost, "it ran");
        let late = judged(false, |account, receipt| {
            drops(account, Some(job()));
            completed(account, receipt, UNTIL + 10);
        });
        assert_eq!(late, lost, "it ended later");
        let refused = judged(false, |account, receipt| {
            let error = crate::error::Error::LeaseLost(receipt);
            account.ended(receipt, Wish::Complete, call(READ + 10), Some(&Err(error)));
            drops(account, Some(job()));
        });
        assert_eq!(refused, lost, "its end was refused");
        let missing = judged(false, |account, receipt| {
            completed(account, receipt, READ - 10);
            drops(account, None);
        });
        assert_eq!(missing, lost, "it had no record before");
        let beside_a_ledger = judged(true, |account, receipt| {
            completed(account, receipt, READ - 10);
            drops(account, Some(Job { stage: Stage::Succeeded, ..job() }));
        });
        assert_eq!(beside_a_ledger, lost, "a ledger drops nothing");
    }
}
