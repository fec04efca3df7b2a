//! Errors, each with a stable code.

use crate::invalid::Invalid;
use crate::json::Span;
use crate::model::id::{JobId, Receipt};
use crate::model::job::State;
use std::borrow::Cow;
use std::sync::Arc;
use strum::VariantNames;

/// An error of the engine or of a store below it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum Error {
    /// The request is outside a limit or malformed. Nothing was changed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such job: it never existed, or its record was pruned.
    #[error("there is no job with the id {0}: it never existed, was deleted, or its record has expired")]
    NotFound(JobId),
    /// Another live job of the queue holds the key.
    #[error("the key {key:?} in the queue {queue:?} belongs to the live job {holder}")]
    KeyConflict {
        /// The queue.
        queue: Arc<str>,
        /// The key.
        key: Arc<str>,
        /// The job that holds it.
        holder: JobId,
    },
    /// The origin is that of a job that was sent with other content, so this is no repeat. Nothing was changed.
    #[error(
        "the origin {origin:?} in the queue {queue:?} is that of the job {first}, which was sent with another {}: send the \
         same again, or give another job another origin",
        differs.join(", ")
    )]
    OriginReused {
        /// The queue.
        queue: Arc<str>,
        /// The origin.
        origin: Arc<str>,
        /// The job that has it.
        first: JobId,
        /// What differs, as it is called in JSON: `payload`, `kind`, `due_at` (also for a delay), `priority`, `key`, `tags`
        /// or `options`, which stands for all others.
        differs: Vec<String>,
    },
    /// The job has changed since it was read. Nothing was changed.
    #[error("the job {id} has changed since it was read: its version is now {current}; read it again")]
    VersionMismatch {
        /// The job.
        id: JobId,
        /// The version that it has.
        current: u64,
    },
    /// A schedule, or a queue's settings, are not as expected. Nothing was changed.
    #[error(
        "the {kind} {name:?} has changed since it was read: its version is now {current} (0 if there is none); read it again"
    )]
    #[strum(serialize = "version_mismatch")]
    Changed {
        /// `schedule` or `queue`.
        kind: &'static str,
        /// Its name.
        name: Arc<str>,
        /// The version that it has; 0 if there is none.
        current: u64,
    },
    /// The lease has ended, or never was: the outcome is refused and changes nothing.
    #[error("the lease {0} is lost: it expired, or its job has finished or was cancelled; drop the outcome")]
    LeaseLost(Receipt),
    /// The job is running and cannot be changed now.
    #[error("the job {0} is running: cancel it, or wait until it ends")]
    #[strum(serialize = "job_running")]
    Running(JobId),
    /// The job has ended.
    #[error("the job {id} has already finished: it is {state}")]
    #[strum(serialize = "already_finished")]
    Finished {
        /// The job.
        id: JobId,
        /// The state in which it ended.
        state: State,
    },
    /// The job is not due yet, so it is not handed out.
    #[error("the job {0} is not due yet: wait, or run it now")]
    NotDue(JobId),
    /// The job's queue is paused, or it was not started in time, so it is not handed out.
    #[error("the job {0} is held back: its queue is paused, or the job has expired")]
    HeldBack(JobId),
    /// The job is waiting or running, so there is nothing to retry.
    #[error("the job {0} has not finished, so it cannot be retried; a waiting job can be run now")]
    #[strum(serialize = "job_live")]
    Live(JobId),
    /// Another owner holds the lock.
    #[error("the lock {name:?} is held; it expires in {expires_in} unless it is renewed or released before")]
    LockHeld {
        /// The lock.
        name: Arc<str>,
        /// How long it is held unless it is renewed or released.
        expires_in: Span,
    },
    /// The owner does not hold the lock under this fence, or no longer. Nothing was changed.
    #[error("the lock {name:?} is not held by {owner:?} with fence {fence}: it expired, or was released or taken over")]
    LockLost {
        /// The lock.
        name: Arc<str>,
        /// The owner that the request named.
        owner: Arc<str>,
        /// The fence that the request named.
        fence: u64,
    },
    /// Jobs wait or run in the queue, or schedules push to it, so it is not deleted.
    #[error(
        "the queue {queue:?} is in use: {}; a forced deletion cancels jobs that wait, asks running ones to stop, and \
         deletes the queue once nothing runs", uses(*waiting, *running, schedules)
    )]
    QueueInUse {
        /// The queue.
        queue: Arc<str>,
        /// Jobs that wait.
        waiting: u64,
        /// Jobs that run.
        running: u64,
        /// The schedules that push to it, by name.
        schedules: Vec<Arc<str>>,
    },
    /// As many jobs wait in the queue as may wait, so it takes no more. Nothing was pushed; try again later.
    #[error("the queue {queue:?} is full: its `max_waiting` is {max_waiting}; try again later, or add workers")]
    QueueFull {
        /// The queue.
        queue: Arc<str>,
        /// How many jobs may wait in it.
        max_waiting: u32,
    },
    /// There is no such schedule.
    #[error("there is no schedule named {0:?}")]
    #[strum(serialize = "schedule_not_found")]
    NoSchedule(Arc<str>),
    /// The store has no room. Nothing was acknowledged; try again once there is.
    #[error("the store is full: {0}; make room, then try again")]
    #[strum(serialize = "store_full")]
    Full(String),
    /// There is as much of something as may be. The message says of what, how much, the limit, and what to do.
    #[error("{0}")]
    #[strum(serialize = "store_full")]
    LimitReached(String),
    /// The store cannot be reached or written just now; try again.
    #[error("the store is unavailable: {0}; try again")]
    #[strum(serialize = "store_unavailable")]
    Unavailable(String),
    /// The store's content is invalid.
    #[error("the store is damaged: {0}")]
    #[strum(serialize = "store_damaged")]
    Damaged(String),
    /// Another process has the store open.
    #[error(
        "the store {path:?} is open in process {pid}: connect to that process if it is a server, stop it, or use another store"
    )]
    #[strum(serialize = "store_held")]
    Held {
        /// The store.
        path: String,
        /// The id of the process that holds it; 0 if unknown.
        pid: u32,
    },
    /// The path or URL cannot serve as a store: the message says why and what to do.
    #[error("the store cannot be used: {0}")]
    #[strum(serialize = "store_unusable")]
    Unusable(String),
    /// The engine is being stopped.
    #[error("this process is stopping; try again on another")]
    Stopping,
    /// Outcomes that could not be recorded have reached their bound, so nothing is handed out until the store can be
    /// written again.
    #[error("{0} outcomes wait to be recorded, so no jobs are handed out; make the store writable")]
    Backlog(usize),
}

impl Error {
    /// Every [`code`](Self::code) that there is.
    pub const CODES: &'static [&'static str] = Self::VARIANTS;

    /// An [`Error::Invalid`].
    pub fn invalid(
        what: impl Into<Cow<'static, str>>,
        expected: impl Into<String>,
        got: impl std::fmt::Display,
    ) -> Self {
        Invalid::new(what, expected, got).into()
    }

    /// The stable code, the same in Rust, JSON and the docs.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// Whether the same request may succeed later without being changed.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::LockHeld { .. }
                | Self::QueueFull { .. }
                | Self::Full(_)
                | Self::LimitReached(_)
                | Self::Unavailable(_)
                | Self::Stopping
                | Self::Backlog(_)
        )
    }
}

/// What keeps a queue in use.
fn uses(waiting: u64, running: u64, schedules: &[Arc<str>]) -> String {
    let jobs = |count: u64, one: &str, many: &str| (count > 0).then(|| counted(count, one, many));
    let waits = jobs(waiting, "job waits", "jobs wait");
    let runs = jobs(running, "job runs", "jobs run");
    let pushes = (!schedules.is_empty()).then(|| {
        let (noun, verb) = if schedules.len() == 1 { ("schedule", "pushes") } else { ("schedules", "push") };
        format!("the {noun} {} {verb} to it", schedules.join(", "))
    });
    waits.into_iter().chain(runs).chain(pushes).collect::<Vec<_>>().join(", ")
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The words of the system for a failure, without the number that Rust adds and without prefixes of libraries.
#[doc(hidden)]
pub fn system_words(said: &str) -> String {
    let said = said.replace("failed to lookup address information: ", "");
    let Some((before, rest)) = said.split_once(" (os error ") else { return said };
    let after = rest.split_once(')').map_or("", |(_, after)| after);
    system_words(&format!("{before}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_words_have_no_numbers() {
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(
            system_words(&format!("{error}: {error}; x")),
            "No such file or directory: No such file or directory; x"
        );
        assert_eq!(
            system_words("failed to lookup address information: Name or service not known"),
            "Name or service not known"
        );
    }

    #[test]
    fn codes_are_stable() {
        let codes = "invalid not_found key_conflict origin_reused version_mismatch version_mismatch lease_lost job_running \
                     already_finished not_due held_back job_live lock_held lock_lost queue_in_use queue_full schedule_not_found \
                     store_full store_full store_unavailable store_damaged store_held store_unusable stopping backlog";
        assert!(codes.split(' ').eq(Error::CODES.iter().copied()));
        assert_eq!(Error::Unavailable(String::new()).code(), "store_unavailable");
    }
}
