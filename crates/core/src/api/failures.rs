//! Reports of failures.

use super::Timestamp;
#[cfg(feature = "openapi")]
use crate::json::schema::{Kind, QueueName};
use crate::model::id::JobId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The latest failed jobs, grouped by queue, kind and message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Failures {
    /// When the jobs were read; `null` while they are read for the first time.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub as_of: Option<Timestamp>,
    /// The number of failed jobs that were examined, over all queues: the latest ones, at most 1,000.
    pub looked_at: u64,
    /// The groups, the one whose job failed last first. `null` while the jobs are read for the first time.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub groups: Option<Vec<FailureGroup>>,
}

/// Jobs of a queue and a kind that failed with about the same message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct FailureGroup {
    /// The queue.
    #[cfg_attr(feature = "openapi", schema(value_type = QueueName))]
    pub queue: Arc<str>,
    /// The kind.
    #[cfg_attr(feature = "openapi", schema(value_type = Kind))]
    pub kind: Arc<str>,
    /// The first line of their messages, at most 200 characters. `#` stands for a number, an id or a time; an HTTP status and
    /// an exit status stay.
    pub message: String,
    /// The number of jobs.
    pub jobs: u64,
    /// How many of them failed within the last hour.
    #[serde(default)]
    pub last_hour: u64,
    /// When the first of them failed.
    pub first: Timestamp,
    /// When the last of them failed.
    pub latest: Timestamp,
    /// The job that failed last.
    pub job: JobId,
    /// The jobs, the one that failed last first.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
    pub ids: Vec<JobId>,
}
