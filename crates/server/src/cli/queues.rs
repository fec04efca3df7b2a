//! `duetime queues`.

mod delete;
mod reports;
mod set;
mod show;

use super::exit::Result;
use super::output;
use super::target::Target;
use super::time::{exact, now, relative};
use crate::cli::usage::span;
use duetime::Client;
use duetime_core::Millis;
use duetime_core::api::{Purged, Queues, Span, Timestamp};
use duetime_core::engine::{QueueSettings, QueueStatus};
use duetime_core::limits::DELAY_MS_MAX;
use duetime_core::ports::{Counts, Tally};

/// Show queues; configure, pause, resume, purge or delete one.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  duetime queues
  duetime queues set orders --retry steps:15s,15s,30s --max-attempts 5 --when-exhausted move:orders-dead
  duetime queues pause orders --for 10m")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List all queues
    List(Target),
    /// Show one queue and its settings
    Show(One),
    /// Show when waiting jobs come due: the next hour by minute, the next day by hour, the next 30 days by day
    Due(reports::OfQueue),
    /// Show why jobs failed: the most recent failures, grouped by queue, kind and message, newest first
    Failures(reports::OfQueue),
    /// Show a server's throughput and lateness over the last hour by minute, or the last day by quarter of an hour
    History(reports::HistoryArgs),
    /// Change settings of a queue; settings that are not given stay unchanged
    Set(Box<set::Set>),
    /// Pause a queue: no jobs are handed out, running ones finish
    Pause(Pause),
    /// Resume a paused queue
    Resume(One),
    /// Cancel every waiting job of a queue
    Purge(One),
    /// Delete a queue with its settings and the records of its jobs; refused while jobs wait or run, or a schedule pushes to it
    Delete(delete::Delete),
}

#[derive(Debug, clap::Args)]
struct One {
    /// Queue name
    #[arg(value_name = "QUEUE")]
    queue: String,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct Pause {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    end: PauseEnd,
}

/// When a pause ends.
#[derive(Debug, clap::Args)]
pub(super) struct PauseEnd {
    /// Pause for this long, such as `10m`; by default until resumed
    #[arg(long = "for", value_name = "DURATION", value_parser = span::<1, DELAY_MS_MAX>)]
    span: Option<Span>,
    /// Pause until this time, such as `2026-12-01T06:00:00Z`
    #[arg(long, value_name = "TIME", conflicts_with = "span")]
    until: Option<Timestamp>,
}

impl PauseEnd {
    pub(super) fn pause(&self) -> duetime_core::engine::Pause {
        match (self.until, self.span) {
            (Some(at), _) => duetime_core::engine::Pause::Until(at),
            (None, Some(time)) => duetime_core::engine::Pause::For(time),
            (None, None) => duetime_core::engine::Pause::UntilResumed,
        }
    }
}

/// ` until 2026-12-01T06:00:00.000Z (in 10 min)`, if the pause ends.
pub(super) fn until(end: Option<Millis>) -> String {
    end.map_or_else(String::new, |at| format!(" until {}", exact(at)))
}

pub(crate) async fn run(args: Args) -> Result {
    match args.action {
        None => list(&args.target).await,
        Some(Action::List(target)) => list(&target).await,
        Some(Action::Show(one)) => show::run(&one).await,
        Some(Action::Due(args)) => reports::due(&args).await,
        Some(Action::Failures(args)) => reports::failures(&args).await,
        Some(Action::History(args)) => reports::history(&args).await,
        Some(Action::Set(set)) => set.run().await,
        Some(Action::Pause(pause)) => self::pause(&pause).await,
        Some(Action::Resume(one)) => resume(&one).await,
        Some(Action::Purge(one)) => purge(&one).await,
        Some(Action::Delete(args)) => args.run().await,
    }
}

async fn list(target: &Target) -> Result {
    let queues = target.client().await?.queues().list().await?;
    if target.json {
        return output::json(&Queues { queues, next_cursor: None });
    }
    let header =
        ["QUEUE", "SCHEDULED", "READY", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "OLDEST READY", "PAUSED"];
    output::rows(&header, queues.iter().map(row), "no queues yet; `duetime push` creates one")
}

fn row(queue: &QueueStatus) -> Vec<String> {
    let QueueStatus { queue, counts, tally, settings, target_held_until: _, lately: _ } = queue;
    let counted = [counts.scheduled, counts.ready, counts.running, tally.succeeded, tally.failed, tally.cancelled];
    let mut row = vec![queue.to_string()];
    row.extend(counted.map(|count| count.to_string()));
    row.push(counts.oldest_due.map_or_else(String::new, |at| format!("due {}", relative(at.0, now()))));
    row.push(match settings.paused_until {
        Some(until) => format!("until {until}"),
        None if settings.paused => "paused".to_owned(),
        None => String::new(),
    });
    row
}

async fn pause(Pause { one, end }: &Pause) -> Result {
    let client = one.target.client().await?;
    let before = client.queues().get(&one.queue).await?;
    let paused = client.queues().pause(&one.queue, end.pause()).await?;
    tell_if_unused(&before);
    said(client, one, format_args!("{} is paused{}", one.queue, until(paused.paused_until.map(|at| at.0)))).await
}

/// Tells of a queue that was never used: its name may have a typo.
fn tell_if_unused(queue: &QueueStatus) {
    if is_unused(queue) {
        output::note!("{} is a new queue without jobs and settings. `duetime queues` lists all queues", queue.queue);
    }
}

/// True if this queue was never used: it has no jobs, no records of jobs, and no settings.
pub(super) fn is_unused(
    QueueStatus { queue: _, counts, tally, settings, target_held_until: _, lately: _ }: &QueueStatus,
) -> bool {
    *counts == Counts::default() && *tally == Tally::default() && *settings == QueueSettings::default()
}

async fn resume(one: &One) -> Result {
    let client = one.target.client().await?;
    tell_if_unused(&client.queues().get(&one.queue).await?);
    client.queues().resume(&one.queue).await?;
    said(client, one, format_args!("{} is resumed", one.queue)).await
}

/// Prints the text, or with `--json` the current queue.
async fn said(client: &Client, one: &One, text: std::fmt::Arguments<'_>) -> Result {
    if one.target.json {
        return output::json(&client.queues().get(&one.queue).await?);
    }
    output::say(text)
}

async fn purge(one: &One) -> Result {
    let client = one.target.client().await?;
    let purged = client.queues().purge(&one.queue).await?;
    output::tell(one.target.json, &Purged { purged }, format_args!("{} cancelled", output::count(purged, "job")))
}
