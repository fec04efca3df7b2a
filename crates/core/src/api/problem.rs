//! Errors as RFC 9457 problem documents.

use super::Span;
#[cfg(feature = "openapi")]
use crate::json::schema::{Key, LockName, Owner, ProblemCode, QueueName, ScheduleName};
use crate::{Error, Invalid, JobId, Receipt, State};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An error: a stable code, its description, and the values that it mentions.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `urn:duetime:` and the code.
    #[serde(rename = "type")]
    pub type_uri: String,
    /// The code in words.
    pub title: String,
    /// The HTTP status. In a batch, the status that this element would have alone.
    #[cfg_attr(feature = "openapi", schema(minimum = 400, maximum = 599))]
    pub status: u16,
    /// The error in one sentence.
    pub detail: String,
    /// The stable code, for programs.
    #[cfg_attr(feature = "openapi", schema(value_type = ProblemCode))]
    pub code: String,
    /// The field, parameter or header that is wrong.
    pub field: Option<String>,
    /// The values that are accepted.
    pub expected: Option<String>,
    /// The received value.
    pub got: Option<String>,
    /// The job.
    pub id: Option<JobId>,
    /// The lease.
    pub receipt: Option<Receipt>,
    /// The queue.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<QueueName>))]
    pub queue: Option<Arc<str>>,
    /// The key.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Key>))]
    pub key: Option<Arc<str>>,
    /// The job that holds the key.
    pub holder: Option<JobId>,
    /// The origin that another push has used.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Key>))]
    pub origin: Option<Arc<str>>,
    /// What differs from what that push sent: `payload`, `kind`, `due_at`, `priority`, `key`, `tags` or `options`.
    pub differs: Option<Vec<String>>,
    /// The version that the job has.
    pub current_version: Option<u64>,
    /// The state of the job.
    pub state: Option<State>,
    /// Outcomes that wait to be recorded.
    pub backlog: Option<usize>,
    /// The lock.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<LockName>))]
    pub lock: Option<Arc<str>>,
    /// The schedule.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ScheduleName>))]
    pub schedule: Option<Arc<str>>,
    /// The schedules that push to the queue.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<ScheduleName>>))]
    pub schedules: Option<Vec<Arc<str>>>,
    /// The number of jobs that wait in the queue.
    pub waiting: Option<u64>,
    /// The number of jobs of the queue that run.
    pub running: Option<u64>,
    /// The number of jobs that may wait in the queue.
    pub max_waiting: Option<u32>,
    /// The owner that asked for the lock.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Owner>))]
    pub owner: Option<Arc<str>>,
    /// The fence that the request named.
    pub fence: Option<u64>,
    /// The time until the lock expires unless it is renewed or released.
    pub expires_in: Option<Span>,
    /// The time until the request may be repeated.
    pub retry_after: Option<Span>,
    /// The message of the store.
    pub reason: Option<String>,
}

impl Problem {
    /// A problem with nothing but words.
    pub fn new(code: &str, status: u16, title: &str, detail: impl Into<String>) -> Self {
        Self {
            type_uri: format!("urn:duetime:{code}"),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            code: code.to_owned(),
            ..Self::default()
        }
    }

    /// An error of the engine.
    pub fn of(error: &Error, status: u16, title: &str) -> Self {
        let mut problem = Self::new(error.code(), status, title, error.to_string());
        match error {
            Error::Invalid(Invalid { what, expected, got }) => {
                problem.field = Some(what.clone().into_owned());
                problem.expected = Some(expected.clone());
                problem.got = Some(got.clone());
            }
            Error::NotFound(id) | Error::Running(id) | Error::NotDue(id) | Error::HeldBack(id) | Error::Live(id) => {
                problem.id = Some(*id);
            }
            Error::KeyConflict { queue, key, holder } => {
                problem.queue = Some(queue.clone());
                problem.key = Some(key.clone());
                problem.holder = Some(*holder);
            }
            Error::OriginReused { queue, origin, first, differs } => {
                problem.queue = Some(queue.clone());
                problem.origin = Some(origin.clone());
                problem.id = Some(*first);
                problem.differs = Some(differs.clone());
            }
            Error::VersionMismatch { id, current } => {
                problem.id = Some(*id);
                problem.current_version = Some(*current);
            }
            Error::Changed { kind, name, current } => {
                let place = if *kind == SCHEDULE { &mut problem.schedule } else { &mut problem.queue };
                *place = Some(name.clone());
                problem.current_version = Some(*current);
            }
            Error::LeaseLost(receipt) => problem.receipt = Some(*receipt),
            Error::Finished { id, state } => {
                problem.id = Some(*id);
                problem.state = Some(*state);
            }
            Error::LockHeld { name, expires_in } => {
                problem.lock = Some(name.clone());
                problem.expires_in = Some(*expires_in);
            }
            Error::LockLost { name, owner, fence } => {
                problem.lock = Some(name.clone());
                problem.owner = Some(owner.clone());
                problem.fence = Some(*fence);
            }
            Error::QueueInUse { queue, waiting, running, schedules } => {
                problem.queue = Some(queue.clone());
                problem.waiting = Some(*waiting);
                problem.running = Some(*running);
                problem.schedules = Some(schedules.clone());
            }
            Error::QueueFull { queue, max_waiting } => {
                problem.queue = Some(queue.clone());
                problem.max_waiting = Some(*max_waiting);
            }
            Error::NoSchedule(name) => problem.schedule = Some(name.clone()),
            Error::Full(reason) | Error::LimitReached(reason) | Error::Unavailable(reason) | Error::Damaged(reason) => {
                problem.reason = Some(reason.clone());
            }
            Error::Backlog(count) => problem.backlog = Some(*count),
            _ => {}
        }
        problem
    }

    /// The engine's error, if it is one.
    pub fn error(&self) -> Option<Error> {
        let reason = || self.reason.clone().unwrap_or_else(|| self.detail.clone());
        Some(match self.code.as_str() {
            "invalid" => Error::invalid(self.field.clone()?, self.expected.clone()?, self.got.as_ref()?),
            "not_found" => Error::NotFound(self.id?),
            "key_conflict" => {
                Error::KeyConflict { queue: self.queue.clone()?, key: self.key.clone()?, holder: self.holder? }
            }
            "origin_reused" => Error::OriginReused {
                queue: self.queue.clone()?,
                origin: self.origin.clone()?,
                first: self.id?,
                differs: self.differs.clone()?,
            },
            "version_mismatch" => {
                let current = self.current_version?;
                match (self.id, &self.schedule, &self.queue) {
                    (Some(id), ..) => Error::VersionMismatch { id, current },
                    (None, Some(name), _) => Error::Changed { kind: SCHEDULE, name: name.clone(), current },
                    (None, None, Some(name)) => Error::Changed { kind: QUEUE, name: name.clone(), current },
                    (None, None, None) => return None,
                }
            }
            "lease_lost" => Error::LeaseLost(self.receipt?),
            "job_running" => Error::Running(self.id?),
            "already_finished" => Error::Finished { id: self.id?, state: self.state? },
            "not_due" => Error::NotDue(self.id?),
            "held_back" => Error::HeldBack(self.id?),
            "job_live" => Error::Live(self.id?),
            "lock_held" => Error::LockHeld { name: self.lock.clone()?, expires_in: self.expires_in? },
            "lock_lost" => Error::LockLost { name: self.lock.clone()?, owner: self.owner.clone()?, fence: self.fence? },
            "queue_in_use" => Error::QueueInUse {
                queue: self.queue.clone()?,
                waiting: self.waiting?,
                running: self.running?,
                schedules: self.schedules.clone()?,
            },
            "queue_full" => Error::QueueFull { queue: self.queue.clone()?, max_waiting: self.max_waiting? },
            "schedule_not_found" => Error::NoSchedule(self.schedule.clone()?),
            "store_full" => Error::Full(reason()),
            "store_unavailable" => Error::Unavailable(reason()),
            "store_damaged" => Error::Damaged(reason()),
            "stopping" => Error::Stopping,
            "backlog" => Error::Backlog(self.backlog?),
            _ => return None,
        })
    }
}

/// The subject of an [`Error::Changed`].
const SCHEDULE: &str = "schedule";
const QUEUE: &str = "queue";
