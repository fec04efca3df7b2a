//! Jobs that come due.

use super::Timestamp;
#[cfg(feature = "openapi")]
use crate::json::schema::QueueName;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Jobs that have not ended, by due time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct DueCounts {
    /// The queue; omitted for all queues together.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<QueueName>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Arc<str>>,
    /// When the jobs were counted; `null` while they are counted for the first time.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub as_of: Option<Timestamp>,
    /// Jobs that are already due, then 60 minutes, the hours of the first day, 30 days, and later jobs. There are no gaps, and the
    /// buckets add up to all jobs that have not ended. `null` during the first count, and for a queue that is not among the
    /// 1,000 largest.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub buckets: Option<Vec<DueBucket>>,
}

/// Jobs that are due from one instant to another. Both are inclusive, like `due_from` and `due_to` of `GET /v1/jobs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct DueBucket {
    /// The first instant; `null` for jobs that are already due.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub from: Option<Timestamp>,
    /// The last instant; `null` for the rest.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub to: Option<Timestamp>,
    /// The number of jobs. Running jobs count as due.
    pub jobs: u64,
}
