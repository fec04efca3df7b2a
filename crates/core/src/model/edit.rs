//! Changes of a job from outside, with the same meaning in a broker and in a ledger.

use crate::clock::Millis;
use crate::json::Span;
use crate::model::id::JobId;
use crate::model::job::{Job, Payload, State};
use crate::model::marks::Marks;
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
        /// New jobs that begin with its end.
        successors: Arc<[Job]>,
    },
    /// A job that does not run is removed with its record.
    Delete,
    /// A waiting job gets new values.
    Update(Update),
    /// A waiting job that holds its key becomes this one, which was pushed with the same key: it starts anew with everything
    /// that was sent, and keeps only its id, its origin and its time of creation.
    Replace(Arc<Job>),
    /// A finished job becomes ready, or due later, holding its key again. Brokers hold no finished jobs, so it is for ledgers alone.
    Retry {
        /// How much later than now it is due.
        after: Span,
        /// Whether its attempts, crashes and releases go on from where they were, instead of from 0.
        keeps_attempts: bool,
        /// Its marks from now on; `None` leaves them.
        marks: Option<Arc<Marks>>,
    },
    /// A waiting job that was not started in time becomes failed.
    Expire {
        /// New jobs that begin with its end.
        successors: Arc<[Job]>,
    },
}

impl Change {
    /// Makes a finished job ready with attempt 0.
    pub const RETRY: Self = Self::Retry { after: Span(0), keeps_attempts: false, marks: None };

    /// A cancel with this message.
    pub fn cancel(message: Option<Arc<str>>) -> Self {
        Self::Cancel { message, successors: Arc::default() }
    }

    /// The end of a job that was not started in time.
    pub fn expire() -> Self {
        Self::Expire { successors: Arc::default() }
    }

    /// The new jobs that begin with the end that it makes.
    pub fn successors(&self) -> &[Job] {
        match self {
            Self::Cancel { successors, .. } | Self::Expire { successors } => successors,
            Self::Delete | Self::Update(_) | Self::Replace(_) | Self::Retry { .. } => &[],
        }
    }

    /// The same, with these. Only a change that ends a job can have them.
    #[must_use]
    pub fn followed_by(self, new: Vec<Job>) -> Self {
        match self {
            Self::Cancel { message, .. } => Self::Cancel { message, successors: new.into() },
            Self::Expire { .. } => Self::Expire { successors: new.into() },
            other => other,
        }
    }

    /// Whether it changes fields that a broker in Redis keeps beside the payload, so that the job is
    /// [rewritten](crate::ports::OutboxEntry::Rewritten).
    pub fn rewrites(&self) -> bool {
        match self {
            Self::Update(_) | Self::Replace(_) | Self::Retry { marks: Some(_), .. } => true,
            Self::Cancel { .. } | Self::Delete | Self::Retry { marks: None, .. } | Self::Expire { .. } => false,
        }
    }
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
    /// What a port keeps with it.
    pub marks: Option<Arc<Marks>>,
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
    /// Nothing was changed: the job would end, and others are to begin with that ([`Job::follow_ups`]). They belong to the change, and it
    /// lacks them, or their ids are taken.
    Undecided(Job),
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
