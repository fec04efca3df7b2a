//! Checks the jobs that began with the ends of others.

use super::{Account, At, Loss};
use crate::model::id::{JobId, Receipt};
use crate::model::job::{Job, Stage, State};
use crate::rules::TAKEN;
use crate::testing::adds_a_job;
use std::collections::BTreeMap;

impl Account {
    /// Each job that has ended has begun what it names for this end, once, and nothing for another end. Nobody retries a job here.
    pub(super) fn judge_follow_ups(&self, records: &BTreeMap<JobId, Job>) -> Vec<String> {
        let (begin, end) = (At { wall: 0, mono: 0 }, At { wall: 0, mono: u64::MAX });
        // A job that ran again has ended again.
        let is_fallible = self.befell(&[Loss::Emptied, Loss::FellBack], begin, end);
        if !self.has_ledger && is_fallible {
            return Vec::new();
        }
        let mut begun: BTreeMap<JobId, Vec<(State, JobId)>> = BTreeMap::new();
        for record in records.values() {
            if let Some(previous) = &record.options().previous {
                begun.entry(previous.id).or_default().push((previous.state, record.id));
            }
        }
        let wrong = |record: &Job| {
            let state = record.stage.end_state()?;
            // A worker adds one as it completes the job. If that end was forgotten, or replaces such an end, it may not count.
            let is_completed = record.stage == Stage::Succeeded && record.message.as_deref() != Some(TAKEN);
            let added = usize::from(is_completed && adds_a_job(record.receipt()));
            let own = record.follow_ups(record.stage).len();
            let epochs = self.jobs.get(&record.id).into_iter().flat_map(|life| life.leases.keys());
            let may_add = epochs.into_iter().any(|&epoch| adds_a_job(Receipt { id: record.id, epoch }));
            let due = if is_fallible { own..=own + usize::from(may_add) } else { own + added..=own + added };
            let found = begun.remove(&record.id).unwrap_or_default();
            let is_lacking = found.len() < *due.start() && self.dropped.is_empty();
            let is_wrong = is_lacking || found.len() > *due.end() || found.iter().any(|&(end, _)| end != state);
            is_wrong.then(|| format!("{} is {state}, which {due:?} jobs follow, and there are {found:?}", record.id))
        };
        records.values().filter_map(wrong).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::follow_up::{FollowUp, Previous};
    use crate::model::job::NewJob;
    use crate::model::options::JobOptions;
    use crate::testing::fixtures;
    use std::sync::Arc;

    #[test]
    fn each_end_has_begun_what_follows_it_once() {
        let follow_up = FollowUp::from(&NewJob::new(*b"{}"));
        let options = JobOptions { then: Some(Arc::from([follow_up])), ..JobOptions::default() };
        let first = Job { stage: Stage::Succeeded, options: options.shared(), ..fixtures::job(7) };
        let follower = |id, state| {
            let previous = Some(Arc::new(Previous::new(&first, state, None, None)));
            Job { options: JobOptions { previous, ..JobOptions::default() }.shared(), ..fixtures::job(id) }
        };
        let judged = |account: &Account, jobs: &[Job]| {
            account.judge_follow_ups(&jobs.iter().map(|job| (job.id, job.clone())).collect()).len()
        };
        let (kept, mut lost) = (Account::new(true), Account::new(false));
        lost.lost(Loss::FellBack, 5, 5);
        let (one, other) = (follower(8, State::Succeeded), follower(9, State::Succeeded));
        assert_eq!(judged(&kept, &[first.clone(), one.clone()]), 0);
        // Its worker adds one.
        let adding = Job { epoch: 3, ..first.clone() };
        assert_eq!(judged(&kept, &[adding.clone(), one.clone(), follower(9, State::Succeeded)]), 0);
        assert_eq!(judged(&kept, &[adding, one.clone()]), 1);
        let faults =
            [vec![first.clone()], vec![first.clone(), one, other], vec![first.clone(), follower(8, State::Failed)]];
        for jobs in faults {
            assert_eq!((judged(&kept, &jobs), judged(&lost, &jobs)), (1, 0), "{jobs:?}");
        }
    }
}
