//! The next runs, as clocks in the schedule's zone show them.

use super::ScheduleStatus;
use crate::clock::Millis;
use crate::invalid::Invalid;
use crate::json::Timestamp;
use crate::limits::RUNS_MAX;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// A run of a schedule that is still to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Run {
    /// The instant.
    pub at: Timestamp,
    /// The same in the schedule's time zone (RFC 9557); an interval has UTC.
    pub local: String,
    /// The change of the clock that affects this run; `null` for most.
    #[cfg_attr(feature = "openapi", schema(required))]
    #[serde(default)]
    pub clock_change: Option<ClockChange>,
}

/// How a change of the clock affects a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum ClockChange {
    /// The clock skips the time of the run, so it runs when the clock changes.
    Gap,
    /// The clock shows the time of the run twice. A fixed time runs the first time only, and an interval both times.
    Fold,
}

impl Run {
    pub(super) fn new(at: Millis, zone: &TimeZone, clock_change: Option<ClockChange>) -> Self {
        let instant = i64::try_from(at).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let local = instant.map_or_else(|| Timestamp(at).to_string(), |at| at.to_zoned(zone.clone()).to_string());
        Self { at: Timestamp(at), local, clock_change }
    }
}

impl ScheduleStatus {
    /// The next `limit` runs that are not pushed yet, 1 to 100. A schedule that is paused without an end has none.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn runs(&self, limit: usize) -> Result<Vec<Run>, Invalid> {
        if !(1..=RUNS_MAX).contains(&limit) {
            return Err(Invalid::new("limit", format!("between 1 and {RUNS_MAX}"), limit));
        }
        let next = self.next.first().map(|at| at.0);
        // An interval counts from any of its ticks.
        let anchor = next.unwrap_or_default().saturating_sub(self.schedule.distance_ms(&self.name));
        let ticks = self.schedule.ticks_of(&self.name, anchor)?;
        Ok(ticks.from(next, limit).into_iter().map(|at| ticks.run(at)).collect())
    }
}
