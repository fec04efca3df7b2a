//! The history of a server over the last hour or day.

use super::{Span, Timestamp};
use crate::Error;
#[cfg(feature = "openapi")]
use crate::json::schema::QueueName;
use crate::limits::{DAY_MS, HOUR_MS, MINUTE_MS};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The time span of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", parse_err_ty = Error, parse_err_fn = unknown)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum HistorySpan {
    /// An hour, by minutes.
    #[default]
    Hour,
    /// A day, by quarters of an hour.
    Day,
}

impl HistorySpan {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Hour, Self::Day];

    /// `hour` or `day`.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// The length of a step.
    pub fn step(self) -> Span {
        Span(self.step_ms())
    }

    /// The same in milliseconds.
    #[doc(hidden)]
    pub fn step_ms(self) -> u64 {
        match self {
            Self::Hour => MINUTE_MS,
            Self::Day => 15 * MINUTE_MS,
        }
    }

    /// The number of steps.
    pub fn steps(self) -> u64 {
        let span_ms = match self {
            Self::Hour => HOUR_MS,
            Self::Day => DAY_MS,
        };
        span_ms / self.step_ms()
    }
}

fn unknown(text: &str) -> Error {
    Error::invalid("span", "`hour` or `day`", format!("{text:?}"))
}

/// The counts of one process for the last hour or day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct History {
    /// The queue; omitted for all queues together.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<QueueName>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Arc<str>>,
    /// When the process started, or the first point begins, whichever is later.
    pub since: Timestamp,
    /// The process's clock.
    pub as_of: Timestamp,
    /// The length of a point.
    pub step: Span,
    /// One for each step, oldest first; the last one is not over yet. `null` if the process counts this queue only together
    /// with others: it counts the first 200 separately.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub points: Option<Vec<HistoryPoint>>,
}

/// The counts of a process in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct HistoryPoint {
    /// When the step begins.
    pub at: Timestamp,
    /// New jobs.
    pub pushed: u64,
    /// Attempts that started.
    pub started: u64,
    /// Jobs that were completed, or taken.
    pub succeeded: u64,
    /// Jobs that failed for good.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Attempts that their worker failed.
    pub attempts_failed: u64,
    /// Attempts whose lease expired.
    pub attempts_crashed: u64,
    /// The lateness of first attempts; `null` if none started.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub lateness: Option<Lateness>,
}

/// The lateness of jobs: upper bounds of histogram buckets. `1h` also stands for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Lateness {
    /// Half of them started within this time.
    pub p50: Span,
    /// 99 % of them started within this time.
    pub p99: Span,
    /// All of them started within this time.
    pub max: Span,
}
