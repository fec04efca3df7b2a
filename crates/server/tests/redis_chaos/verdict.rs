//! The verdict on the histories and the records.

use crate::fleet::Outage;
use crate::history::{HeldLease, Leases};
use crate::pushes::Acknowledged;
use duetime_core::{Job, JobId, State as JobState};
use std::collections::BTreeMap;
use std::fmt;

/// The maximum delay until a killed worker's job runs again on a loaded machine.
const AGAIN_MS_MAX: u64 = 30_000;
/// The maximum delay until work resumes after Redis is back.
const GOES_ON_MS_MAX: u64 = 30_000;

#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) wrong: Vec<String>,
    acknowledged: usize,
    unanswered: u64,
    leases: usize,
    /// Leases that were followed by another one of their job.
    pub(crate) handed_out_again: usize,
    /// Ends that were refused since the lease was over.
    refused: usize,
    /// Jobs that were acknowledged and are not there.
    lost: Vec<JobId>,
    /// Jobs that were cancelled before they ran.
    cancelled: usize,
    /// Leases and completions that were forgotten by a failover.
    undone: usize,
    /// The lateness of first leases in milliseconds, in order.
    late_ms: Vec<u64>,
    /// How long after the end of a lease its job ran again.
    again_ms: Vec<u64>,
    kills: (usize, usize),
    /// By outage: its length, and the time after its end at which the first worker had a job, and the last one.
    went_on: Vec<(&'static str, u64, Option<u64>, Option<u64>)>,
}

impl Verdict {
    pub(crate) fn of(
        acknowledged: &Acknowledged,
        records: &BTreeMap<JobId, Job>,
        leases: &Leases,
        outages: &[Outage],
        kills: (usize, usize),
        forgets: bool,
        wrong: Vec<String>,
    ) -> Self {
        let mut verdict = Self {
            wrong,
            acknowledged: acknowledged.jobs.len(),
            unanswered: acknowledged.unanswered,
            leases: leases.values().map(BTreeMap::len).sum(),
            kills,
            ..Self::default()
        };
        for &id in acknowledged.jobs.keys() {
            match records.get(&id) {
                None => verdict.lost.push(id),
                Some(job) if job.state(0) == JobState::Cancelled && acknowledged.cancelled.contains_key(&id) => {
                    verdict.cancelled += 1;
                }
                Some(job) if job.state(0) != JobState::Succeeded => {
                    verdict.wrong.push(format!("{id} was acknowledged, and is not done: {job:?}"));
                }
                Some(_) => {}
            }
        }
        for (&id, of_job) in leases {
            verdict.judge_job(id, of_job, records.get(&id), forgets);
        }
        for (id, &cancelled_at) in &acknowledged.cancelled {
            // One that ran when it was cancelled may have lost its lease, and the wish with it.
            let first = leases.get(id).and_then(|of_job| of_job.values().next());
            if let Some(held) = first.filter(|held| held.started_at > cancelled_at) {
                verdict.wrong.push(format!("{id} was cancelled at {cancelled_at}, and ran: {held:?}"));
            }
        }
        for job in records.values().filter(|job| job.state(0) == JobState::Succeeded) {
            let held = leases.get(&job.id).and_then(|of_job| of_job.get(&job.epoch));
            if !held.is_some_and(|held| held.is_ending) {
                verdict.wrong.push(format!("{} is done, and nobody did it", job.receipt()));
            }
        }
        verdict.went_on = outages.iter().map(|outage| went_on(outage, leases)).collect();
        verdict.late_ms.sort_unstable();
        verdict.again_ms.sort_unstable();
        verdict
    }

    fn judge_job(&mut self, id: JobId, of_job: &BTreeMap<u64, HeldLease>, record: Option<&Job>, forgets: bool) {
        let mut earlier: Option<&HeldLease> = None;
        for (epoch, held) in of_job {
            let receipt = format!("{id}.{epoch}");
            if held.started_at < held.due_at || held.seen_at < held.due_at {
                self.wrong.push(format!("{receipt} was handed out early: {held:?}"));
            }
            if let Some(before) = earlier {
                self.handed_out_again += 1;
                let was_done = matches!(before.ended, Some((_, true)));
                let overlaps = held.started_at < before.until;
                if (was_done || overlaps) && forgets {
                    self.undone += 1;
                } else if was_done || overlaps {
                    self.wrong.push(format!("{receipt} {held:?} follows {before:?}"));
                } else {
                    self.again_ms.push(held.started_at - before.until);
                }
            } else {
                self.late_ms.push(held.seen_at.saturating_sub(held.due_at));
            }
            if let Some((_, false)) = held.ended {
                self.refused += 1;
                let counts = record.is_some_and(|job| job.epoch == *epoch && job.state(0) == JobState::Succeeded);
                if counts {
                    self.wrong.push(format!("the end of {receipt} was refused, and counts"));
                }
            }
            earlier = Some(held);
        }
    }

    fn assert_right(&self) {
        assert!(self.wrong.is_empty(), "{} things are wrong:\n{}", self.wrong.len(), self.wrong.join("\n"));
        assert!(self.again_ms.last().is_none_or(|&last| last <= AGAIN_MS_MAX), "a job ran again too late");
        for (what, _, first, _) in &self.went_on {
            let first = first.unwrap_or_else(|| panic!("nobody works since it was {what}"));
            assert!(first <= GOES_ON_MS_MAX, "work went on too late: {first} ms");
        }
    }

    pub(crate) fn assert_nothing_is_lost(&self) {
        self.assert_right();
        assert!(self.lost.is_empty(), "{} jobs are lost: {:?}", self.lost.len(), self.lost);
    }

    /// Nothing is lost, and many were cancelled in time.
    pub(crate) fn assert_recorded(&self) {
        self.assert_nothing_is_lost();
        assert!(self.cancelled > 0, "nothing was cancelled in time");
    }

    /// Writes that a master has not replicated are lost with it; everything else is done.
    pub(crate) fn assert_work_went_on(&self) {
        self.assert_right();
        assert!(!self.went_on.is_empty());
    }
}

/// The length of an outage, and the time after its end at which the first worker had a job again, and the last one.
fn went_on(outage: &Outage, leases: &Leases) -> (&'static str, u64, Option<u64>, Option<u64>) {
    let mut firsts: BTreeMap<usize, u64> = BTreeMap::new();
    for held in leases.values().flat_map(BTreeMap::values).filter(|held| held.started_at > outage.begin) {
        // By the worker's records; a lease that began before Redis was seen to be back counts as immediate.
        let after = held.seen_at.saturating_sub(outage.back);
        let first = firsts.entry(held.worker).or_insert(after);
        *first = after.min(*first);
    }
    (outage.what, outage.back - outage.begin, firsts.values().min().copied(), firsts.values().max().copied())
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |all: &[u64], percent: usize| all.get((all.len().max(1) - 1) * percent / 100).copied().unwrap_or(0);
        writeln!(f, "{:>8} workers and {} servers were killed", self.kills.0, self.kills.1)?;
        writeln!(f, "{:>8} pushes acknowledged, {} without an answer", self.acknowledged, self.unanswered)?;
        writeln!(f, "{:>8} acknowledged and lost", self.lost.len())?;
        writeln!(
            f,
            "{:>8} leases, {} ends refused, {} forgotten by a failover",
            self.leases, self.refused, self.undone
        )?;
        writeln!(f, "{:>8} were cancelled before they ran", self.cancelled)?;
        let (late, again) = (&self.late_ms, &self.again_ms);
        writeln!(
            f,
            "{:>8} jobs had {} ms late at the median, {} at 99 %, {} at most",
            late.len(),
            at(late, 50),
            at(late, 99),
            at(late, 100)
        )?;
        writeln!(
            f,
            "{:>8} handed out again after the end of their lease: {} ms after it at the median, {} at most",
            again.len(),
            at(again, 50),
            at(again, 100)
        )?;
        for (what, length, first, last) in &self.went_on {
            let ms = |ms: &Option<u64>| ms.map_or("never".to_owned(), |ms| format!("{ms} ms"));
            writeln!(
                f,
                "         {what}: back after {length} ms; the first worker has a job {} later, the last one {}",
                ms(first),
                ms(last)
            )?;
        }
        write!(f, "{:>8} things are wrong", self.wrong.len())
    }
}
