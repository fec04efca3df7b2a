//! `duetime schedules`.

mod set;
mod show;

use super::exit::Result;
use super::output;
use super::target::Target;
use super::time::{now, relative};
use duetime::ScheduleStatus;
use duetime_core::api::Schedules;
use set::Set;

/// Show recurring jobs; set, show or delete one.
///
/// Each run of a schedule pushes one job with the tag schedule:NAME, due at its time, however many servers there are.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  duetime schedules set nightly --cron '0 3 * * *' --time-zone Europe/Berlin --queue reports --dry-run
  duetime schedules set beat --every 90s --overlap skip '{\"check\": \"stock\"}'
  duetime schedules
  duetime list --tag schedule:nightly")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List all schedules
    List(Target),
    /// Show one schedule, with its next ten runs
    Show(One),
    Set(Box<Set>),
    /// Delete a schedule; what it pushed stays
    Delete(One),
}

#[derive(Debug, clap::Args)]
struct One {
    /// The schedule
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    match args.action {
        None => list(&args.target).await,
        Some(Action::List(target)) => list(&target).await,
        Some(Action::Show(one)) => show_one(&one).await,
        Some(Action::Set(set)) => set.run().await,
        Some(Action::Delete(one)) => delete(&one).await,
    }
}

async fn list(target: &Target) -> Result {
    let schedules = target.client().await?.schedules().await?;
    if target.json {
        return output::json(&Schedules { schedules, next_cursor: None });
    }
    let header = ["NAME", "WHEN", "QUEUE", "KIND", "NEXT", "LAST"];
    output::rows(&header, schedules.iter().map(row), "no schedules yet: `duetime schedules set` makes one")
}

fn row(status: &ScheduleStatus) -> Vec<String> {
    let job = &status.schedule.job;
    let next = status.next.first().map_or_else(|| "never".to_owned(), |&at| relative(at, now()));
    let last = status.last.map(|last| format!("{} {}", last.outcome.word(), relative(last.at, now())));
    let kind = output::snippet(job.kind.as_bytes());
    vec![status.name.to_string(), show::timing(status), job.queue.to_string(), kind, next, last.unwrap_or_default()]
}

async fn show_one(one: &One) -> Result {
    let client = one.target.client().await?;
    let status = client.schedule(&one.name).await?;
    if one.target.json { output::json(&status) } else { show::show(&status) }
}

async fn delete(one: &One) -> Result {
    let client = one.target.client().await?;
    client.delete_schedule(&one.name).await?;
    output::tell(
        one.target.json,
        &serde_json::json!({ "name": one.name, "outcome": "deleted" }),
        format_args!("{} is deleted", one.name),
    )
}
