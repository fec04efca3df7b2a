//! Workers, as a server knows them.

use super::Timestamp;
#[cfg(feature = "openapi")]
use crate::json::schema::{Cursor, QueueName, WorkerName};
use crate::model::id::JobId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A page of workers, by name. Each server lists only the workers that asked it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkerPage))]
pub struct Workers {
    /// Workers that this server has seen within the last hour. One that gives no name is listed as `unnamed@` and its address;
    /// all such workers at one address are one entry.
    pub workers: Vec<WorkerStatus>,
    /// When this server began to remember workers: its start.
    pub since: Timestamp,
    /// The cursor of the next page; `null` on the last page.
    #[cfg_attr(feature = "openapi", schema(required, value_type = Option<Cursor>))]
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A worker, as seen by one server. Only queues and leases that the caller may read are shown and counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Worker))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct WorkerStatus {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = WorkerName))]
    pub worker: Arc<str>,
    /// The queues that it asked for last.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<QueueName>, max_items = 16))]
    pub queues: Vec<Arc<str>>,
    /// Requests that wait for jobs now.
    pub waiting: u32,
    /// Leases that this server handed to it and that have not ended.
    pub held: usize,
    /// Those that end first.
    #[cfg_attr(feature = "openapi", schema(max_items = 10))]
    pub leases: Vec<HeldLease>,
    /// When it first asked.
    pub first_seen: Timestamp,
    /// When it last asked, or extended a lease.
    pub last_seen: Timestamp,
}

/// A lease that a worker holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct HeldLease {
    /// The job.
    pub id: JobId,
    /// Its queue.
    #[cfg_attr(feature = "openapi", schema(value_type = QueueName))]
    pub queue: Arc<str>,
    /// When the lease ends unless it is extended.
    pub lease_until: Timestamp,
}
