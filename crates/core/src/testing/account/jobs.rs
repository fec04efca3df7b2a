//! Checks the answers about a job.

use super::dropped::CRASHES_MAX;
use super::{Account, Answer, At, CUT_MS, Call, End, HeldLease, Life, Loss, Wish};
use crate::model::id::JobId;
use crate::model::job::{Job, State};

/// The maximum age of a process's reading of the store's clock, by which it turns delays into instants.
const READING_MS: u64 = 5_000;
/// The message of a taken job.
const TAKEN: &str = "taken";

impl Account {
    pub(super) fn judge_job(&self, id: JobId, life: &Life, record: Option<&Job>) -> Vec<String> {
        let mut wrong = Vec::new();
        self.judge_due(id, life, &mut wrong);
        let leases: Vec<(u64, &HeldLease)> = life.leases.iter().map(|(&epoch, held)| (epoch, held)).collect();
        for pair in leases.windows(2) {
            self.judge_pair(id, life.is_touched, pair[0], pair[1], &mut wrong);
        }
        for (i, &(epoch, held)) in leases.iter().enumerate() {
            if !Self::may_be_over(&leases[..i]) {
                self.judge_refusals(id, epoch, held, &mut wrong);
            }
            for end in &held.ends {
                self.judge_end(id, epoch, end, &leases[i + 1..], record, &mut wrong);
            }
        }
        for call in &life.cancelled {
            self.judge_cancel(id, call, &leases, record, &mut wrong);
        }
        match record {
            Some(record) => {
                self.judge_record(life, record, &mut wrong);
                let is_kept = |asked| self.is_edit_kept(At { wall: 0, mono: asked }, life.leases.get(&record.epoch));
                wrong.extend(life.edits.lost(record, is_kept).map(|lost| format!("{id}: {lost}")));
            }
            None => self.judge_absence(id, life, &mut wrong),
        }
        wrong
    }

    /// A job is not due before its requested delay, and has the due time that was answered.
    fn judge_due(&self, id: JobId, life: &Life, wrong: &mut Vec<String>) {
        let Some((call, due_at, delay_ms)) = life.pushed else { return };
        let least = call.asked.wall + delay_ms;
        let read = At { mono: call.asked.mono.saturating_sub(READING_MS), ..call.asked };
        if delay_ms > 0 && due_at + CUT_MS < least && !self.is_clock_set(read, call.answered) {
            wrong.push(format!("{id}: a delay of {delay_ms} ms was cut short by {} ms", least - due_at));
        }
        let Some((epoch, held)) = life.leases.first_key_value() else { return };
        // A lease that nobody got may have ended since the clock was set back: then the job is due by the earlier clock.
        let is_set = self.is_clock_set(call.asked, held.span.call.answered);
        if !life.is_touched && held.due_at < due_at && !is_set {
            wrong.push(format!("{id}.{epoch} was due at {}, and the push was answered {due_at}", held.due_at));
        }
        if !life.is_touched && held.started_at + CUT_MS < least && !self.is_clock_set(read, held.span.call.answered) {
            wrong.push(format!("{id}.{epoch} began {} ms early", least - held.started_at));
        }
    }

    /// A lease does not begin while another one lives.
    fn judge_pair(
        &self,
        id: JobId,
        is_touched: bool,
        before: (u64, &HeldLease),
        after: (u64, &HeldLease),
        wrong: &mut Vec<String>,
    ) {
        let ((last, a), (epoch, b)) = (before, after);
        if self.is_memory_lost(&a.span, b.span.call.answered) {
            return;
        }
        if b.started_at + CUT_MS < a.started_at {
            wrong.push(format!("{id}.{epoch} began before {id}.{last}"));
        }
        let certain = a.span.certain_until();
        let may_have_ended = |end: &&End| end.may_have_ended() && end.call.asked.mono <= b.span.call.answered.mono;
        if b.started_at + CUT_MS < certain && !a.ends.iter().any(|end| may_have_ended(&end)) {
            wrong.push(format!("{id}.{epoch} began {} ms before the end of {id}.{last}", certain - b.started_at));
        }
        for end in a.ends.iter().filter(may_have_ended) {
            let (Wish::Again(after_ms), Answer::State(..)) = (end.wish, end.answered) else { continue };
            let least = end.call.asked.wall + after_ms;
            if after_ms > 0 && !is_touched && b.started_at + CUT_MS < least.min(certain) {
                wrong.push(format!("{id}.{epoch} began {} ms too early after a failure", least - b.started_at));
            }
        }
    }

    /// Nothing is refused while the lease lives.
    fn judge_refusals(&self, id: JobId, epoch: u64, held: &HeldLease, wrong: &mut Vec<String>) {
        let ends =
            held.ends.iter().filter(|end| end.answered == Answer::Refused && !matches!(end.wish, Wish::Again(_)));
        for call in held.span.refused.iter().chain(ends.map(|end| &end.call)) {
            let certain = held.span.certain_before(call);
            let has_ended = held.ends.iter().any(|end| end.call.asked.mono < call.asked.mono && end.may_have_ended());
            let lives = call.answered.wall + CUT_MS < certain && !held.is_take;
            if lives && !has_ended && !self.is_memory_lost(&held.span, call.answered) {
                wrong.push(format!("{id}.{epoch} was refused {} ms before its end", certain - call.answered.wall));
            }
        }
    }

    /// Whether an end of these leases was acknowledged before it was recorded: the job may have been handed out again before
    /// the ledger had that end.
    fn may_be_over(leases: &[(u64, &HeldLease)]) -> bool {
        let mut ends = leases.iter().flat_map(|(_, held)| &held.ends);
        ends.any(|end| matches!(end.answered, Answer::State(state, false) if !state.is_live()))
    }

    /// An end is final.
    fn judge_end(
        &self,
        id: JobId,
        epoch: u64,
        end: &End,
        later: &[(u64, &HeldLease)],
        record: Option<&Job>,
        wrong: &mut Vec<String>,
    ) {
        let Answer::State(state, is_recorded) = end.answered else { return };
        let expected = match end.wish {
            Wish::Complete => state == State::Succeeded,
            Wish::FailFinally => matches!(state, State::Failed | State::Cancelled),
            Wish::Again(_) => state.is_live() || matches!(state, State::Failed | State::Cancelled),
        };
        if !expected {
            wrong.push(format!("{id}.{epoch}: {:?} was answered {state}", end.wish));
        }
        if state.is_live() {
            return;
        }
        let is_kept = |to: At| self.is_kept(is_recorded, end.call, to);
        for (next, held) in later {
            let what = if held.is_take { "was taken" } else { "was handed out" };
            let was_before = held.span.call.answered.mono < end.call.asked.mono;
            if is_kept(held.span.call.answered) && !(was_before && self.is_grant_killed(&held.span)) {
                wrong.push(format!("{id}.{next} {what} after {id}.{epoch} had ended as {state}"));
            }
        }
        let now = At { wall: 0, mono: u64::MAX };
        if let Some(record) = record
            && (record.state(0), record.epoch) != (state, epoch)
            && is_kept(now)
        {
            wrong.push(format!("{id}.{epoch} ended as {state}"));
        }
    }

    /// Whether an acknowledged end of a job still holds at this instant.
    fn is_kept(&self, is_recorded: bool, call: Call, to: At) -> bool {
        let losses: &[Loss] = match (self.has_ledger, is_recorded) {
            (true, true) => &[Loss::FellBack],
            (true, false) => &[Loss::FellBack, Loss::Emptied, Loss::Killed],
            (false, _) => &[Loss::FellBack, Loss::Emptied],
        };
        !self.befell(losses, call.asked, to)
    }

    /// Whether an edit that was made at this instant still holds, if the job has ended with this lease.
    ///
    /// An end that was acknowledged before the edit and lost by the broker wins over it, if its process records it later.
    fn is_edit_kept(&self, at: At, last: Option<&HeldLease>) -> bool {
        let wins = |end: &End| {
            matches!(end.answered, Answer::State(state, false) if !state.is_live())
                && end.call.asked.mono <= at.mono
                && !self.is_kept(false, end.call, at)
        };
        let now = At { wall: 0, mono: u64::MAX };
        let is_won_over = last.is_some_and(|held| held.ends.iter().any(wins));
        !is_won_over && self.is_kept(true, Call { asked: at, answered: at }, now)
    }

    /// A job that was cancelled before it ran never runs.
    fn judge_cancel(
        &self,
        id: JobId,
        call: &Call,
        leases: &[(u64, &HeldLease)],
        record: Option<&Job>,
        wrong: &mut Vec<String>,
    ) {
        for (epoch, held) in leases {
            let is_later = held.span.call.asked.mono > call.answered.mono
                || (held.started_at > call.answered.wall + CUT_MS
                    && !self.is_clock_set(held.span.call.asked, call.answered));
            if is_later && self.is_kept(true, *call, held.span.call.answered) {
                wrong.push(format!("{id}.{epoch} began after the job was cancelled"));
            }
        }
        let now = At { wall: 0, mono: u64::MAX };
        // The end was acknowledged before the cancel, and recorded after it.
        let is_end_of_before = |record: &Job| {
            leases.iter().any(|&(epoch, held)| {
                record.epoch == epoch && held.ends.iter().any(|end| end.call.asked.mono <= call.answered.mono)
            })
        };
        if let Some(record) = record
            && record.state(0) != State::Cancelled
            && !is_end_of_before(record)
            && self.is_kept(true, *call, now)
        {
            wrong.push(format!("{id} was cancelled"));
        }
    }

    /// A record must have a cause in the account.
    fn judge_record(&self, life: &Life, record: &Job, wrong: &mut Vec<String>) {
        let (id, state) = (record.id, record.state(0));
        let asked = |wish: Wish| {
            let held = life.leases.get(&record.epoch);
            // A call is repeated until it is answered, and its repeat is refused if the broker was emptied since.
            let may_be_made = |end: &End| {
                let losses = [Loss::Emptied, Loss::FellBack];
                end.answered != Answer::Refused || self.befell(&losses, end.call.asked, end.call.answered)
            };
            held.is_some_and(|held| held.ends.iter().any(|end| end.wish == wish && may_be_made(end)))
        };
        let was_lost = !self.losses.is_empty();
        let is_known = match state {
            State::Succeeded => {
                asked(Wish::Complete) || (self.lost_takes > 0 && record.message.as_deref() == Some(TAKEN))
            }
            State::Failed => asked(Wish::FailFinally) || record.crashes >= CRASHES_MAX,
            State::Cancelled => life.cancel_asked.is_some(),
            State::Scheduled | State::Ready | State::Running => {
                wrong.push(format!("{id} is not worked off"));
                true
            }
        };
        if !is_known {
            wrong.push(format!("{id} is {state}, and nobody asked for that"));
        }
        let last = life.leases.last_key_value().map_or(0, |(&epoch, _)| epoch);
        if last > record.epoch && !was_lost {
            wrong.push(format!("{id}.{last} was handed out, and the record knows {}", record.epoch));
        }
    }

    /// No acknowledged job is lost.
    fn judge_absence(&self, id: JobId, life: &Life, wrong: &mut Vec<String>) {
        let Some((call, ..)) = life.pushed else { return };
        let now = At { wall: 0, mono: u64::MAX };
        let may_be_gone =
            || self.befell(&[Loss::Emptied, Loss::FellBack], call.asked, now) || self.may_be_dropped(id, life);
        if self.has_ledger || !may_be_gone() {
            wrong.push(format!("{id} is lost"));
        }
    }
}

impl End {
    /// Whether the lease may have ended by it. If the reply to a failure or a release was lost, its repeat is refused.
    fn may_have_ended(&self) -> bool {
        self.answered != Answer::Refused || matches!(self.wish, Wish::Again(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Timestamp;
    use crate::model::id::Receipt;
    use crate::model::job::{NewJob, Stage};
    use crate::request::{Patch, Settlement};
    use crate::testing::fixtures;
    use std::collections::BTreeMap;

    fn call(mono: u64) -> Call {
        let at = At { wall: 1_000 + mono, mono };
        Call { asked: at, answered: at }
    }

    #[test]
    fn an_end_that_the_broker_lost_before_it_was_recorded_wins_over_a_later_edit() {
        let is_lost = |is_recorded, emptied_at| {
            let mut account = Account::new(true);
            let leased = Job { epoch: 1, lease_until: Some(Timestamp(9_000)), ..fixtures::job(7) };
            account.leased(&leased, 1_000, call(100));
            let receipt = Receipt { id: leased.id, epoch: 1 };
            let settlement = Settlement { receipt, state: State::Succeeded, recorded: is_recorded };
            account.ended(receipt, Wish::Complete, call(200), Some(&Ok(settlement)));
            account.lost(Loss::Emptied, emptied_at, emptied_at);
            let patch = Patch { priority: Some(7), ..Patch::default() };
            account.edited(leased.id, &patch, call(300), true);
            let record = Job { stage: Stage::Succeeded, lease_until: None, ..leased };
            account.judge(&BTreeMap::from([(record.id, record)])).iter().any(|wrong| wrong.contains("the priority is"))
        };
        assert!(!is_lost(false, 250));
        assert!(is_lost(false, 150), "the broker had the end when the edit was made");
        assert!(is_lost(true, 250), "the ledger had the end");
    }

    #[test]
    fn a_job_is_not_due_before_its_push_said_unless_the_clock_was_set() {
        let leased = Job {
            epoch: 1,
            due_at: Timestamp(500),
            started_at: Some(Timestamp(500)),
            lease_until: Some(Timestamp(1_500)),
            ..fixtures::job(7)
        };
        let is_early = |tell: fn(&mut Account)| {
            let mut account = Account::new(true);
            account.pushed(&NewJob::new(*b"{}"), leased.id, 1_000, call(10));
            account.leased(&leased, 1_000, call(200));
            tell(&mut account);
            account.judge(&BTreeMap::new()).iter().any(|wrong| wrong.contains("was due at 500"))
        };
        assert!(is_early(|_| {}));
        assert!(is_early(|account| account.lost(Loss::ClockSet, 300, 310)), "later");
        assert!(!is_early(|account| account.lost(Loss::ClockSet, 100, 110)));
    }
}
