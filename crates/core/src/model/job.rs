//! The job: the record that a store keeps, and the input that a caller gives.

use super::follow_up::FollowUp;
use super::id::{JobId, Receipt};
pub use super::key::{Debounce, KeyUntil, OnConflict};
use super::meta::Meta;
use super::name;
use super::options::{self, JobOptions};
use super::progress::Progress;
use super::sent::{Sent, hash_of};
use crate::clock::Millis;
use crate::hash;
use crate::invalid::Invalid;
use crate::json::{Span, Timestamp, read_bytes};
use crate::limits::{DELAY_MS_MAX, INSTANT_MS_MIN, LEASE_MS_MAX, LEASE_MS_MIN, PRIORITY_DEFAULT};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Opaque bytes, shared: of a payload or a result.
pub type Payload = Arc<[u8]>;

/// The state of a job, derived from its stored state and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::Display, strum::IntoStaticStr)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum State {
    /// Due in the future, for the first time or again.
    Scheduled,
    /// Due, and not leased.
    Ready,
    /// Leased.
    Running,
    /// Completed.
    Succeeded,
    /// Out of attempts, failed finally, or expired: the dead letter.
    Failed,
    /// Cancelled before it finished.
    Cancelled,
}

impl State {
    /// All of them, in the order of a job's life.
    pub const ALL: [Self; 6] =
        [Self::Scheduled, Self::Ready, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled];

    /// The word for it, as in JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Whether it is scheduled, ready or running.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Scheduled | Self::Ready | Self::Running)
    }
}

/// The stored part of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stage {
    /// Scheduled, ready or running.
    Pending = 1,
    /// Completed.
    Succeeded = 10,
    /// The dead letter.
    Failed = 20,
    /// Cancelled.
    Cancelled = 30,
}

impl Stage {
    /// The stored number.
    #[doc(hidden)]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Whether the same jobs begin with both ends: those for success, or those for any other end.
    #[doc(hidden)]
    pub fn leads_like(self, other: Self) -> bool {
        let is_end = |stage| stage != Self::Pending;
        is_end(self) && is_end(other) && (self == Self::Succeeded) == (other == Self::Succeeded)
    }

    /// The state that a job of this stage has ended in.
    pub fn end_state(self) -> Option<State> {
        match self {
            Self::Pending => None,
            Self::Succeeded => Some(State::Succeeded),
            Self::Failed => Some(State::Failed),
            Self::Cancelled => Some(State::Cancelled),
        }
    }

    /// The stage with this number.
    #[doc(hidden)]
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Pending, Self::Succeeded, Self::Failed, Self::Cancelled].into_iter().find(|s| s.code() == code)
    }
}

/// One attempt that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Attempt))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct AttemptError {
    /// The number of the attempt.
    pub attempt: u32,
    /// When it ended.
    pub at: Timestamp,
    /// The message of the worker, or the engine's finding.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::json::schema::Message))]
    pub message: Arc<str>,
    /// Whether the lease ended unsettled: the worker crashed or lost touch.
    #[serde(default)]
    pub crashed: bool,
}

impl AttemptError {
    /// The end of an attempt.
    #[doc(hidden)]
    pub fn new(attempt: u32, at: Timestamp, message: Arc<str>, crashed: bool) -> Self {
        Self { attempt, at, message, crashed }
    }
}

/// A job as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: Arc<str>,
    /// The kind, which selects the handler.
    pub kind: Arc<str>,
    /// The input of the handler.
    pub payload: Payload,
    /// Pending, or how it ended.
    pub stage: Stage,
    /// The due time, from which it may run.
    pub due_at: Timestamp,
    /// When it was first due; `max_age` counts from here.
    pub first_due_at: Timestamp,
    /// 0 is the most urgent.
    pub priority: u32,
    /// The number of leases, minus releases.
    pub attempt: u32,
    /// The number of leases that expired.
    pub crashes: u32,
    /// Its own lease.
    pub lease: Option<Span>,
    /// How long after `due_at` it may still start.
    pub expires: Option<Span>,
    /// Its unique name in its queue.
    pub key: Option<Arc<str>>,
    /// The state in which the job gives up its key.
    pub key_until: KeyUntil,
    /// The push that made it: no other job of its queue has the same, as long as its record is kept.
    pub origin: Option<Arc<str>>,
    /// Its labels.
    pub tags: Arc<[Arc<str>]>,
    /// Rarely used options: read them with [`Job::options`].
    #[doc(hidden)]
    pub options: Option<Arc<JobOptions>>,
    /// The message of the last attempt or edit.
    pub message: Option<Arc<str>>,
    /// The last attempts that did not succeed, oldest first: at most 20, and 64 KiB of messages.
    pub errors: Vec<AttemptError>,
    /// The result that the handler returned.
    pub result: Option<Payload>,
    /// The progress of its current attempt, or of the last one.
    pub progress: Option<Arc<Progress>>,
    /// Grows with every change.
    pub version: u64,
    /// The version with which its current or last lease began; 0 before the first.
    pub epoch: u64,
    /// When the current lease ends, by the wall clock; `None` when it is not running.
    pub lease_until: Option<Timestamp>,
    /// Whether its worker has been asked to stop.
    pub cancel_asked: bool,
    /// When it was pushed.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was last handed out.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Job {
    /// A waiting job that has not changed since its push. Rare fields are omitted.
    #[doc(hidden)]
    pub fn new(id: JobId, queue: Arc<str>, kind: Arc<str>, payload: Payload, due_at: Millis, now: Millis) -> Self {
        Self {
            id,
            queue,
            kind,
            payload,
            stage: Stage::Pending,
            due_at: Timestamp(due_at),
            first_due_at: Timestamp(due_at),
            priority: PRIORITY_DEFAULT,
            attempt: 0,
            crashes: 0,
            lease: None,
            expires: None,
            key: None,
            key_until: KeyUntil::default(),
            origin: None,
            tags: Arc::default(),
            options: None,
            message: None,
            errors: Vec::new(),
            result: None,
            progress: None,
            version: 1,
            epoch: 0,
            lease_until: None,
            cancel_asked: false,
            created_at: Timestamp(now),
            updated_at: Timestamp(now),
            started_at: None,
            finished_at: None,
        }
    }

    /// Its state at this instant, such as `SystemTime::now()`: a waiting job becomes ready when it is due.
    pub fn state_at(&self, at: impl Into<Timestamp>) -> State {
        self.state(at.into().0)
    }

    /// Its state at `now`.
    #[doc(hidden)]
    pub fn state(&self, now: Millis) -> State {
        match self.stage {
            Stage::Pending if self.lease_until.is_some() => State::Running,
            Stage::Pending if self.due_at <= Timestamp(now) => State::Ready,
            Stage::Pending => State::Scheduled,
            Stage::Succeeded => State::Succeeded,
            Stage::Failed => State::Failed,
            Stage::Cancelled => State::Cancelled,
        }
    }

    /// Its rarely used options; all are unset if it has none.
    pub fn options(&self) -> &JobOptions {
        self.options.as_deref().unwrap_or(&options::NONE)
    }

    /// Metadata of its caller, such as a tenant or a user; empty by default.
    pub fn meta(&self) -> &Meta {
        self.options().meta()
    }

    /// About how many bytes an answer needs to show it, besides what is small in every job: of its payload, its result, its messages,
    /// and the jobs before and after it.
    #[doc(hidden)]
    pub fn held_bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |result| result.len());
        let message = self.message.as_ref().map_or(0, |message| message.len());
        let errors: usize = self.errors.iter().map(|error| error.message.len()).sum();
        self.payload.len() + result + message + errors + self.options().chain_bytes()
    }

    /// Its payload, read from JSON.
    ///
    /// # Errors
    /// [`Invalid`], which says what cannot be read.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T, Invalid> {
        let readable = "JSON that can be read as what is asked for";
        read_bytes(&self.payload).map_err(|unread| Invalid::new("payload", readable, unread))
    }

    /// Its result, read from JSON. A job without a result has `null`, which can be read as `()` or as an `Option`.
    ///
    /// # Errors
    /// [`Invalid`], which says what cannot be read, and of a job that has failed why it has no result.
    pub fn result_as<T: DeserializeOwned>(&self) -> Result<T, Invalid> {
        let readable = "JSON that can be read as what is asked for";
        read_bytes(self.result.as_deref().unwrap_or(b"null")).map_err(|unread| match (&self.result, &self.message) {
            (Some(_), _) => Invalid::new("result", readable, unread),
            (None, Some(message)) => Invalid::new("result", readable, format!("none: {message}")),
            (None, None) => Invalid::new("result", readable, "none"),
        })
    }

    /// Whether it waits for, or has begun, another attempt.
    pub fn is_pending(&self) -> bool {
        self.stage == Stage::Pending
    }

    /// The key that it holds now.
    pub fn live_key(&self) -> Option<&Arc<str>> {
        let holds = self.is_pending() && (self.key_until == KeyUntil::Finished || self.started_at.is_none());
        self.key.as_ref().filter(|_| holds)
    }

    /// The instant from which it may no longer start, if it waits for its first start and has one.
    #[doc(hidden)]
    pub fn start_by(&self) -> Option<Millis> {
        let waits = self.is_pending() && self.lease_until.is_none() && self.attempt == 0;
        self.expires.filter(|_| waits).map(|expires_ms| self.due_at.0.saturating_add(expires_ms.0).saturating_add(1))
    }

    /// The receipt of its current or last lease.
    pub fn receipt(&self) -> Receipt {
        Receipt { id: self.id, epoch: self.epoch }
    }

    /// The jobs that are pushed when it ends so.
    #[doc(hidden)]
    pub fn follow_ups(&self, end: Stage) -> &[FollowUp] {
        let JobOptions { then, otherwise, .. } = self.options();
        let list = match end {
            Stage::Pending => None,
            Stage::Succeeded => then.as_deref(),
            Stage::Failed | Stage::Cancelled => otherwise.as_deref(),
        };
        list.unwrap_or_default()
    }

    /// How often it was released: by its workers, or because nobody received a lease.
    pub fn releases(&self) -> u32 {
        self.options().releases
    }

    /// What the push with its origin sent.
    #[doc(hidden)]
    pub fn sent(&self) -> Option<Sent> {
        self.options().sent
    }

    /// Changes that.
    #[doc(hidden)]
    pub fn set_sent(&mut self, sent: Option<Sent>) {
        if self.sent() != sent {
            self.options = JobOptions { sent, ..self.options().clone() }.shared();
        }
    }

    /// Marks it as brought by an import, or as made here.
    #[doc(hidden)]
    pub fn set_imported(&mut self, imported: bool) {
        if self.options().imported != imported {
            self.options = JobOptions { imported, ..self.options().clone() }.shared();
        }
    }

    /// Changes that number.
    #[doc(hidden)]
    pub fn set_releases(&mut self, releases: u32) {
        if self.releases() != releases {
            self.options = JobOptions { releases, ..self.options().clone() }.shared();
        }
    }
}

/// When a job is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Due {
    /// At once.
    #[default]
    Now,
    /// This long after the broker's now.
    After(Span),
    /// At this instant. An instant in the past means now, but keeps its place in the order.
    At(Timestamp),
}

impl Due {
    /// This long after the broker's now: at most 10 years.
    pub fn after(delay: impl Into<Span>) -> Self {
        Self::After(delay.into())
    }

    /// At this instant. An instant in the past means now, but keeps its place in the order.
    pub fn at(at: impl Into<Timestamp>) -> Self {
        Self::At(at.into())
    }

    /// Whether it begins after a delay. That is never too short, so it is counted from the latest time that it may be.
    pub(crate) fn is_delayed(self) -> bool {
        matches!(self, Self::After(Span(1..)))
    }

    /// The instant it means at `now`.
    ///
    /// # Errors
    /// [`Invalid`] beyond 10 years, and where an instant looks like seconds.
    #[doc(hidden)]
    pub fn resolve(self, now: Millis) -> Result<Millis, Invalid> {
        match self {
            Self::Now => Ok(now),
            Self::After(delay) => delay.check("delay", 0, DELAY_MS_MAX).map(|()| now + delay.0),
            Self::At(Timestamp(at)) if at < INSTANT_MS_MIN => {
                let expected = format!("milliseconds since 1970, {INSTANT_MS_MIN} or more");
                Err(Invalid::new("due_at", expected, format!("{at}, which looks like seconds")))
            }
            Self::At(Timestamp(at)) if at.saturating_sub(now) > DELAY_MS_MAX => {
                let expected = format!("at most 10 years ahead, {}", Timestamp(now + DELAY_MS_MAX));
                Err(Invalid::new("due_at", expected, Timestamp(at)))
            }
            Self::At(Timestamp(at)) => Ok(at),
        }
    }
}

/// A job to push. Only the payload has no default.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct NewJob {
    /// Its queue; by default `default`.
    pub queue: Arc<str>,
    /// The kind, which selects the handler; `default` by default.
    pub kind: Arc<str>,
    /// The input of the handler.
    pub payload: Payload,
    /// When it is to run; by default now.
    pub due: Due,
    /// 0 is the most urgent; by default 1024.
    pub priority: u32,
    /// Its unique name in its queue.
    pub key: Option<Arc<str>>,
    /// The policy if the key is already held.
    pub on_conflict: OnConflict,
    /// The state in which the job gives up its key.
    pub key_until: KeyUntil,
    /// Identifies this push, 1 to 255 bytes: a push to the same queue with a known origin makes no job, and returns the
    /// first one in whatever state, while its record is kept. So a push may be repeated. A push that sends something else
    /// is refused with [`OriginReused`](crate::Error::OriginReused).
    pub origin: Option<Arc<str>>,
    /// Its labels.
    pub tags: Vec<Arc<str>>,
    /// Its own lease, 1 s to 12 h; by default that of the reserve, of its queue, or 60 s.
    pub lease: Option<Span>,
    /// The time after its `due_at` within which the job must start; by default there is no limit.
    pub expires: Option<Span>,
    /// Rarely used options: a retry rule, a target, a trace.
    pub options: JobOptions,
}

impl NewJob {
    /// A job for the queue `default` with this payload, due now.
    pub fn new(payload: impl Into<Payload>) -> Self {
        Self {
            queue: Arc::from(name::QUEUE_DEFAULT),
            kind: Arc::from(name::KIND_DEFAULT),
            payload: payload.into(),
            due: Due::Now,
            priority: PRIORITY_DEFAULT,
            key: None,
            on_conflict: OnConflict::Keep,
            key_until: KeyUntil::Finished,
            origin: None,
            tags: Vec::new(),
            lease: None,
            expires: None,
            options: JobOptions::default(),
        }
    }

    /// The job as stored, if everything is within its limits.
    ///
    /// # Errors
    /// [`Invalid`], naming what is wrong.
    #[doc(hidden)]
    pub fn accept(&self, id: JobId, now: Millis, payload_bytes_max: usize) -> Result<Job, Invalid> {
        let Self { queue, kind, payload, priority, key, .. } = self;
        let Self { key_until, origin, tags, lease, expires, options, .. } = self;
        name::check_queue(queue)?;
        name::check_kind(kind)?;
        if let Some(key) = key {
            name::check_key(key)?;
            name::check_free("key", key)?;
        }
        if let Some(origin) = origin {
            name::check_origin(origin)?;
            name::check_free("origin", origin)?;
        }
        name::check_tags(tags)?;
        check_payload(payload, payload_bytes_max)?;
        options.check(queue)?;
        lease.map_or(Ok(()), check_lease)?;
        expires.unwrap_or_default().check("expires", 0, DELAY_MS_MAX)?;
        let due_at = self.due()?.resolve(now)?;
        let tags = if tags.is_empty() { Arc::default() } else { Arc::from(tags.as_slice()) };
        Ok(Job {
            priority: *priority,
            lease: *lease,
            expires: *expires,
            key: key.clone(),
            key_until: *key_until,
            origin: origin.clone(),
            tags,
            options: JobOptions { sent: origin.as_ref().map(|_| self.sent()), ..options.clone() }.shared(),
            ..Job::new(id, queue.clone(), kind.clone(), payload.clone(), due_at, now)
        })
    }

    /// When it is due, if nothing holds its key.
    ///
    /// # Errors
    /// [`Invalid`], naming what contradicts a [`Debounce`].
    #[doc(hidden)]
    pub fn due(&self) -> Result<Due, Invalid> {
        let OnConflict::Debounce(debounce) = self.on_conflict else { return Ok(self.due) };
        debounce.check()?;
        if self.key.is_none() {
            return Err(Invalid::new("key", "given, since `on_conflict` debounces pushes with one key", "none"));
        }
        if self.due != Due::Now {
            return Err(Invalid::new("delay", "left out, since `debounce` says when the job is due", "a due time"));
        }
        Ok(Due::After(debounce.debounce))
    }

    /// The digest of what was sent: a delay is compared as a delay, whenever it began.
    #[doc(hidden)]
    pub fn sent(&self) -> Sent {
        let Self { queue: _, kind, payload, due, priority, key, on_conflict: _, key_until, origin: _, .. } = self;
        let Self { tags, lease, expires, options, .. } = self;
        let JobOptions { retry, target, meta, then, otherwise, marks, .. } = options;
        let due = match due {
            Due::Now => (0, 0),
            Due::After(Span(delay_ms)) => (1, *delay_ms),
            Due::At(Timestamp(at)) => (2, *at),
        };
        Sent::of_parts([
            hash::stable(payload),
            hash::stable(kind.as_bytes()),
            hash_of(&due),
            hash_of(priority),
            hash_of(&(key, key_until)),
            hash_of(tags),
            if options.has_follow_ups() {
                hash_of(&(lease, expires, retry, target, meta, marks, then, otherwise))
            } else {
                hash_of(&(lease, expires, retry, target, meta, marks))
            },
        ])
    }
}

/// Whether a payload keeps its limit.
///
/// # Errors
/// [`Invalid`].
pub fn check_payload(payload: &[u8], bytes_max: usize) -> Result<(), Invalid> {
    if payload.len() > bytes_max {
        let got = format!("{} bytes", payload.len());
        return Err(Invalid::new("payload", format!("at most {bytes_max} bytes"), got));
    }
    Ok(())
}

/// Whether a lease keeps its limits.
///
/// # Errors
/// [`Invalid`].
pub fn check_lease(lease: Span) -> Result<(), Invalid> {
    lease.check("lease", LEASE_MS_MIN, LEASE_MS_MAX)
}
