//! A leased job as a worker gets it: enough to run the job, and not the whole record.

use super::job::payload_of;
use super::{Span, Timestamp};
use crate::json::is_zero;
#[cfg(feature = "openapi")]
use crate::json::schema::{Key, Kind, QueueName, Tag, Trace};
use crate::json::{Base64, raw, show_bytes};
use crate::limits::PRIORITY_DEFAULT;
use crate::ports::Lease;
use crate::{Error, Job, JobId, JobOptions, Meta, Previous, Receipt, Retry, Target};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// A leased job.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Lease))]
pub struct LeaseBody<'a> {
    /// The receipt, which settles and extends the lease.
    pub receipt: Receipt,
    /// The job's id.
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
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The number of leases that expired.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub crashes: u32,
    /// The due time.
    pub due_at: Timestamp,
    /// Its first due time, if that was another one.
    pub first_due_at: Option<Timestamp>,
    /// The time at which the lease expires.
    pub lease_until: Timestamp,
    /// The length of the lease.
    pub lease: Span,
    /// Its key, unique among the live jobs of its queue.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Key>))]
    pub key: Option<Arc<str>>,
    /// Its tags.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Tag>))]
    #[serde(default)]
    pub tags: Cow<'a, [Arc<str>]>,
    /// The target of this job, instead of its queue's.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Target>))]
    pub target: Option<Arc<Target>>,
    /// The trace that it belongs to: a W3C `traceparent`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Trace>))]
    pub trace: Option<Arc<str>>,
    /// Metadata of the caller.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::schema::Meta>))]
    pub meta: Option<Arc<Meta>>,
    /// The job whose end pushed this one, with its result.
    pub previous: Option<Arc<Previous>>,
    /// The priority; 0 is the most urgent. Left out if it is the default.
    pub priority: Option<u32>,
    /// Its version.
    pub version: u64,
    /// The time it was pushed.
    pub created_at: Timestamp,
    /// When it was handed out.
    pub started_at: Timestamp,
}

impl<'a> From<&'a Lease> for LeaseBody<'a> {
    fn from(lease: &'a Lease) -> Self {
        let job = &lease.job;
        let (payload, payload_base64) = show_bytes(&job.payload);
        Self {
            receipt: job.receipt(),
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            payload,
            payload_base64,
            attempt: job.attempt,
            crashes: job.crashes,
            due_at: job.due_at,
            first_due_at: Some(job.first_due_at).filter(|_| job.first_due_at != job.due_at),
            lease_until: job.lease_until.unwrap_or_default(),
            lease: lease.length,
            key: job.key.clone(),
            tags: Cow::Borrowed(&job.tags),
            target: job.options().target.clone(),
            trace: job.options().trace.clone(),
            meta: job.options().meta.clone(),
            previous: job.options().previous.clone(),
            priority: Some(job.priority).filter(|&priority| priority != PRIORITY_DEFAULT),
            version: job.version,
            created_at: job.created_at,
            started_at: job.started_at.unwrap_or_default(),
        }
    }
}

/// Missing fields have their defaults: the job's own rules, its past errors and its message.
impl TryFrom<LeaseBody<'_>> for Lease {
    type Error = Error;

    fn try_from(body: LeaseBody<'_>) -> Result<Self, Error> {
        let payload = payload_of(body.payload, body.payload_base64)?;
        let job = Job {
            first_due_at: body.first_due_at.unwrap_or(body.due_at),
            priority: body.priority.unwrap_or(PRIORITY_DEFAULT),
            attempt: body.attempt,
            crashes: body.crashes,
            key: body.key,
            tags: Arc::from(body.tags.into_owned()),
            options: JobOptions {
                previous: body.previous,
                ..JobOptions::given(Retry::INHERITED, body.target, body.trace, body.meta)
            }
            .shared(),
            version: body.version,
            epoch: body.receipt.epoch,
            lease_until: Some(body.lease_until),
            updated_at: body.started_at,
            started_at: Some(body.started_at),
            ..Job::new(body.id, body.queue, body.kind, payload, body.due_at.0, body.created_at.0)
        };
        Ok(Self { job, length: body.lease })
    }
}
