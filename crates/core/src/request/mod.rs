//! Requests to the engine, and its answers.

mod build;
mod bulk_counts;
mod filter;
mod pause;
mod queue_settings;

pub use bulk_counts::BulkCounts;
pub use filter::Filter;
pub use pause::Pause;
pub use queue_settings::{Configured, QueueRetention, QueueSettings, WhenFull};

use crate::clock::Millis;
use crate::error::Error;
use crate::invalid::Invalid;
use crate::json::{Span, Timestamp, or_default};
use crate::limits::LOCK_TTL_MS_DEFAULT;
use crate::model::follow_up::FollowUps;
pub use crate::model::id::JobRef;
use crate::model::id::{JobId, Receipt};
use crate::model::job::{Due, Job, Payload, State};
use crate::model::marks::Marks;
use crate::model::retry::Retry;
use crate::model::states::States;
use crate::model::target::{RedisList, Target};
pub use crate::ports::Source;
use crate::ports::{Counts, Lease, Retention, Tally, Window};
use crate::rules::{Failure, Park, Release};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One answer for each item of a request, in order.
pub type Answers<T> = Vec<Result<T, Error>>;

/// The outcome of a push for one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Pushed {
    /// The job: the new one, the one that holds the key, the one with this origin, or the one that was dropped.
    pub job: Job,
    /// The jobs.
    pub outcome: PushOutcome,
}

/// The outcome of an import for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Imported {
    /// The job's id here.
    pub id: JobId,
    /// Whether it is new; otherwise it was here already, and is unchanged.
    pub is_new: bool,
}

/// Whether a push made a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum PushOutcome {
    /// It did.
    Created,
    /// The key was held; the holder is as it was.
    Kept,
    /// The key was held; the holder has the new values.
    Replaced,
    /// The origin was known: the push is a repeat. The job that the first push made is as it was.
    Repeated,
    /// The queue was full, and [drops](WhenFull::Drop) what it has no room for: the job is not stored, and its id stays unused.
    Dropped,
}

impl PushOutcome {
    /// The word for it, as in JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct LockRequest {
    /// The lock: 1 to 255 bytes.
    pub name: Arc<str>,
    /// The owner: 1 to 255 bytes, unique to one holder.
    pub owner: Arc<str>,
    /// The time to live unless it is renewed: 100 ms to 24 h.
    pub ttl: Span,
    /// How long to wait for the lock: at most 60 s.
    pub wait: Span,
    /// Whether the place in line is kept for a moment after the wait, for another request that continues the wait.
    pub keep_place: bool,
}

impl LockRequest {
    /// A request that does not wait, for 15 s.
    pub fn new(name: impl Into<Arc<str>>, owner: impl Into<Arc<str>>) -> Self {
        let (name, owner) = (name.into(), owner.into());
        Self { name, owner, ttl: Span(LOCK_TTL_MS_DEFAULT), wait: Span(0), keep_place: false }
    }

    /// Sets the time to live: 100 ms to 24 h; by default 15 s.
    #[must_use]
    pub fn ttl(self, ttl: impl Into<Span>) -> Self {
        Self { ttl: ttl.into(), ..self }
    }

    /// Sets how long to wait for the lock: at most 60 s; by default the request does not wait.
    #[must_use]
    pub fn wait(self, wait: impl Into<Span>) -> Self {
        Self { wait: wait.into(), ..self }
    }
}

/// A reserve.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct ReserveRequest {
    /// The jobs.
    pub from: Source,
    /// The maximum number of jobs: 1 to 1000.
    pub limit: usize,
    /// How many of them the caller can start at once, at most `limit`, which is the default. Beyond these it gets no job on its last
    /// attempt, so that a caller that is killed ends no job that it had not begun. With 0 the request does not wait.
    pub free: Option<usize>,
    /// The lease, 1 s to 12 h; else each job's own, its queue's, or 60 s.
    pub lease: Option<Span>,
    /// How long to wait if nothing is due: at most 60 s.
    pub wait: Span,
    /// A repeat with the same id gets the same leases.
    pub request_id: Option<Arc<str>>,
    /// The name of the worker, by which it is [listed](crate::Engine::workers): 1 to 255 bytes; by default none.
    pub worker: Option<Arc<str>>,
}

impl ReserveRequest {
    /// A request for one job, that does not wait.
    pub fn new(from: impl Into<Source>) -> Self {
        Self { from: from.into(), limit: 1, free: None, lease: None, wait: Span(0), request_id: None, worker: None }
    }

    /// Sets the maximum number of jobs: 1 to 1000; by default 1.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Sets how many of them the caller can start at once: see the [field](Self::free). By default all.
    #[must_use]
    pub fn free(self, free: usize) -> Self {
        Self { free: Some(free), ..self }
    }

    /// Sets the lease, 1 s to 12 h; by default each job's own, its queue's, or 60 s.
    #[must_use]
    pub fn lease(self, lease: impl Into<Span>) -> Self {
        Self { lease: Some(lease.into()), ..self }
    }

    /// Sets how long to wait if nothing is due: at most 60 s; by default the request does not wait.
    #[must_use]
    pub fn wait(self, wait: impl Into<Span>) -> Self {
        Self { wait: wait.into(), ..self }
    }

    /// Sets the id by which a repeat gets the same leases.
    #[must_use]
    pub fn request_id(self, request_id: impl Into<Arc<str>>) -> Self {
        Self { request_id: Some(request_id.into()), ..self }
    }

    /// Sets the name of the worker, by which it is listed: 1 to 255 bytes; by default none.
    #[must_use]
    pub fn worker(self, worker: impl Into<Arc<str>>) -> Self {
        Self { worker: Some(worker.into()), ..self }
    }
}

/// A take.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct TakeRequest {
    /// The source.
    pub from: Source,
    /// The maximum number of jobs: 1 to 1000.
    pub limit: usize,
    /// Only jobs due in this range; a `to` in the future is refused.
    pub due_from: Option<Timestamp>,
    /// See `due_from`.
    pub due_to: Option<Timestamp>,
    /// A repeat with the same id gets the same jobs.
    pub request_id: Option<Arc<str>>,
}

/// The jobs that a reserve or take handed out.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Reservation {
    /// Leases, or taken jobs.
    pub leases: Vec<Lease>,
    /// Nothing more is due in these queues before this instant; `None` if nothing waits, or nothing that is due soon enough to be loaded.
    pub next_due_at: Option<Timestamp>,
    /// Named jobs that were not handed out, and why.
    pub refused: Vec<(JobId, Error)>,
}

impl Reservation {
    /// What was handed out.
    #[doc(hidden)]
    pub fn new(leases: Vec<Lease>, next_due_at: Option<Timestamp>, refused: Vec<(JobId, Error)>) -> Self {
        Self { leases, next_due_at, refused }
    }
}

/// The outcome with which a worker ends a lease.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The job is done.
    Complete {
        /// At most 1 MiB, kept with the job.
        result: Option<Payload>,
        /// Jobs that are pushed in the same step, beside those of the job's own `then`: at most 16.
        then: FollowUps,
    },
    /// The attempt failed.
    Fail(Failure),
    /// The job is given back; the attempt does not count.
    Release(Release),
    /// The job is set aside: failed, and kept until it is retried or deleted.
    Park(Park),
}

impl Outcome {
    /// The job is done, with this result of at most 1 MiB.
    pub const fn complete(result: Option<Payload>) -> Self {
        Self::Complete { result, then: None }
    }

    /// The job is given back. It is due again after this delay; with 0 it keeps its place.
    pub fn release(delay: impl Into<Span>) -> Self {
        Self::Release(Release::after(delay))
    }
}

/// The outcome with which a worker, the engine itself, or a port of another protocol ends a lease. The marks of a port replace
/// those that the job had; `None` leaves them.
#[derive(Clone, Debug)]
pub enum Ending {
    /// Like a worker.
    Outcome(Outcome),
    /// Nobody received the lease: the job is given back, whatever its age.
    Unclaimed,
    /// The holder has gone: the job is given back, and the attempt counts.
    Abandoned,
    /// Like a release, but the attempt counts.
    Return(Release, Option<Arc<Marks>>),
    /// Like a worker's park.
    Park(Park, Option<Arc<Marks>>),
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        Self::Outcome(outcome)
    }
}

/// The result of a settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Settled))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Settlement {
    /// The lease.
    pub receipt: Receipt,
    /// The job's state now.
    pub state: State,
    /// False if the outcome is not in the ledger yet, but in a broker that outlives this process.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub recorded: bool,
}

/// The default of `recorded`.
fn yes() -> bool {
    true
}

/// A lease that continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Extended))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Extension {
    /// The lease.
    pub receipt: Receipt,
    /// When it ends.
    pub lease_until: Timestamp,
    /// Whether the worker should stop: the job was cancelled.
    #[serde(default, rename = "cancel_requested")]
    pub cancel_asked: bool,
}

/// The result of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum CancelOutcome {
    /// The job will not run.
    Cancelled,
    /// It is running, and its worker is asked to stop.
    CancelRequested,
    /// It had ended before.
    AlreadyFinished,
}

/// New values of a waiting job; fields that are `None` stay.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Patch {
    /// The earliest time at which it may run.
    pub due: Option<Due>,
    /// 0 is the most urgent.
    pub priority: Option<u32>,
    /// The handler's input.
    pub payload: Option<Payload>,
}

/// The jobs to find.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Selection))]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Query {
    /// In this queue.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::schema::QueueName>))]
    pub queue: Option<Arc<str>>,
    /// In one of these states; empty for all.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<States>))]
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "States::is_empty")]
    pub state: States,
    /// With this tag.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::schema::Tag>))]
    pub tag: Option<Arc<str>>,
    /// With this key; needs a queue.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::schema::Key>))]
    pub key: Option<Arc<str>>,
    /// Of this kind.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::schema::Kind>))]
    pub kind: Option<Arc<str>>,
    /// Due from this instant on.
    pub due_from: Option<Timestamp>,
    /// Due up to this instant.
    pub due_to: Option<Timestamp>,
}

impl Query {
    /// Whether it has no conditions.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn window(&self) -> Window {
        Window { from: self.due_from.map_or(0, |at| at.0), to: self.due_to.map_or(Millis::MAX, |at| at.0) }
    }
}

/// A page of jobs.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Listed {
    /// In the order that [`find`](crate::engine::Engine::find) tells.
    pub jobs: Vec<Job>,
    /// The opaque cursor of the next page; `None` at the end. A page may be short and still have a next one.
    pub next_cursor: Option<String>,
}

/// An action on many jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum BulkAction {
    /// Cancel.
    Cancel,
    /// Retry those that have ended.
    Retry,
    /// The same, spread over this span, at most 24 h: each job is due within it, at a place that its id decides.
    RetryOver(Span),
    /// Give waiting jobs another due time.
    Reschedule(Due),
    /// The same, spread over this span from then on, at most 24 h. With [`Due::Now`] no job becomes due later than it is.
    RescheduleOver(Due, Span),
    /// Delete those that do not run.
    Delete,
}

impl BulkAction {
    /// The word for it, as in the paths of the API.
    #[doc(hidden)]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry | Self::RetryOver(_) => "retry",
            Self::Reschedule(_) | Self::RescheduleOver(..) => "reschedule",
            Self::Delete => "delete",
        }
    }
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct QueueStatus {
    /// Its name.
    pub queue: Arc<str>,
    /// Its live jobs, `scheduled` including those beyond the horizon.
    pub counts: Counts,
    /// Its jobs by stored state.
    pub tally: Tally,
    /// Its settings.
    pub settings: QueueSettings,
    /// A server delivers no job of the queue until then: its target is overloaded or unavailable. `None` in a list, and in a
    /// process that delivers nothing.
    pub target_held_until: Option<Timestamp>,
    /// What the process did for it lately.
    pub lately: Lately,
}

/// What one process did for a queue lately. Other processes that share the store are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Lately {
    /// Workers that have asked for its jobs within the last minute.
    pub workers: u64,
    /// Attempts that started in the last whole minute, or in the current one if these are more already. Only the first 200 queues are
    /// counted separately; 0 for others.
    pub started: u64,
    /// 99 % of the first attempts of the last two minutes were at most this late; `null` if none started.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub lateness_p99: Option<Span>,
    /// Since when its target has taken no job; omitted if it takes them, or if there is no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_down_since: Option<Timestamp>,
}

/// The options of an engine.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Options {
    /// How far ahead the broker holds jobs; by default 1 h. Jobs are loaded in steps of ten minutes beyond it.
    pub horizon: Span,
    /// About how many bytes live jobs may take in the broker; jobs due beyond that wait in the ledger. By default 512 MiB in
    /// this process's memory, and in Redis three quarters of its `maxmemory`, or half of its machine's memory.
    pub memory_max: Option<u64>,
    /// Largest payload, by default 1 MiB, up to 64 MiB.
    pub payload_bytes_max: usize,
    /// How long finished jobs are kept.
    pub retention: Retention,
    /// The number of unrecorded outcomes at which no more jobs are handed out; by default 100,000. Those that this process
    /// keeps may also take a quarter of [`memory_max`](Self::memory_max), or 128 MiB; beyond that no outcome is accepted.
    pub backlog_max: usize,
    /// Whether a settle is answered only once its outcome is in a ledger that several processes share. By default it is
    /// answered once the outcome is in the broker, and recorded a moment later. A ledger of a single process always records
    /// first.
    pub settles_recorded: bool,
    /// Retry rules of kinds. A job of such a kind inherits what neither it nor its queue sets. All that use one store need
    /// the same ones. By default none.
    #[doc(hidden)]
    pub kind_rules: &'static [(&'static str, Retry)],
    /// Checks the Redis list of a target, wherever a target is given. The code that delivers knows the layouts; by default
    /// all are accepted.
    #[doc(hidden)]
    pub list_check: fn(&RedisList) -> Result<(), Invalid>,
}

impl Default for Options {
    fn default() -> Self {
        use crate::limits::{HOUR_MS, PAYLOAD_BYTES_DEFAULT};
        Self {
            horizon: Span(HOUR_MS),
            memory_max: None,
            payload_bytes_max: PAYLOAD_BYTES_DEFAULT,
            retention: Retention::default(),
            backlog_max: 100_000,
            settles_recorded: false,
            kind_rules: &[],
            list_check: |_| Ok(()),
        }
    }
}

impl Options {
    /// Sets how far ahead the broker holds jobs; by default 1 h. Later jobs wait in the ledger.
    #[must_use]
    pub fn horizon(self, horizon: impl Into<Span>) -> Self {
        Self { horizon: horizon.into(), ..self }
    }

    /// Sets about how many bytes live jobs may take in the broker; jobs due beyond that wait in the ledger. By default 512 MiB in this
    /// process's memory, and in Redis three quarters of its `maxmemory`, or half of its machine's memory.
    #[must_use]
    pub fn memory_max(self, bytes: u64) -> Self {
        Self { memory_max: Some(bytes), ..self }
    }

    /// Sets the largest payload; by default 1 MiB, up to 64 MiB.
    #[must_use]
    pub fn payload_bytes_max(self, bytes: usize) -> Self {
        Self { payload_bytes_max: bytes, ..self }
    }

    /// Sets how long finished jobs are kept; by default 24 h, and failed ones 30 d.
    #[must_use]
    pub fn retention(self, retention: Retention) -> Self {
        Self { retention, ..self }
    }

    /// Sets the number of unrecorded outcomes at which no more jobs are handed out; by default 100,000.
    #[must_use]
    pub fn backlog_max(self, outcomes: usize) -> Self {
        Self { backlog_max: outcomes, ..self }
    }

    /// Answers a settle only once its outcome is in a ledger that several processes share; by default once it is in the broker.
    #[must_use]
    pub fn settles_recorded(self, recorded: bool) -> Self {
        Self { settles_recorded: recorded, ..self }
    }

    /// Whether a target that is given keeps what [`list_check`](Self::list_check) asks for.
    pub(crate) fn check_target(&self, target: Option<&Target>) -> Result<(), Invalid> {
        match target {
            Some(Target::RedisList(list)) => (self.list_check)(list),
            Some(Target::Url(_) | Target::Queue(_)) | None => Ok(()),
        }
    }
}
