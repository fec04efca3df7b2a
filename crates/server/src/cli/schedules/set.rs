//! `duetime schedules set`.

use super::show;
use crate::cli::exit::Result;
use crate::cli::jobs::job_args::{JobArgs, words};
use crate::cli::output;
use crate::cli::target::Target;
use crate::cli::usage::span;
use duetime_core::api::{Span, Timestamp};
use duetime_core::limits::{DELAY_MS_MAX, EVERY_MS_MIN};
use duetime_core::{Due, Missed, Overlap, Schedule, Timing};

/// Create or replace a schedule, and show its next ten runs.
///
/// A job is pushed up to 2 s before its due time, so a change within that time may come too late for it. If the times of a
/// schedule change, it continues with the first new time from now on.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("when").args(["cron", "every"]).required(true)))]
pub(super) struct Set {
    /// Schedule name: letters, digits and - + / ; . $ _ ( )
    #[arg(value_name = "NAME")]
    name: String,
    /// Payload for the worker, as text; `-` reads bytes from standard input
    #[arg(value_name = "PAYLOAD|-", default_value = "{}", allow_negative_numbers = true)]
    payload: String,
    /// Cron expression: 5 fields, 6 with seconds first, or `@daily` and the like
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// Interval, 1s or more, counted from --start or from now
    #[arg(long, value_name = "DURATION", conflicts_with = "time_zone", value_parser = span::<EVERY_MS_MIN, DELAY_MS_MAX>)]
    every: Option<Span>,
    /// Time zone of --cron, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// No run before this time
    #[arg(long, value_name = "TIME")]
    start: Option<Timestamp>,
    /// No run after this time
    #[arg(long, value_name = "TIME")]
    end: Option<Timestamp>,
    /// Runs that came due while no server ran are skipped, or run once for all of them
    #[arg(long, value_name = "WHAT", default_value = "once", value_parser = words::<Missed>(["skip", "once"]))]
    missed: Missed,
    /// Run later than the rule says, by a distance of up to this that only the name decides, so that schedules with the same rule
    /// do not run together: 1s to 24h
    #[arg(long, value_name = "DURATION")]
    spread: Option<Span>,
    /// While the previous job is still live, push the next one, or skip it
    #[arg(long, value_name = "WHAT", default_value = "allow", value_parser = words::<Overlap>(["allow", "skip"]))]
    overlap: Overlap,
    /// Show the next runs without saving
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    target: Target,
}

impl Set {
    pub(super) async fn run(&self) -> Result {
        let schedule = self.schedule()?;
        let client = self.target.client_of_new().await?;
        let status = if self.dry_run {
            client.schedules().preview(&self.name, schedule).await?
        } else {
            client.schedules().set(&self.name, schedule).await?
        };
        if self.target.json {
            return output::json(&status);
        }
        if self.dry_run {
            output::say("not saved")?;
        }
        show::show(&status)
    }

    fn schedule(&self) -> Result<Schedule> {
        let timing = match (&self.cron, self.every) {
            (_, Some(every)) => Timing::Every(every),
            (cron, None) => Timing::parse(cron.as_deref().unwrap_or_default(), self.time_zone.as_deref())?,
        };
        let (start, end) = (self.start.map(|start| start.0), self.end.map(|end| end.0));
        // Each tick is its own beginning.
        let mut job = self.job.job(&self.payload, Due::Now, None)?;
        job.options.trace = None;
        Ok(Schedule {
            missed: self.missed,
            spread: self.spread,
            overlap: self.overlap,
            start: start.map(Timestamp),
            end: end.map(Timestamp),
            ..Schedule::new(timing, job)
        })
    }
}
