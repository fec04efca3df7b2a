//! What happens to jobs, as it is counted and published.

use crate::clock::Millis;
use crate::json::Timestamp;
use crate::model::id::JobId;
use crate::model::job::{Job, State};
use crate::ports::{Run, Transition, What};
use std::sync::{Arc, OnceLock};

/// Something that happened to a job, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Observation {
    Pushed,
    Imported,
    /// With its lateness in milliseconds, if that is meaningful: since its due time, or since it was made if that is later.
    Started(Option<u64>),
    /// A worker completed it after this many milliseconds.
    Succeeded(u64),
    Taken,
    /// A worker failed it after this many milliseconds.
    Failed(u64),
    Crashed,
    Released,
    Expired,
    Cancelled,
    Changed,
    Retried,
    Deleted,
}

impl Observation {
    /// A job was leased, or taken.
    pub(in crate::engine) fn started(job: &Job) -> Self {
        let started_at = job.started_at.unwrap_or(job.due_at);
        let is_first = (job.attempt, job.crashes) == (1, 0);
        Self::Started(is_first.then(|| started_at.0.saturating_sub(job.due_at.0.max(job.created_at.0))))
    }

    /// The word for it, if it left the job in this state.
    fn what(self, state: State) -> Option<What> {
        Some(match (self, state) {
            (Self::Failed(_) | Self::Crashed | Self::Released, State::Failed) => What::Failed,
            (Self::Failed(_) | Self::Crashed | Self::Released, State::Cancelled) => What::Cancelled,
            // It is published as taken.
            (Self::Started(_), State::Succeeded) => return None,
            (Self::Started(_), _) => What::Started,
            (Self::Pushed, _) => What::Pushed,
            (Self::Imported, _) => What::Imported,
            (Self::Succeeded(_), _) => What::Succeeded,
            (Self::Taken, _) => What::Taken,
            (Self::Failed(_), _) => What::Retrying,
            (Self::Crashed, _) => What::Crashed,
            (Self::Released, _) => What::Released,
            (Self::Expired, _) => What::Expired,
            (Self::Cancelled, _) => What::Cancelled,
            (Self::Changed, _) => What::Changed,
            (Self::Retried, _) => What::Retried,
            (Self::Deleted, _) => What::Deleted,
        })
    }
}

/// A job to which something happened, as it is published, in its current state.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Subject<'a> {
    pub(in crate::engine) queue: &'a Arc<str>,
    id: JobId,
    /// `None` if there were no subscribers when it was read.
    kind: Option<&'a Arc<str>>,
    pub(in crate::engine) state: State,
    attempt: u32,
    due_at: Millis,
}

impl<'a> Subject<'a> {
    pub(in crate::engine) fn of(job: &'a Job, now: Millis) -> Self {
        let Job { id, queue, kind, attempt, due_at, .. } = job;
        Self { queue, id: *id, kind: Some(kind), state: job.state(now), attempt: *attempt, due_at: due_at.0 }
    }

    pub(in crate::engine) fn of_run(id: JobId, run: &'a Run, state: State) -> Self {
        let Run { queue, kind, attempt, due_at, .. } = run;
        Self { queue, id, kind: kind.as_ref(), state, attempt: *attempt, due_at: *due_at }
    }

    pub(in crate::engine) fn transition(self, event: Observation, at: Millis) -> Option<Arc<Transition>> {
        let Self { queue, id, kind, state, attempt, due_at } = self;
        let waits = matches!(state, State::Scheduled | State::Ready);
        Some(Arc::new(Transition {
            at: Timestamp(at),
            what: event.what(state)?,
            id,
            queue: queue.clone(),
            kind: kind?.clone(),
            state,
            attempt,
            due_at: waits.then_some(Timestamp(due_at)),
            json: OnceLock::new(),
        }))
    }
}
