//! `duetime update`: one waiting job.

use super::due::When;
use crate::cli::exit::{Failure, Result};
use crate::cli::output;
use crate::cli::stdin;
use crate::cli::target::Target;
use crate::cli::time::{now, when};
use duetime_core::api::JobBody;
use duetime_core::engine::{JobRef, Patch};
use duetime_core::{Job, JobId};

/// Change a waiting job: its due time, priority or payload.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime update 117111681613568 --priority 0
  duetime update 117111681613568 --payload '{\"order\": 8}' --version 1795168800250")]
pub(crate) struct Args {
    #[command(flatten)]
    when: When,
    /// Priority; 0 is the most urgent
    #[arg(long, value_name = "N")]
    priority: Option<u32>,
    /// Payload for the worker, as text; `-` reads bytes from standard input
    #[arg(long, value_name = "TEXT|-", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Job id
    #[arg(value_name = "ID")]
    id: JobId,
    /// Only if the job still has this version
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    #[command(flatten)]
    target: Target,
}

/// Runs `update`.
pub(crate) async fn run(args: Args) -> Result {
    let Args { when, priority, payload, id, version, target } = args;
    let patch = Patch { due: when.due(), priority, payload: payload.as_deref().map(stdin::or_text).transpose()? };
    if patch.due.is_none() && patch.priority.is_none() && patch.payload.is_none() {
        return Err(Failure::usage("nothing to change: use --delay, --at, --priority or --payload"));
    }
    let job = target.client().await?.jobs().update(JobRef { id, version }, patch).await?;
    output::tell(target.json, &JobBody::new(&job, now()), due_words(&job))
}

/// The due time and priority of a job, in words.
pub(super) fn due_words(job: &Job) -> String {
    format!("{} is due {}, with priority {}", job.id, when(job.due_at.0), job.priority)
}
