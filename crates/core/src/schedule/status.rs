//! The status of a schedule.

use super::Schedule;
use crate::json::Timestamp;
use crate::model::id::JobId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A schedule and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ScheduleShown))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct ScheduleStatus {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::json::schema::ScheduleName))]
    pub name: Arc<str>,
    /// The settings.
    pub schedule: Schedule,
    /// Of what was set; grows when that changes, and stays when it ticks.
    pub version: u64,
    /// The next ticks that are not pushed yet, at most ten; none if it has ended.
    #[cfg_attr(feature = "openapi", schema(max_items = 10))]
    pub next: Vec<Timestamp>,
    /// The last tick, and its outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<LastTick>,
}

/// A tick that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Tick))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct LastTick {
    /// When it was.
    pub at: Timestamp,
    /// The outcome.
    pub outcome: TickOutcome,
    /// The job: the new one, the one that holds the key, or the live one of an earlier tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
}

/// The outcome of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum TickOutcome {
    /// A job was pushed.
    Pushed,
    /// Its key was held: the holder is as it was.
    Kept,
    /// Its key was held: the holder has the new values.
    Replaced,
    /// Its key was held, and that is a conflict: no job.
    Conflict,
    /// The job of an earlier tick was live: no job.
    Overlap,
    /// The job breaks a limit that did not hold when the schedule was set: no job.
    Refused,
    /// Its queue was full: no job.
    Full,
}

impl TickOutcome {
    /// The word for it, as in JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }
}
