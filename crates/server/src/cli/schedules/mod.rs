//! `duetime schedules`.

mod set;
mod show;

use super::exit::Result;
use super::jobs::push::tell;
use super::output;
use super::queues::{PauseEnd, until};
use super::target::Target;
use super::time::{now, relative};
use duetime_core::api::{Runs, Schedules};
use duetime_core::limits::NEXT_RUNS_SHOWN;
use duetime_core::schedule::{ClockChange, ScheduleStatus};
use set::Set;
use std::sync::Arc;

/// Show recurring jobs; set, pause, resume, run or delete one.
///
/// Each run of a schedule pushes one job, due at the time of the run, with the tag schedule:NAME. This holds for any number
/// of servers.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  duetime schedules set nightly --cron '0 3 * * *' --time-zone Europe/Berlin --queue reports --dry-run
  duetime schedules set beat --every 90s --overlap skip '{\"check\": \"stock\"}'
  duetime schedules
  duetime schedules pause nightly --for 2d
  duetime schedules run nightly
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
    /// Show one schedule and its next ten runs
    Show(One),
    Set(Box<Set>),
    /// Pause a schedule: runs during the pause are skipped
    Pause(Pause),
    /// Resume a paused schedule, from its next run
    Resume(One),
    /// Push the job of a schedule once, now, even if it is paused
    Run(Run),
    /// List the next runs of a schedule, and which ones a clock change moves
    Next(Next),
    /// Delete a schedule; jobs that it pushed stay
    Delete(One),
}

#[derive(Debug, clap::Args)]
struct One {
    /// Schedule name
    #[arg(value_name = "NAME")]
    name: String,
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

#[derive(Debug, clap::Args)]
struct Run {
    #[command(flatten)]
    one: One,
    /// Make the run repeatable: a repeat with the same origin pushes nothing
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<Arc<str>>,
}

#[derive(Debug, clap::Args)]
struct Next {
    #[command(flatten)]
    one: One,
    /// Maximum number of runs, 1 to 100
    #[arg(long, value_name = "N", default_value_t = NEXT_RUNS_SHOWN)]
    limit: usize,
}

pub(crate) async fn run(args: Args) -> Result {
    match args.action {
        None => list(&args.target).await,
        Some(Action::List(target)) => list(&target).await,
        Some(Action::Show(one)) => show_one(&one).await,
        Some(Action::Set(set)) => set.run().await,
        Some(Action::Pause(pause)) => self::pause(&pause).await,
        Some(Action::Resume(one)) => resume(&one).await,
        Some(Action::Run(run)) => run_now(&run).await,
        Some(Action::Next(next)) => self::next(&next).await,
        Some(Action::Delete(one)) => delete(&one).await,
    }
}

async fn list(target: &Target) -> Result {
    let schedules = target.client().await?.schedules().list().await?;
    if target.json {
        return output::json(&Schedules { schedules, next_cursor: None });
    }
    let header = ["NAME", "WHEN", "QUEUE", "KIND", "NEXT", "LAST"];
    output::rows(&header, schedules.iter().map(row), "no schedules yet; `duetime schedules set` creates one")
}

fn row(status: &ScheduleStatus) -> Vec<String> {
    let job = &status.schedule.job;
    let paused_until = status.schedule.paused_until.filter(|_| status.schedule.paused == Some(true));
    let next = match status.next.first() {
        Some(&at) if paused_until.is_some() => format!("{}, paused until then", relative(at.0, now())),
        Some(&at) => relative(at.0, now()),
        None if status.schedule.paused == Some(true) => "paused".to_owned(),
        None => "never".to_owned(),
    };
    let last = status.last.map(|last| format!("{} {}", last.outcome.word(), relative(last.at.0, now())));
    let kind = output::snippet(job.kind.as_bytes());
    vec![status.name.to_string(), show::timing(status), job.queue.to_string(), kind, next, last.unwrap_or_default()]
}

async fn show_one(one: &One) -> Result {
    let client = one.target.client().await?;
    let status = client.schedules().get(&one.name).await?;
    if one.target.json { output::json(&status) } else { show::show(&status) }
}

async fn pause(Pause { one, end }: &Pause) -> Result {
    let client = one.target.client().await?;
    let status = client.schedules().pause(&one.name, end.pause()).await?;
    let end = until(status.schedule.paused_until.map(|at| at.0));
    output::tell(one.target.json, &status, format_args!("{} is paused{end}", one.name))
}

async fn resume(one: &One) -> Result {
    let status = one.target.client().await?.schedules().resume(&one.name).await?;
    output::tell(one.target.json, &status, format_args!("{} is resumed", one.name))
}

async fn run_now(Run { one, origin }: &Run) -> Result {
    let pushed = one.target.client().await?.schedules().run(&one.name, origin.clone()).await?;
    if one.target.json { output::json(&pushed) } else { tell(&pushed) }
}

async fn next(Next { one, limit }: &Next) -> Result {
    let runs = one.target.client().await?.schedules().next_runs(&one.name, *limit).await?;
    if one.target.json {
        return output::json(&Runs { runs });
    }
    let row = |run: &duetime_core::schedule::Run| {
        let change = match run.clock_change {
            None => "",
            Some(ClockChange::Gap) => "moved: the clock skips this time",
            Some(ClockChange::Fold) => "the clock shows this time twice",
        };
        vec![run.local.clone(), relative(run.at.0, now()), change.to_owned()]
    };
    output::rows(&["RUN", "IN", "CLOCK CHANGE"], runs.iter().map(row), "no runs: the schedule has ended or is paused")
}

async fn delete(one: &One) -> Result {
    let client = one.target.client().await?;
    client.schedules().delete(&one.name).await?;
    output::tell(
        one.target.json,
        &serde_json::json!({ "name": one.name, "outcome": "deleted" }),
        format_args!("{} is deleted", one.name),
    )
}
