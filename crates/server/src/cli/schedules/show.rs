//! A schedule for people.

use crate::cli::exit::Result;
use crate::cli::output::{say, snippet};
use crate::cli::queues::until;
use crate::cli::time::{now, relative};
use duetime_core::api::Timestamp;
use duetime_core::schedule::ScheduleStatus;
use duetime_core::{Millis, Timing};
use std::fmt::Display;

/// When it ticks, in words.
pub(super) fn timing(status: &ScheduleStatus) -> String {
    match &status.schedule.timing {
        Timing::Cron { expression, time_zone } => format!("{expression} in {time_zone}"),
        Timing::Every(interval) => format!("every {interval}"),
    }
}

/// All there is to know.
pub(super) fn show(status: &ScheduleStatus) -> Result {
    let schedule = &status.schedule;
    let job = &schedule.job;
    line("schedule", &status.name)?;
    line("when", timing(status))?;
    if schedule.timing.is_either_day() {
        line("", "either its day or its weekday is enough; `+` before the weekday requires both")?;
    }
    for (name, at) in [("start", schedule.start), ("end", schedule.end)] {
        at.map_or(Ok(()), |at| line(name, at))?;
    }
    line("job", format_args!("queue {}, kind {}, {}", job.queue, snippet(job.kind.as_bytes()), snippet(&job.payload)))?;
    schedule.spread.map_or(Ok(()), |spread| line("spread", spread))?;
    line("missed", format!("{:?}", schedule.missed).to_lowercase())?;
    line("overlap", format!("{:?}", schedule.overlap).to_lowercase())?;
    if schedule.paused == Some(true) {
        line("paused", format_args!("yes{}", until(schedule.paused_until.map(|at| at.0))))?;
    }
    if let Some(last) = status.last {
        let job = last.job.map(|id| format!(", job {id}")).unwrap_or_default();
        line("last", format_args!("{}: {}{job}", local(last.at.0, &schedule.timing), last.outcome.word()))?;
    }
    if status.next.is_empty() {
        return line("next", if schedule.paused == Some(true) { "none" } else { "never: it has ended" });
    }
    for (i, &at) in status.next.iter().enumerate() {
        let name = if i == 0 { "next" } else { "" };
        say(format_args!("{name:<9} {} ({})", local(at.0, &schedule.timing), relative(at.0, now())))?;
    }
    Ok(())
}

fn line(name: &str, value: impl Display) -> Result {
    say(format_args!("{name:<9} {value}"))
}

/// In the form that clocks there show.
fn local(at: Millis, timing: &Timing) -> String {
    let Timing::Cron { time_zone, .. } = timing else { return Timestamp(at).to_string() };
    let instant = i64::try_from(at).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let zoned = instant.and_then(|instant| instant.in_tz(time_zone).ok());
    // A zone that this machine does not know.
    zoned.map_or_else(|| Timestamp(at).to_string(), |zoned| zoned.strftime("%a %Y-%m-%d %H:%M:%S %:z").to_string())
}
