//! `duetime schedules set`.

use super::show;
use crate::cli::exit::Result;
use crate::cli::jobs::job_args::{JobArgs, words};
use crate::cli::output;
use crate::cli::target::Target;
use duetime_core::api::{Instant, Span};
use duetime_core::{Missed, Overlap, Schedule, Timing};

/// Make a schedule, or change it as a whole; shows its next ten runs
///
/// A job is pushed up to 2 s ahead of its time, so a change in these seconds may come too late for it. Where a schedule
/// ticks at other times than before, it goes on with the first from now on.
#[derive(Debug, clap::Args)]
pub(super) struct Set {
    /// Its name: letters, digits and - + / ; . $ _ ( )
    #[arg(value_name = "NAME")]
    name: String,
    /// What the worker is given, any text; `-` reads standard input, any bytes
    #[arg(value_name = "PAYLOAD|-", default_value = "{}", allow_negative_numbers = true)]
    payload: String,
    /// When: 5 fields, or 6 with seconds first, or `@daily` and the like
    #[arg(long, value_name = "EXPRESSION", required_unless_present = "every")]
    cron: Option<String>,
    /// Always after so long, from --start or from now on; 1s or more
    #[arg(long, value_name = "SPAN", conflicts_with_all = ["cron", "time_zone"])]
    every: Option<Span>,
    /// Whose clocks --cron goes by, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// No run before this instant
    #[arg(long, value_name = "INSTANT")]
    start: Option<Instant>,
    /// No run after this instant
    #[arg(long, value_name = "INSTANT")]
    end: Option<Instant>,
    /// What becomes of runs that are more than 60 s late, since no server was up: none, or one for all of them
    #[arg(long, value_name = "WHAT", default_value = "once", value_parser = words::<Missed>(["skip", "once"]))]
    missed: Missed,
    /// Whether a run is left out while the job before it is live
    #[arg(long, value_name = "WHAT", default_value = "allow", value_parser = words::<Overlap>(["allow", "skip"]))]
    overlap: Overlap,
    /// Show the next runs, and save nothing
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
            client.preview_schedule(&self.name, schedule).await?
        } else {
            client.set_schedule(&self.name, schedule).await?
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
            (_, Some(every)) => Timing::Every(every.0),
            (cron, None) => Timing::parse(cron.as_deref().unwrap_or_default(), self.time_zone.as_deref())?,
        };
        let (start, end) = (self.start.map(|start| start.0), self.end.map(|end| end.0));
        // Each tick is a beginning of its own.
        let mut job = self.job.job(&self.payload)?;
        job.options.trace = None;
        Ok(Schedule { missed: self.missed, overlap: self.overlap, start, end, ..Schedule::new(timing, job) })
    }
}
