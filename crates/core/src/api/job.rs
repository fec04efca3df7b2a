//! The JSON of a job.

use super::{Span, Timestamp};
use crate::json::is_zero;
#[cfg(feature = "openapi")]
use crate::json::schema::{Cursor, Key, Kind, Message, QueueName, Tag};
use crate::json::{Base64, bytes_of, raw, show_bytes};
use crate::model::marks::Marks;
use crate::model::options::{with_options, without_options};
use crate::request::Listed;
use crate::{AttemptError, Error, Job, JobId, JobOptions, KeyUntil, Millis, Payload, Previous, Progress, Stage, State};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

with_options! {
    /// A job. Fields without a value are left out.
    #[serde_with::skip_serializing_none]
    #[derive(Clone, Debug, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Job))]
    pub struct JobBody<'a> {
        /// Its id.
        pub id: JobId,
        /// Its queue.
        #[cfg_attr(feature = "openapi", schema(value_type = QueueName))]
        pub queue: Arc<str>,
        /// The kind, which selects the handler.
        #[cfg_attr(feature = "openapi", schema(value_type = Kind))]
        pub kind: Arc<str>,
        /// JSON.
        #[cfg_attr(feature = "openapi", schema(value_type = Value))]
        #[serde(default, borrow, deserialize_with = "raw")]
        pub payload: Option<&'a RawValue>,
        /// The payload in base64, if it is not JSON.
        #[serde(default, borrow)]
        pub payload_base64: Option<Base64<'a>>,
        /// Its state.
        pub state: State,
        /// The due time, from which it may run.
        pub due_at: Timestamp,
        /// Its first due time.
        pub first_due_at: Timestamp,
        /// The priority; 0 is the most urgent.
        pub priority: u32,
        /// The number of leases, except those that were released.
        pub attempt: u32,
        /// The number of leases that expired.
        pub crashes: u32,
    } {
        /// Its own lease.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub lease: Option<Span>,
        /// The time after `due_at` within which the job must start; then it fails.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub expires: Option<Span>,
        /// Its key, unique among the live jobs of its queue.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Key>))]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub key: Option<Arc<str>>,
        /// The state in which the job gives up its key; `finished` by default.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub key_until: Option<KeyUntil>,
        /// The origin: a repeat of the push with the same origin returns this job.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Key>))]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub origin: Option<Arc<str>>,
        /// Its tags.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<Tag>))]
        #[serde(default)]
        pub tags: Cow<'a, [Arc<str>]>,
        /// The number of times it was moved to another queue.
        #[cfg_attr(feature = "openapi", schema(maximum = 8))]
        #[serde(default, skip_serializing_if = "is_zero")]
        pub moves: u32,
        /// The number of leases that were released.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub releases: u32,
        /// The job whose end pushed this one, with its result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub previous: Option<Arc<Previous>>,
        /// Numbers that a port of another protocol keeps with it.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<std::collections::BTreeMap<String, u64>>))]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub marks: Option<Arc<Marks>>,
        /// The message of the last attempt or change.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Message>))]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub message: Option<Arc<str>>,
        /// The most recent failed attempts, oldest first.
        #[cfg_attr(feature = "openapi", schema(max_items = 20, value_type = Vec<AttemptError>))]
        #[serde(default)]
        pub errors: Cow<'a, [AttemptError]>,
        /// JSON.
        #[cfg_attr(feature = "openapi", schema(value_type = Value))]
        #[serde(default, borrow, deserialize_with = "raw", skip_serializing_if = "Option::is_none")]
        pub result: Option<&'a RawValue>,
        /// The result in base64, if it is not JSON.
        #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
        pub result_base64: Option<Base64<'a>>,
        /// The progress of the current attempt, or of the last one.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Progress>))]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub progress: Option<Arc<Progress>>,
        /// Grows with every change; the `ETag`.
        pub version: u64,
        /// Grows with every lease.
        pub epoch: u64,
        /// When the current lease ends.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub lease_until: Option<Timestamp>,
        /// Whether its worker has been asked to stop.
        #[serde(default)]
        pub cancel_requested: bool,
        /// The time it was pushed.
        pub created_at: Timestamp,
        /// The time of its last change.
        pub updated_at: Timestamp,
        /// The start of its last attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub started_at: Option<Timestamp>,
        /// The time it finished.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub finished_at: Option<Timestamp>,
    }
}

impl<'a> JobBody<'a> {
    /// The body of a job at `now`.
    pub fn new(job: &'a Job, now: Millis) -> Self {
        let (payload, payload_base64) = show_bytes(&job.payload);
        let (result, result_base64) = job.result.as_deref().map_or((None, None), show_bytes);
        let shown = without_options!(JobBody {
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            payload,
            payload_base64,
            state: job.state(now),
            due_at: job.due_at,
            first_due_at: job.first_due_at,
            priority: job.priority,
            attempt: job.attempt,
            crashes: job.crashes,
            lease: job.lease,
            expires: job.expires,
            key: job.key.clone(),
            key_until: job.key.as_ref().map(|_| job.key_until),
            origin: job.origin.clone(),
            tags: Cow::Borrowed(&job.tags),
            moves: job.options().moves,
            releases: job.releases(),
            previous: job.options().previous.clone(),
            marks: job.options().marks.clone(),
            message: job.message.clone(),
            errors: Cow::Borrowed(&job.errors),
            result,
            result_base64,
            progress: job.progress.clone(),
            version: job.version,
            epoch: job.epoch,
            lease_until: job.lease_until,
            cancel_requested: job.cancel_asked,
            created_at: job.created_at,
            updated_at: job.updated_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
        });
        shown.with_options(job.options())
    }
}

impl TryFrom<JobBody<'_>> for Job {
    type Error = Error;

    fn try_from(body: JobBody<'_>) -> Result<Self, Error> {
        let options = JobOptions {
            previous: body.previous.clone(),
            moves: body.moves,
            releases: body.releases,
            marks: body.marks.clone(),
            ..body.options()
        };
        Ok(Self {
            id: body.id,
            queue: body.queue,
            kind: body.kind,
            // Hidden from those who may change the job but not read it.
            payload: bytes_of("payload", body.payload, body.payload_base64)?.unwrap_or_default(),
            stage: stage_of(body.state),
            due_at: body.due_at,
            first_due_at: body.first_due_at,
            priority: body.priority,
            attempt: body.attempt,
            crashes: body.crashes,
            lease: body.lease,
            expires: body.expires,
            key: body.key,
            key_until: body.key_until.unwrap_or_default(),
            origin: body.origin,
            tags: Arc::from(body.tags.into_owned()),
            options: options.shared(),
            message: body.message,
            errors: body.errors.into_owned(),
            result: bytes_of("result", body.result, body.result_base64)?,
            progress: body.progress,
            version: body.version,
            epoch: body.epoch,
            lease_until: body.lease_until,
            cancel_asked: body.cancel_requested,
            created_at: body.created_at,
            updated_at: body.updated_at,
            started_at: body.started_at,
            finished_at: body.finished_at,
        })
    }
}

/// The payload of an answer, which always has one.
pub(super) fn payload_of(json: Option<&RawValue>, base64: Option<Base64<'_>>) -> Result<Payload, Error> {
    bytes_of("payload", json, base64)?
        .ok_or_else(|| Error::invalid("payload", "given as `payload` or as `payload_base64`", "neither"))
}

fn stage_of(state: State) -> Stage {
    match state {
        State::Scheduled | State::Ready | State::Running => Stage::Pending,
        State::Succeeded => Stage::Succeeded,
        State::Failed => Stage::Failed,
        State::Cancelled => Stage::Cancelled,
    }
}

/// A page of jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobPage))]
pub struct Page<'a> {
    /// The jobs.
    #[serde(borrow)]
    pub jobs: Vec<JobBody<'a>>,
    /// The cursor of the next page; `null` on the last page.
    #[cfg_attr(feature = "openapi", schema(required, value_type = Option<Cursor>))]
    pub next_cursor: Option<Cow<'a, str>>,
}

impl<'a> Page<'a> {
    /// The body of a page at `now`.
    pub fn new(listed: &'a Listed, now: Millis) -> Self {
        Self {
            jobs: listed.jobs.iter().map(|job| JobBody::new(job, now)).collect(),
            next_cursor: listed.next_cursor.as_deref().map(Cow::Borrowed),
        }
    }
}

impl TryFrom<Page<'_>> for Listed {
    type Error = Error;

    fn try_from(page: Page<'_>) -> Result<Self, Error> {
        Ok(Self {
            jobs: page.jobs.into_iter().map(Job::try_from).collect::<Result<_, _>>()?,
            next_cursor: page.next_cursor.map(Cow::into_owned),
        })
    }
}
