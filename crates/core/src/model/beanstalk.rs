//! Data of a job that only the beanstalk protocol needs.

use super::retry::Retry;
use crate::json::is_zero;
use serde::{Deserialize, Serialize};

/// The kind of jobs that clients of the beanstalk protocol put. Unless they or their queue say otherwise, their attempts and
/// crashes are not limited: see [`UNLIMITED`].
pub const KIND: &str = "beanstalk";

/// The retry rule of jobs of that kind, if neither they nor their queue set one.
pub const UNLIMITED: Retry = Retry { max_attempts: Some(0), max_crashes: Some(u32::MAX), ..Retry::INHERITED };

/// The message of a buried job.
pub const BURIED: &str = "buried";

/// Counters of a job. Its attempts (`reserves`), crashes (`timeouts`) and releases are counted for every job.
#[serde_with::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Beanstalk {
    /// Number of buries.
    #[serde(skip_serializing_if = "is_zero")]
    pub buries: u32,
    /// Number of kicks.
    #[serde(skip_serializing_if = "is_zero")]
    pub kicks: u32,
    /// The delay of its last release, in milliseconds; `None`: that of its put.
    pub delay_ms: Option<u64>,
    /// Its time to run in seconds, if that is longer than the longest lease.
    pub ttr_s: Option<u32>,
}
