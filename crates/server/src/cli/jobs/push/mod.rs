//! `duetime push`.

mod file;
mod report;

use super::due::When;
use super::job_args::JobArgs;
use crate::cli::exit::{Failure, Result};
use crate::cli::output;
use crate::cli::target::Target;
use crate::cli::time::when;
use clap::{Arg, Args as _, Command, Id};
use duetime_core::NewJob;
use duetime_core::engine::PushOutcome;
use file::Source;
use std::path::PathBuf;
use std::sync::Arc;

/// Push a job, or a file of jobs.
///
/// A file has one job per line: the JSON body of a push over HTTP, plus `queue`. Jobs are pushed in batches of 1,000.
/// Refused lines are reported with their line number and do not stop the others. The exit code is 0 if every line was
/// pushed, 65 if some were refused, and 1 if all were. If the connection breaks, repeat the command: lines that are jobs
/// already are not pushed again, as long as the file is unchanged. To push the same file once more, name an --origin.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime push --delay 30m --queue orders --tag order:4711 '{\"order\": 4711}'
  echo hello | duetime push --at 2027-01-31T08:00:00Z -
  duetime push --file jobs.jsonl --rejects refused.jsonl")]
pub(crate) struct Args {
    /// Payload for the worker, as text; `-` reads bytes from standard input
    #[arg(value_name = "PAYLOAD|-", allow_negative_numbers = true, required_unless_present = "file")]
    payload: Option<String>,
    /// Push the jobs in this file, one JSON object per line; `-` reads standard input. --queue and --trace apply to lines
    /// that name none
    #[arg(long, value_name = "FILE|-", conflicts_with_all = given_by_lines())]
    file: Option<PathBuf>,
    /// Write refused lines to this new file
    #[arg(long, value_name = "FILE", requires = "file", conflicts_with = "payload")]
    rejects: Option<PathBuf>,
    /// Make the push repeatable: if the queue already has a job with this origin, none is added. With --file, the origin of
    /// each line is this, a colon and the line's number; by default it begins with a digest of the file (none for standard
    /// input)
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<Arc<str>>,
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    target: Target,
}

/// The options that each line gives for its job, so they cannot be given for all lines.
fn given_by_lines() -> Vec<Id> {
    let options = JobArgs::augment_args(When::augment_args(Command::new("")));
    let own = options.get_arguments().map(Arg::get_id).filter(|id| !["queue", "trace"].contains(&id.as_str()));
    own.cloned().chain(["payload".into()]).collect()
}

pub(crate) async fn run(args: Args) -> Result {
    if let Some(path) = &args.file {
        let Args { origin, rejects, job, target, .. } = &args;
        let (queue, trace) = (job.queue.clone(), job.trace());
        let source = Source { path, origin: origin.clone(), rejects: rejects.as_ref(), queue, trace };
        return file::run(source, target).await;
    }
    let json = args.target.json;
    let target = args.target.clone();
    let job = job(&args)?;
    let client = target.client_of_new().await?;
    let pushed = client.push_many(vec![job]).await?.pop();
    let pushed = pushed.ok_or_else(|| Failure::error("the server did not answer the push"))??;
    if json { output::json(&pushed) } else { tell(&pushed) }
}

fn job(args: &Args) -> Result<NewJob> {
    let due = args.when.due().unwrap_or_default();
    args.job.job(args.payload.as_deref().unwrap_or_default(), due, args.origin.clone())
}

pub(in crate::cli) fn tell(pushed: &duetime::Pushed) -> Result {
    let what = match pushed.outcome {
        PushOutcome::Created => "pushed",
        PushOutcome::Kept => "not pushed: another job has the key",
        PushOutcome::Replaced => "replaced",
        PushOutcome::Repeated => "already pushed",
        PushOutcome::Dropped => {
            return output::say(format_args!("dropped, not pushed: the queue {} is full", pushed.queue));
        }
    };
    let due = when(pushed.due_at.0);
    output::say(format_args!("{} {what}: queue {}, due {due}", pushed.id, pushed.queue))
}
