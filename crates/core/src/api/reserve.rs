//! Reserve and take: requests, and the jobs that are handed out.

use super::{JobBody, LeaseBody, Object, Problem, Span, Timestamp};
#[cfg(feature = "openapi")]
use crate::json::schema::{QueueName, RequestId, WorkerName};
use crate::limits::TAKE_JOBS_DEFAULT;
use crate::request::{self, JobRef, ReserveRequest, Source, TakeRequest};
use crate::{Error, Millis};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A reserve.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    /// The maximum number of jobs; 1 by default, or the number of `jobs`.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000))]
    pub limit: Option<usize>,
    /// How many of them the caller can start at once, at most `limit`, which is the default. Beyond these it gets no job on its last
    /// attempt, so that a caller that is killed ends no job that it had not begun. With 0 the request does not wait. Not for `jobs`.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1_000))]
    pub free: Option<usize>,
    /// The lease: 1 s to 12 h; by default each job's own, its queue's, or 60 s.
    pub lease: Option<Span>,
    /// The time to wait if nothing is due, at most 60 s; by default the request does not wait.
    pub wait: Option<Span>,
    /// A repeat of the same request by the same caller, with the same id, gets what the first got.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<RequestId>))]
    pub request_id: Option<Arc<str>>,
    /// The queues, in strict order. Give this or `jobs`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<QueueName>>, min_items = 1, max_items = 64))]
    pub queues: Option<Vec<Arc<str>>>,
    /// These jobs.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<JobRef>>, max_items = 1_000))]
    pub jobs: Option<Vec<Object<JobRef>>>,
    /// The name of the worker that asks, by which `GET /v1/workers` lists it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<WorkerName>))]
    pub worker: Option<Arc<str>>,
}

/// The source of a reserve, and its default limit.
fn source(
    queue: Option<Arc<str>>,
    queues: Option<Vec<Arc<str>>>,
    jobs: Option<Vec<Object<JobRef>>>,
) -> Result<Source, Error> {
    match (queue, queues, jobs) {
        (_, None, Some(jobs)) => Ok(Source::Jobs(jobs.into_iter().map(|Object(job)| job).collect())),
        (None, Some(queues), None) => Ok(Source::Queues(queues)),
        (Some(queue), None, None) => Ok(Source::Queues(vec![queue])),
        (None, None, None) => Err(Error::invalid("queues", "given, or `jobs` instead", "neither")),
        (None, Some(_), Some(_)) => Err(Error::invalid("queues", "given without `jobs`", "both")),
        (Some(_), Some(_), _) => {
            Err(Error::invalid("queues", "left out, because the path names the queue", "`queues`"))
        }
    }
}

fn count(from: &Source, by_default: usize) -> usize {
    match from {
        Source::Queues(_) => by_default,
        Source::Jobs(jobs) => jobs.len(),
    }
}

/// The fields `queues` and `jobs`.
type Sources = (Option<Vec<Arc<str>>>, Option<Vec<Object<JobRef>>>);

fn show_source(from: &Source) -> Sources {
    match from {
        Source::Queues(queues) => (Some(queues.clone()), None),
        Source::Jobs(jobs) => (None, Some(jobs.iter().map(|&job| Object(job)).collect())),
    }
}

impl Reserve {
    /// The request, with the queue of the path.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless exactly one thing says from where.
    pub fn into_request(self, queue: Option<Arc<str>>) -> Result<ReserveRequest, Error> {
        let from = source(queue, self.queues, self.jobs)?;
        Ok(ReserveRequest {
            limit: self.limit.unwrap_or_else(|| count(&from, 1)),
            from,
            free: self.free,
            lease: self.lease,
            wait: self.wait.unwrap_or(Span(0)),
            request_id: self.request_id,
            worker: self.worker,
        })
    }
}

/// For `POST /v1/reserve`.
impl From<&ReserveRequest> for Reserve {
    fn from(request: &ReserveRequest) -> Self {
        let (queues, jobs) = show_source(&request.from);
        Self {
            limit: Some(request.limit),
            free: request.free,
            lease: request.lease,
            wait: Some(request.wait),
            request_id: request.request_id.clone(),
            queues,
            jobs,
            worker: request.worker.clone(),
        }
    }
}

/// A take.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Take {
    /// The maximum number of jobs; 10 by default, or the number of `jobs`.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000))]
    pub limit: Option<usize>,
    /// Only jobs due at or after this instant.
    pub due_from: Option<Timestamp>,
    /// Only jobs due at or before this instant.
    pub due_to: Option<Timestamp>,
    /// A repeat of the same request by the same caller, with the same id, gets what the first got.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<RequestId>))]
    pub request_id: Option<Arc<str>>,
    /// The queues, in strict order. Give this or `jobs`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<QueueName>>, min_items = 1, max_items = 64))]
    pub queues: Option<Vec<Arc<str>>>,
    /// These jobs, instead of a window.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<JobRef>>, max_items = 1_000))]
    pub jobs: Option<Vec<Object<JobRef>>>,
}

impl Take {
    /// The request, with the queue of the path.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless exactly one thing says from where, and where both jobs and a window are given.
    pub fn into_request(self, queue: Option<Arc<str>>) -> Result<TakeRequest, Error> {
        if self.jobs.is_some() && (self.due_from.is_some() || self.due_to.is_some()) {
            return Err(Error::invalid("jobs", "given without `due_from` and `due_to`", "both"));
        }
        let from = source(queue, self.queues, self.jobs)?;
        Ok(TakeRequest {
            limit: self.limit.unwrap_or_else(|| count(&from, TAKE_JOBS_DEFAULT)),
            from,
            due_from: self.due_from,
            due_to: self.due_to,
            request_id: self.request_id,
        })
    }
}

/// For `POST /v1/take`.
impl From<&TakeRequest> for Take {
    fn from(request: &TakeRequest) -> Self {
        let (queues, jobs) = show_source(&request.from);
        Self {
            limit: Some(request.limit),
            due_from: request.due_from,
            due_to: request.due_to,
            request_id: request.request_id.clone(),
            queues,
            jobs,
        }
    }
}

/// Leases.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reservation<'a> {
    /// The leases.
    #[serde(borrow)]
    pub leases: Vec<LeaseBody<'a>>,
    /// Named jobs that were not leased, and why; each names its job in `id`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Problem>,
    /// Nothing more is due here before this instant; `null` if nothing waits, or nothing that is due soon enough to be loaded.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_due_at: Option<Timestamp>,
}

impl<'a> Reservation<'a> {
    /// The body of these leases; `refused` are the problems of the named jobs that were not leased.
    pub fn new(reservation: &'a request::Reservation, refused: Vec<Problem>) -> Self {
        Self {
            leases: reservation.leases.iter().map(LeaseBody::from).collect(),
            refused,
            next_due_at: reservation.next_due_at,
        }
    }
}

/// Jobs that were taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Taken<'a> {
    /// The jobs, finished.
    #[serde(borrow)]
    pub jobs: Vec<JobBody<'a>>,
    /// Named jobs that were not taken, and why; each names its job in `id`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Problem>,
    /// Nothing more is due here before this instant; `null` if nothing waits, or nothing that is due soon enough to be loaded.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_due_at: Option<Timestamp>,
}

impl<'a> Taken<'a> {
    /// The body of taken jobs; see [`Reservation::new`].
    pub fn new(reservation: &'a request::Reservation, refused: Vec<Problem>, now: Millis) -> Self {
        Self {
            jobs: reservation.leases.iter().map(|lease| JobBody::new(&lease.job, now)).collect(),
            refused,
            next_due_at: reservation.next_due_at,
        }
    }
}
