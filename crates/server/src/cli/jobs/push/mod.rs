//! `duetime push`.

mod file;
mod report;

use super::due::When;
use super::job_args::JobArgs;
use crate::cli::exit::{Failure, Result};
use crate::cli::output;
use crate::cli::target::Target;
use crate::cli::time::when;
use duetime_core::NewJob;
use duetime_core::engine::PushOutcome;
use file::Source;
use std::path::PathBuf;
use std::sync::Arc;

/// Push a job, or a file of jobs.
///
/// A file has one job a line, as in the body of a push over HTTP, with its `queue` beside it. Lines go in batches of 1,000;
/// what is refused is told with its line's number, and the others go on. The exit code is 0 where all lines went, 65 where
/// some did, and 1 where none did. Where the connection breaks it is said with which --skip to go on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime push --delay 30m --queue orders --tag order:4711 '{\"order\": 4711}'
  echo hello | duetime push --at 2027-01-31T08:00:00Z -
  duetime push --file jobs.jsonl --rejects refused.jsonl")]
pub(crate) struct Args {
    /// What the worker is given, any text; `-` reads standard input, any bytes
    #[arg(value_name = "PAYLOAD|-", allow_negative_numbers = true, required_unless_present = "file")]
    payload: Option<String>,
    /// Push the jobs of this file, one a line, as JSON; `-` reads standard input. --queue and --trace are for lines that
    /// name none
    #[arg(long, value_name = "FILE|-", conflicts_with_all = [
        "payload", "kind", "delay", "at", "key", "on_conflict", "key_until", "tag", "priority", "lease", "max_attempts",
        "retry", "when_exhausted", "expires", "delivery", "origin",
    ])]
    file: Option<PathBuf>,
    /// Leave out so many lines of the file, which were pushed before
    #[arg(long, value_name = "N", default_value_t = 0, requires = "file", conflicts_with = "payload")]
    skip: u64,
    /// Put refused lines into this file, which must not be there yet
    #[arg(long, value_name = "FILE", requires = "file", conflicts_with = "payload")]
    rejects: Option<PathBuf>,
    /// Identifies this push: where the queue has a job with this origin, no other is made, however often it is pushed
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<Arc<str>>,
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    if let Some(path) = &args.file {
        let Args { skip, rejects, job, target, .. } = &args;
        let (queue, trace) = (job.queue.clone(), job.trace());
        let source = Source { path, skip: *skip, rejects: rejects.as_ref(), queue, trace };
        return file::run(source, target).await;
    }
    let json = args.target.json;
    let target = args.target.clone();
    let job = job(&args)?;
    let client = target.client_of_new().await?;
    let pushed = client.push_all(vec![job]).await?.pop();
    let pushed = pushed.ok_or_else(|| Failure::error("the push was not answered"))??;
    if json { output::json(&pushed) } else { tell(&pushed) }
}

fn job(args: &Args) -> Result<NewJob> {
    let job = args.job.job(args.payload.as_deref().unwrap_or_default())?;
    Ok(NewJob { due: args.when.due().unwrap_or_default(), origin: args.origin.clone(), ..job })
}

pub(in crate::cli) fn tell(pushed: &duetime::Pushed) -> Result {
    let what = match pushed.outcome {
        PushOutcome::Created => "pushed",
        PushOutcome::Kept => "kept (the key is held)",
        PushOutcome::Replaced => "replaced",
        PushOutcome::Repeated => "was pushed before",
    };
    let due = when(pushed.due_at);
    output::say(format_args!("{} {what}: queue {}, due {due}", pushed.id, pushed.queue))
}
