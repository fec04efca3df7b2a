//! A job to push, and what the push did.

use super::bytes::{Base64, bytes_of, raw, show_bytes};
#[cfg(feature = "openapi")]
use super::schema::{Key, Kind, QueueName, Tag, Trace};
use super::{Backoff, Instant, Span, instant, text};
use crate::engine::{self, PushOutcome};
use crate::job::State;
use crate::limits::PRIORITY_DEFAULT;
use crate::{Due, Error, JobId, JobOptions, KeyUntil, Millis, NewJob, OnConflict, Retry, Target, WhenExhausted, name};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// A job to push; its queue stands in the path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Push<'a> {
    /// Which handler it is for; by default `default`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Kind>))]
    #[serde(default, deserialize_with = "text::some", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Arc<str>>,
    /// JSON. This or `payload_base64` must be there.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    #[serde(default, borrow, deserialize_with = "raw", skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
    /// In place of `payload`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<super::schema::Base64>))]
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64<'a>>,
    /// When it is to run, from now: at most 10 years. At most one of four fields says so; by default it runs at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// In place of `delay`.
    #[cfg_attr(feature = "openapi", schema(maximum = 315_576_000_000u64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// In place of `delay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Instant>,
    /// In place of `delay`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 100_000_000_000u64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at_ms: Option<Millis>,
    /// 0 is the most urgent; by default 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Its unique name in its queue.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Key>))]
    #[serde(default, deserialize_with = "text::some", skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
    /// What to do where the key is held; by default `keep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<OnConflict>,
    /// Until when it holds the key; by default `finished`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_until: Option<KeyUntil>,
    /// Its labels, each once.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Tag>, max_items = 16))]
    #[serde(default, deserialize_with = "text::all", skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Arc<str>>,
    /// Its own lease: 1 s to 12 h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// Its own backoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Backoff>,
    /// Attempts in all; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// No attempt begins later than this after the first `due_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Span>,
    /// Crashes that fail it; by default 5.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_crashes: Option<u32>,
    /// What becomes of it in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_exhausted: Option<WhenExhausted>,
    /// How long after its `due_at` it may still start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Span>,
    /// Where it is delivered in place of its queue's target.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Target>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Arc<Target>>,
    /// The trace that it belongs to: a W3C `traceparent`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Trace>))]
    #[serde(default, deserialize_with = "text::some", skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
}

impl Push<'_> {
    /// The job, for this queue.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the payload is missing or given twice, and where several fields say when it is due.
    pub fn into_job(self, queue: Arc<str>) -> Result<NewJob, Error> {
        let payload = bytes_of("payload", self.payload, self.payload_base64)?
            .ok_or_else(|| Error::invalid("payload", "`payload` or `payload_base64`", "neither"))?;
        let due = due(self.delay, self.delay_ms, self.due_at, self.due_at_ms)?.unwrap_or_default();
        let retry = Retry {
            backoff: self.retry,
            max_attempts: self.max_attempts,
            max_age: self.max_age,
            max_crashes: self.max_crashes,
            when_exhausted: self.when_exhausted,
        };
        Ok(NewJob {
            queue,
            kind: self.kind.unwrap_or_else(|| Arc::from(name::KIND_DEFAULT)),
            payload,
            due,
            priority: self.priority.unwrap_or(PRIORITY_DEFAULT),
            key: self.key,
            on_conflict: self.on_conflict.unwrap_or_default(),
            key_until: self.key_until.unwrap_or_default(),
            tags: self.tags,
            lease_ms: self.lease.map(|span| span.0),
            expires_ms: self.expires.map(|span| span.0),
            options: JobOptions { retry, target: self.target, trace: self.trace, moves: 0 },
        })
    }
}

impl<'a> From<&'a NewJob> for Push<'a> {
    fn from(job: &'a NewJob) -> Self {
        let (payload, payload_base64) = show_bytes(&job.payload);
        let JobOptions { retry, target, trace, moves: _ } = job.options.clone();
        let (delay_ms, due_at_ms) = show_due(job.due);
        Self {
            kind: Some(job.kind.clone()),
            payload,
            payload_base64,
            delay: None,
            delay_ms,
            due_at: None,
            due_at_ms,
            priority: Some(job.priority),
            key: job.key.clone(),
            on_conflict: job.key.as_ref().map(|_| job.on_conflict),
            key_until: job.key.as_ref().map(|_| job.key_until),
            tags: job.tags.clone(),
            lease: job.lease_ms.map(Span),
            retry: retry.backoff,
            max_attempts: retry.max_attempts,
            max_age: retry.max_age,
            max_crashes: retry.max_crashes,
            when_exhausted: retry.when_exhausted,
            expires: job.expires_ms.map(Span),
            target,
            trace,
        }
    }
}

/// What the four fields say together.
pub(super) fn due(
    delay: Option<Span>,
    delay_ms: Option<u64>,
    due_at: Option<Instant>,
    due_at_ms: Option<Millis>,
) -> Result<Option<Due>, Error> {
    let given = [
        ("delay", delay.map(|span| Due::After(span.0))),
        ("delay_ms", delay_ms.map(Due::After)),
        ("due_at", due_at.map(|instant| Due::At(instant.0))),
        ("due_at_ms", due_at_ms.map(Due::At)),
    ];
    let mut given = given.into_iter().filter_map(|(name, due)| Some((name, due?)));
    match (given.next(), given.next()) {
        (Some((first, _)), Some((second, _))) => {
            let expected = "at most one of `delay`, `delay_ms`, `due_at` and `due_at_ms`";
            Err(Error::invalid("due_at", expected, format!("`{first}` and `{second}`")))
        }
        (due, _) => Ok(due.map(|(_, due)| due)),
    }
}

/// `delay_ms` and `due_at_ms`.
pub(super) fn show_due(due: Due) -> (Option<u64>, Option<Millis>) {
    match due {
        Due::Now => (None, None),
        Due::After(delay_ms) => (Some(delay_ms), None),
        Due::At(at) => (None, Some(at)),
    }
}

/// What a push did for one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Pushed {
    /// The job: the new one, or the one that holds the key.
    pub id: JobId,
    /// Its queue.
    #[cfg_attr(feature = "openapi", schema(value_type = QueueName))]
    pub queue: Arc<str>,
    /// Where it stands.
    pub state: State,
    /// From when it may run, in milliseconds since 1970.
    #[cfg_attr(feature = "openapi", schema(value_type = Instant))]
    #[serde(with = "instant")]
    pub due_at: Millis,
    /// Whether it is new.
    pub outcome: PushOutcome,
}

impl Pushed {
    /// What is shown of a push at `now`.
    pub fn new(pushed: &engine::Pushed, now: Millis) -> Self {
        let job = &pushed.job;
        Self {
            id: job.id,
            queue: job.queue.clone(),
            state: job.state(now),
            due_at: job.due_at,
            outcome: pushed.outcome,
        }
    }
}
