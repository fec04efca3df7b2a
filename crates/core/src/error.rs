//! What can go wrong, each with a stable code.

use crate::model::id::{JobId, Receipt};
use crate::model::job::State;
use std::borrow::Cow;
use std::sync::Arc;

/// An error of the engine or of a store below it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is outside a limit or malformed. Nothing was changed.
    #[error("expected `{what}` to be {expected}, got {got}")]
    Invalid {
        /// Which part of the request.
        what: Cow<'static, str>,
        /// What would have been right.
        expected: String,
        /// What came.
        got: String,
    },
    /// There is no such job: it never was, or its record was pruned.
    #[error("no job has the id {0}")]
    NotFound(JobId),
    /// Another live job of the queue holds the key.
    #[error("the key {key:?} in the queue {queue:?} is held by the job {holder}")]
    KeyConflict {
        /// The queue.
        queue: Arc<str>,
        /// The key.
        key: Arc<str>,
        /// Who holds it.
        holder: JobId,
    },
    /// The job has changed since it was read. Nothing was changed.
    #[error("the job {id} has version {current}, not the one that was asked for: it has changed since it was read")]
    VersionMismatch {
        /// The job.
        id: JobId,
        /// The version that it has.
        current: u64,
    },
    /// A schedule, or a queue's settings, are not as was asked for. Nothing was changed.
    #[error(
        "the {kind} {name:?} has version {current} (0: there is none), not what was asked for: it has changed since it was read"
    )]
    Changed {
        /// `schedule` or `queue`.
        kind: &'static str,
        /// Its name.
        name: Arc<str>,
        /// The version that it has; 0 where there is none.
        current: u64,
    },
    /// The lease has ended, or never was: the outcome is refused and changes nothing.
    #[error("the lease {0} has ended: its job was handed out again, finished or cancelled")]
    LeaseLost(Receipt),
    /// The job is running and cannot be changed now.
    #[error("the job {0} is running: cancel it, or wait for its end")]
    Running(JobId),
    /// The job has ended.
    #[error("the job {id} has already ended as {state}")]
    Finished {
        /// The job.
        id: JobId,
        /// How it ended.
        state: State,
    },
    /// The job is not due yet, so it is not handed out.
    #[error("the job {0} is not due yet")]
    NotDue(JobId),
    /// The job's queue is paused, or it was not started in time, so it is not handed out.
    #[error("the job {0} is not handed out: its queue is paused, or it was not started in time")]
    HeldBack(JobId),
    /// The job is waiting or running, so there is nothing to retry.
    #[error("the job {0} is live: only a finished one can be retried")]
    Live(JobId),
    /// Another owner holds the lock.
    #[error("the lock {name:?} is held for another {expires_in_ms} ms unless its holder renews or releases it")]
    LockHeld {
        /// The lock.
        name: Arc<str>,
        /// How long it is held unless it is renewed or released.
        expires_in_ms: u64,
    },
    /// The owner does not hold the lock under this fence, or no longer. Nothing was changed.
    #[error("the lock {name:?} is not held by {owner:?} under the fence {fence}: it expired, was released or taken")]
    LockLost {
        /// The lock.
        name: Arc<str>,
        /// Who asked.
        owner: Arc<str>,
        /// Under which fence.
        fence: u64,
    },
    /// There is no such schedule.
    #[error("no schedule has the name {0:?}")]
    NoSchedule(Arc<str>),
    /// The store has no room. Nothing was acknowledged; try again once there is.
    #[error("the store is full: {0}; make room and try again")]
    Full(String),
    /// The store cannot be reached or written just now; try again.
    #[error("the store is not available: {0}; try again")]
    Unavailable(String),
    /// The store holds what it should not.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// Another process has the store open.
    #[error(
        "the store {path:?} is held by the process {pid}: stop that one, connect to it instead, or name another store"
    )]
    Held {
        /// The store.
        path: String,
        /// Who holds it; 0 where that cannot be told.
        pid: u32,
    },
    /// What was named cannot serve as a store: the message says why and what to do.
    #[error("the store cannot be used: {0}")]
    Unusable(String),
    /// The engine is being stopped.
    #[error("this process is stopping; try again on another")]
    Stopping,
    /// Outcomes that could not be recorded have reached their bound, so nothing is handed out until the store can be
    /// written again.
    #[error("{0} outcomes wait to be recorded, so nothing is handed out; make the store writable")]
    Backlog(usize),
}

impl Error {
    /// Every [`code`](Self::code) that there is.
    pub const CODES: [&'static str; 20] = [
        "invalid",
        "not_found",
        "key_conflict",
        "version_mismatch",
        "lease_lost",
        "job_running",
        "already_finished",
        "not_due",
        "held_back",
        "job_live",
        "lock_held",
        "lock_lost",
        "schedule_not_found",
        "store_full",
        "store_unavailable",
        "store_damaged",
        "store_held",
        "store_unusable",
        "stopping",
        "backlog",
    ];

    /// An [`Error::Invalid`].
    pub fn invalid(
        what: impl Into<Cow<'static, str>>,
        expected: impl Into<String>,
        got: impl std::fmt::Display,
    ) -> Self {
        Self::Invalid { what: what.into(), expected: expected.into(), got: got.to_string() }
    }

    /// The stable code, the same in Rust, JSON and the docs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid",
            Self::NotFound(_) => "not_found",
            Self::KeyConflict { .. } => "key_conflict",
            Self::VersionMismatch { .. } | Self::Changed { .. } => "version_mismatch",
            Self::LeaseLost(_) => "lease_lost",
            Self::Running(_) => "job_running",
            Self::Finished { .. } => "already_finished",
            Self::NotDue(_) => "not_due",
            Self::HeldBack(_) => "held_back",
            Self::Live(_) => "job_live",
            Self::LockHeld { .. } => "lock_held",
            Self::LockLost { .. } => "lock_lost",
            Self::NoSchedule(_) => "schedule_not_found",
            Self::Full(_) => "store_full",
            Self::Unavailable(_) => "store_unavailable",
            Self::Damaged(_) => "store_damaged",
            Self::Held { .. } => "store_held",
            Self::Unusable(_) => "store_unusable",
            Self::Stopping => "stopping",
            Self::Backlog(_) => "backlog",
        }
    }

    /// Whether the same request may succeed later without being changed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::LockHeld { .. } | Self::Full(_) | Self::Unavailable(_) | Self::Stopping | Self::Backlog(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_codes_is_whole() {
        let code = include_str!("error.rs").split("pub fn code(").nth(1).unwrap();
        let code = code.split("\n    }\n").next().unwrap();
        let words: Vec<&str> = code.lines().filter_map(|line| line.split('"').nth(1)).collect();
        assert_eq!(words, Error::CODES);
        assert!(words.len() > 10);
    }
}
