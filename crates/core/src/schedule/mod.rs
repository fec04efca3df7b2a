//! Schedules: a recurring rule, and the job that is pushed each time.
//!
//! This module defines schedules, their validity, and their ticks: pure functions of the definition and an instant, so every
//! process finds the same ticks. The engine pushes them.

mod cron;
#[cfg(test)]
mod golden;
mod run;
mod status;
mod ticks;
mod zone;

pub use run::{ClockChange, Run};
pub use status::{LastTick, ScheduleStatus, TickOutcome};
pub use ticks::Ticks;

use crate::clock::Millis;
use crate::hash;
use crate::invalid::Invalid;
use crate::json::{Span, Timestamp};
use crate::limits::{DELAY_MS_MAX, EVERY_MS_MIN, SCHEDULE_PAYLOAD_BYTES_MAX, SECOND_MS, SPREAD_MS_MAX};
use crate::model::id::JobId;
use crate::model::job::{Due, Job, NewJob, OnConflict};
use crate::model::name;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The default time zone.
pub const TIME_ZONE_DEFAULT: &str = "UTC";
/// The prefix of an interval.
const EVERY: &str = "@every";

/// A recurring rule that pushes jobs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Schedule {
    /// When.
    pub timing: Timing,
    /// The job that is pushed each time. Its own `due` is not used and must be [`Due::Now`]: each job is due at its tick.
    pub job: NewJob,
    /// How to handle ticks that nobody pushed in time; by default [`Missed::Once`].
    pub missed: Missed,
    /// How to handle a tick while the last job is live; by default [`Overlap::Allow`].
    pub overlap: Overlap,
    /// No tick before this; by default from when it is saved.
    pub start: Option<Timestamp>,
    /// No tick after this; by default there is no end.
    pub end: Option<Timestamp>,
    /// Whether it pushes nothing. `None` keeps the current state when an existing schedule is set again.
    pub paused: Option<bool>,
    /// The end of the pause; by default it lasts until the schedule is resumed.
    pub paused_until: Option<Timestamp>,
    /// Each tick is later than the rule says, by a distance of up to this that only its name decides; 1 s to 24 h. So schedules with
    /// the same rule do not tick together. By default there is none.
    pub spread: Option<Span>,
}

/// When a schedule ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Timing {
    /// Whenever a local clock matches the expression.
    Cron {
        /// 5 fields, or 6 with seconds first, or `@hourly` and the like.
        expression: Arc<str>,
        /// A name of the IANA time zone database, such as `Europe/Berlin`.
        time_zone: Arc<str>,
    },
    /// At intervals of this length, counted from the start, or from when this was first saved: 1 s to 10 years.
    Every(Span),
}

/// What happens to ticks that came due while nobody ran: the process was down or suspended, or the clock jumped ahead. A tick
/// is on time until the next one is due or 60 s have passed, whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Missed {
    /// None is pushed.
    Skip,
    /// One job is pushed for all of them, due at the last one.
    #[default]
    Once,
}

/// What happens at a tick while the last job of the schedule is live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Overlap {
    /// It pushes its job all the same.
    #[default]
    Allow,
    /// It pushes none.
    Skip,
}

impl Schedule {
    /// A schedule with default settings.
    pub fn new(timing: Timing, job: NewJob) -> Self {
        Self {
            timing,
            job,
            missed: Missed::default(),
            overlap: Overlap::default(),
            start: None,
            end: None,
            paused: None,
            paused_until: None,
            spread: None,
        }
    }

    /// A schedule that runs whenever a clock in this time zone matches the cron expression: 5 fields, or 6 with seconds
    /// first, or `@hourly` and the like. The zone is a name such as `Europe/Berlin` or `UTC`. Both are checked when the
    /// schedule is set.
    pub fn cron(expression: &str, time_zone: &str, job: NewJob) -> Self {
        Self::new(Timing::Cron { expression: expression.trim().into(), time_zone: time_zone.into() }, job)
    }

    /// A schedule that runs at intervals of this length, 1 s to 10 years, counted from [`start`](Self::start), or from when
    /// it is first saved.
    pub fn every(interval: impl Into<Span>, job: NewJob) -> Self {
        Self::new(Timing::Every(interval.into()), job)
    }

    /// Sets what happens to runs that nobody pushed in time; by default one job is pushed for all of them.
    #[must_use]
    pub fn missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }

    /// Sets what happens at a run while the job of the last one is live; by default its job is pushed all the same.
    #[must_use]
    pub fn overlap(self, overlap: Overlap) -> Self {
        Self { overlap, ..self }
    }

    /// Sets the instant before which it does not run; by default it runs from when it is saved.
    #[must_use]
    pub fn start(self, start: impl Into<Timestamp>) -> Self {
        Self { start: Some(start.into()), ..self }
    }

    /// Sets the instant after which it does not run; by default there is no end.
    #[must_use]
    pub fn end(self, end: impl Into<Timestamp>) -> Self {
        Self { end: Some(end.into()), ..self }
    }

    /// Sets a span over which schedules with the same rule are spread: each run is later than the rule says, by a distance of up to this
    /// that only the schedule's name decides. 1 s to 24 h; by default there is none.
    #[must_use]
    pub fn spread(self, spread: impl Into<Span>) -> Self {
        Self { spread: Some(spread.into()).filter(|spread| spread.0 > 0), ..self }
    }

    /// Checks all limits, and that it ticks at all; instants are compared with `now`.
    ///
    /// # Errors
    /// [`Invalid`], naming the part.
    #[doc(hidden)]
    pub fn check(&self, name: &str, now: Millis, payload_bytes_max: usize) -> Result<(), Invalid> {
        name::check_schedule(name)?;
        let due = match self.job.due {
            Due::Now => None,
            Due::After(_) => Some("a delay"),
            Due::At(_) => Some("an instant"),
        };
        if let Some(due) = due {
            return Err(Invalid::new("due_at", "left out: each job is due at the time of its run", due));
        }
        if matches!(self.job.on_conflict, OnConflict::Debounce(_)) {
            return Err(Invalid::new("on_conflict", "a word: each job is due at the time of its run", "a debounce"));
        }
        if self.job.origin.is_some() {
            return Err(Invalid::new("origin", "left out: each run pushes a new job", "one"));
        }
        self.job(name, JobId::MIN, now, now, payload_bytes_max.min(SCHEDULE_PAYLOAD_BYTES_MAX))?;
        if self.paused_until.is_some() && self.paused != Some(true) {
            return Err(Invalid::new("paused_until", "left out unless `paused` is true", "one"));
        }
        for (what, at) in [("start", self.start), ("end", self.end), ("paused_until", self.paused_until)] {
            // The same bounds as those of a job.
            at.map_or(Ok(now), |at| Due::At(at).resolve(now))
                .map_err(|error| Invalid { what: what.into(), ..error })?;
        }
        if let Some(spread) = self.spread {
            spread.check("spread", SECOND_MS, SPREAD_MS_MAX)?;
        }
        if let (Some(start), Some(end)) = (self.start, self.end)
            && end < start
        {
            return Err(Invalid::new("end", format!("not before the start, {start}"), end));
        }
        let endless = Self { end: None, ..self.clone() };
        if endless.ticks(now)?.next(now).is_none() {
            return Err(Invalid::new("cron", "an expression that matches at least one date", self.timing.shown()));
        }
        Ok(())
    }

    /// Its ticks. An interval without a start is counted from `anchor`.
    ///
    /// # Errors
    /// [`Invalid`] for an invalid expression, time zone or interval.
    #[doc(hidden)]
    pub fn ticks(&self, anchor: Millis) -> Result<Ticks, Invalid> {
        Ticks::new(self, anchor)
    }

    /// Its ticks under this name, with the distance that its [`spread`](Self::spread) gives them.
    ///
    /// # Errors
    /// [`Invalid`] for an invalid expression, time zone or interval.
    #[doc(hidden)]
    pub fn ticks_of(&self, name: &str, anchor: Millis) -> Result<Ticks, Invalid> {
        Ok(self.ticks(anchor)?.later(self.distance_ms(name)))
    }

    /// How much later than the rule says it ticks under this name: whole seconds.
    pub(crate) fn distance_ms(&self, name: &str) -> u64 {
        let seconds = self.spread.map_or(0, |spread| spread.0 / SECOND_MS);
        hash::stable(name.as_bytes()) % (seconds + 1) * SECOND_MS
    }

    /// The job of a tick: due then, with the tag `schedule:NAME` beside its own.
    ///
    /// # Errors
    /// [`Invalid`] if it breaks a limit.
    #[doc(hidden)]
    pub fn job(
        &self,
        name: &str,
        id: JobId,
        at: Millis,
        now: Millis,
        payload_bytes_max: usize,
    ) -> Result<Job, Invalid> {
        NewJob { due: Due::At(Timestamp(at)), ..self.tagged_job(name) }.accept(id, now, payload_bytes_max)
    }

    /// The job with the tag `schedule:NAME` beside its own.
    pub(crate) fn tagged_job(&self, name: &str) -> NewJob {
        let mut new = self.job.clone();
        let tag = tag(name);
        if !new.tags.contains(&tag) {
            new.tags.push(tag);
        }
        new
    }

    /// When the pause ends: [`Millis::MAX`] if it lasts until it is resumed, `None` if there is none by now.
    pub(crate) fn pause_end(&self, now: Millis) -> Option<Millis> {
        let end = self.paused_until.unwrap_or(Timestamp(Millis::MAX));
        (self.paused == Some(true) && end > Timestamp(now)).then_some(end.0)
    }

    /// Paused until this instant, as [`pause_end`](Self::pause_end) returns it.
    pub(crate) fn with_pause(self, end: Option<Millis>) -> Self {
        Self { paused: Some(end.is_some()), paused_until: end.filter(|&end| end < Millis::MAX).map(Timestamp), ..self }
    }
}

/// The tag of the jobs of a schedule.
pub fn tag(name: &str) -> Arc<str> {
    Arc::from(format!("schedule:{name}"))
}

impl Timing {
    /// Parses a cron expression for a time zone, or `@every SPAN`, which has none.
    ///
    /// # Errors
    /// [`Invalid`]. The expression and the zone are checked by [`Schedule::check`].
    pub fn parse(text: &str, time_zone: Option<&str>) -> Result<Self, Invalid> {
        let text = text.trim();
        let Some(span) = text.strip_prefix(EVERY) else {
            let time_zone = Arc::from(time_zone.unwrap_or(TIME_ZONE_DEFAULT));
            return Ok(Self::Cron { expression: Arc::from(text), time_zone });
        };
        if let Some(zone) = time_zone {
            return Err(Invalid::new(
                "time_zone",
                "left out: an interval is the same in every time zone",
                name::shown(zone),
            ));
        }
        let span: Span = span.trim().parse().map_err(|_| {
            Invalid::new("cron", "`@every` and a duration, such as `@every 90s`", name::shown(span.trim()))
        })?;
        Ok(Self::Every(span))
    }

    /// Whether a cron expression names both days of the month and weekdays, so that it ticks on days of either kind.
    #[doc(hidden)]
    pub fn is_either_day(&self) -> bool {
        matches!(self, Self::Cron { expression, .. } if cron::is_either_day(expression))
    }

    fn shown(&self) -> String {
        match self {
            Self::Cron { expression, .. } => name::shown(expression),
            Self::Every(interval) => interval.to_string(),
        }
    }
}

fn check_every(every: Span) -> Result<(), Invalid> {
    every.check("every", EVERY_MS_MIN, DELAY_MS_MAX)
}
