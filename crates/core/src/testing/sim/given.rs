//! Values that must be unique, whatever a broker forgets: receipts, versions of a job's states, and fences; and the limits
//! of a queue.

use crate::clock::Millis;
use crate::model::id::{JobId, Receipt};
use crate::model::job::{Job, Payload, Stage};
use crate::ports::Limits;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The values that were given so far.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Of all leases, including those whose holder got no answer.
    receipts: BTreeSet<Receipt>,
    /// The state that was seen under each version of a job.
    versions: BTreeMap<(JobId, u64), Seen>,
    /// The job that each push of a queue has made, by its origin.
    origins: BTreeMap<(Arc<str>, Arc<str>), JobId>,
    /// The last fence, of any lock.
    fence: u64,
    /// The limits of the queue that has some; unknown while they are being set.
    pub(super) limits: Option<Limits>,
}

/// A job as it was seen in some version.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    stage: Stage,
    epoch: u64,
    attempt: u32,
    due_at: Millis,
    payload: Payload,
}

impl Given {
    /// A job was leased; returns what is wrong about it.
    pub(super) fn leased(&mut self, job: &Job) -> Option<String> {
        let is_new = self.receipts.insert(job.receipt());
        (!is_new).then(|| format!("under the receipt {}, as before", job.receipt()))
    }

    /// A job was seen in this state: in another state it has another version.
    pub(super) fn saw(&mut self, job: &Job) -> Option<String> {
        let Job { stage, epoch, attempt, due_at, .. } = *job;
        let seen = Seen { stage, epoch, attempt, due_at: due_at.0, payload: job.payload.clone() };
        let before = self.versions.entry((job.id, job.version)).or_insert_with(|| seen.clone());
        (*before != seen).then(|| format!("in the version {} as {seen:?}, and before as {before:?}", job.version))
    }

    /// A push was answered with this job. A repeat is answered with the same one, unless that is gone.
    pub(super) fn made(&mut self, job: &Job, is_gone: impl Fn(JobId) -> bool) -> Option<String> {
        let of_push = (job.queue.clone(), job.origin.clone()?);
        let before = self.origins.insert(of_push, job.id).filter(|before| *before != job.id && !is_gone(*before));
        before.map(|before| format!("though its push had made {before}"))
    }

    /// Checks a newly granted lock, even if its holder never gets the answer.
    pub(super) fn granted(&mut self, name: &str, fence: u64) -> Option<String> {
        let last = self.fence;
        self.fence = fence.max(last);
        (fence <= last).then(|| format!("the lock {name} got the fence {fence} after {last}"))
    }

    /// A job was handed out of the limited queue, of which this many run now.
    pub(super) fn beyond(&self, running: usize) -> Option<String> {
        let limits = self.limits?;
        let is_beyond = limits.max_running.is_some_and(|max| running > max as usize);
        (limits.paused || is_beyond).then(|| format!("beyond {limits:?}: {running} run"))
    }
}
