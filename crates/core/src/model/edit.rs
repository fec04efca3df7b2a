//! Changes of a job from outside, with the same meaning in a broker and in a ledger.

use crate::clock::Millis;
use crate::model::id::JobId;
use crate::model::job::{Job, Payload, State};
use std::sync::Arc;

/// A change of one job.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The job.
    pub id: JobId,
    /// Change it only if it has this version.
    pub version: Option<u64>,
    /// The change.
    pub change: Change,
}

/// A change to a job.
#[derive(Clone, Debug)]
pub enum Change {
    /// A waiting job becomes cancelled; a running one's worker is asked to stop.
    Cancel {
        /// Becomes the job's message.
        message: Option<Arc<str>>,
    },
    /// A job that does not run is removed with its record.
    Delete,
    /// A waiting job gets new values.
    Update(Update),
    /// A waiting job that holds its key becomes this one, which was pushed with the same key: it starts anew with everything
    /// that was sent, and keeps only its id, its origin and its time of creation.
    Replace(Arc<Job>),
    /// A finished job becomes ready with attempt 0, holding its key again. Brokers hold no finished jobs, so it is for
    /// ledgers alone.
    Retry,
    /// A scheduled job becomes due now; a failed one becomes ready, and holds its key again. For the beanstalkd protocol.
    Kick {
        /// Whether the job counts it.
        counts: bool,
    },
    /// A waiting job that was not started in time becomes failed.
    Expire,
}

/// New values of a waiting job; fields that are `None` stay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// The earliest time at which it may run; also its new `first_due_at`.
    pub due_at: Option<Millis>,
    /// 0 is the most urgent.
    pub priority: Option<u32>,
    /// The handler's input.
    pub payload: Option<Payload>,
    /// Its labels.
    pub tags: Option<Arc<[Arc<str>]>>,
}

/// The outcome of an edit.
#[derive(Clone, Debug, PartialEq)]
pub enum Edited {
    /// The edit was made; the job in its new state (or its last one, if it was deleted).
    Changed(Job),
    /// The job is running, and its worker will be told to stop.
    CancelAsked(Job),
    /// The job is running, and the change is not for running jobs.
    Running(Job),
    /// The job has another version.
    Mismatch(Job),
    /// The job has ended already (or, for a retry, has not). For a broker, a job whose removal is in the outbox has ended,
    /// too.
    Unfit {
        /// The job, if it exists.
        id: JobId,
        /// Its state.
        state: State,
    },
    /// The key that a retried job would hold is held by this one, in this queue.
    KeyHeld(JobId, Arc<str>, Arc<str>),
    /// The job is not known here.
    Unknown,
}
