//! `duetime update`, `duetime reschedule` and `duetime run`: one waiting job.

use super::due::When;
use crate::cli::exit::{Failure, Result};
use crate::cli::output;
use crate::cli::stdin;
use crate::cli::target::Target;
use crate::cli::time::{now, relative};
use duetime::Patch;
use duetime_core::api::JobBody;
use duetime_core::engine::JobRef;
use duetime_core::{Job, JobId};

/// Change a waiting job: when it is due, its priority, its payload.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime update 117111681613568 --priority 0
  duetime update 117111681613568 --payload '{\"order\": 8}' --version 1795168800250")]
pub(crate) struct Args {
    #[command(flatten)]
    when: When,
    /// 0 is the most urgent
    #[arg(long, value_name = "N")]
    priority: Option<u32>,
    /// What the worker is given, any text; `-` reads standard input, any bytes
    #[arg(long, value_name = "TEXT|-", allow_hyphen_values = true)]
    payload: Option<String>,
    #[command(flatten)]
    one: One,
}

/// Make a waiting job due at another time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime reschedule 117111681613568 --delay 2h
  duetime reschedule 117111681613568 --delay 0s --version 1795168800250")]
pub(crate) struct Reschedule {
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    one: One,
}

/// Run a waiting job now, in place of at its time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime run 117111681613568")]
pub(crate) struct Run {
    #[command(flatten)]
    one: One,
}

#[derive(Debug, clap::Args)]
struct One {
    /// The job
    #[arg(value_name = "ID")]
    id: JobId,
    /// Only where the job still has this version
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    #[command(flatten)]
    target: Target,
}

/// Runs `update`.
pub(crate) async fn run(args: Args) -> Result {
    let Args { when, priority, payload, one } = args;
    let patch = Patch { due: when.due(), priority, payload: payload.as_deref().map(stdin::or_text).transpose()? };
    if patch.due.is_none() && patch.priority.is_none() && patch.payload.is_none() {
        return Err(Failure::usage("nothing changes: give --delay, --at, --priority or --payload"));
    }
    change(&one, patch).await
}

/// Runs `reschedule`.
pub(crate) async fn reschedule(Reschedule { when, one }: Reschedule) -> Result {
    let due = when.due().ok_or_else(|| Failure::usage("to when? Give --delay SPAN or --at INSTANT"))?;
    change(&one, Patch { due: Some(due), ..Patch::default() }).await
}

async fn change(one: &One, patch: Patch) -> Result {
    let target = JobRef { id: one.id, version: one.version };
    tell(&one.target.client().await?.update(target, patch).await?, one.target.json)
}

/// Runs `run`.
pub(crate) async fn run_now(Run { one }: Run) -> Result {
    let target = JobRef { id: one.id, version: one.version };
    tell(&one.target.client().await?.run(target).await?, one.target.json)
}

fn tell(job: &Job, json: bool) -> Result {
    output::tell(
        json,
        &JobBody::new(job, now()),
        format_args!("{} is due {}, with priority {}", job.id, relative(job.due_at, now()), job.priority),
    )
}
