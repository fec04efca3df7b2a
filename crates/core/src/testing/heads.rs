//! Removes fields of jobs that a remote broker does not send, so that nobody relies on them.

use crate::model::job::Job;
use crate::ports::{Expired, OutboxEntry, Settled};
use std::sync::Arc;

fn behead(job: &mut Job) {
    (job.payload, job.result) = (Arc::default(), None);
}

/// [Heads](crate::ports::Detail::Head) of these.
pub(super) fn of(mut jobs: Vec<Option<Job>>) -> Vec<Option<Job>> {
    jobs.iter_mut().flatten().for_each(behead);
    jobs
}

/// All expired jobs are heads.
pub(super) fn of_expired(mut expired: Expired) -> Expired {
    let Expired { crashed, untaken, unstarted, .. } = &mut expired;
    [crashed, untaken, unstarted].into_iter().flatten().for_each(behead);
    expired
}

/// Entries have payloads only if these have changed.
pub(super) fn of_settled(mut settled: Settled) -> Settled {
    let unchanged = settled.entries.iter_mut().filter(|entry| !matches!(entry, OutboxEntry::Rewritten(_)));
    unchanged.for_each(|entry| entry.job_mut().payload = Arc::default());
    settled
}
