//! `duetime reschedule`.

use super::due::When;
use super::exit::{Failure, Result};
use super::output;
use super::target::Target;
use super::time::{now, relative};
use duetime_core::JobId;
use duetime_core::api::JobBody;
use duetime_core::engine::JobRef as Job;

/// Make a waiting job due at another time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime reschedule 117111681613568 --delay 2h
  duetime reschedule 117111681613568 --delay 0s --version 1795168800250")]
pub(crate) struct Args {
    /// The job
    #[arg(value_name = "ID")]
    id: JobId,
    #[command(flatten)]
    when: When,
    /// Only where the job still has this version
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let due = args.when.due().ok_or_else(|| Failure::usage("to when? Give --delay SPAN or --at INSTANT"))?;
    let client = args.target.client().await?;
    let job = client.reschedule(Job { id: args.id, version: args.version }, due).await?;
    output::tell(
        args.target.json,
        &JobBody::new(&job, now()),
        format_args!("{} is due {}", job.id, relative(job.due_at, now())),
    )
}
