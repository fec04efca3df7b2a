//! `duetime push`.

use super::due::When;
use super::exit::{Failure, Result};
use super::job_args::JobArgs;
use super::output;
use super::target::Target;
use super::time::{now, relative};
use duetime::wire::{Instant, Pushed, Text};
use duetime_core::NewJob;
use duetime_core::engine::PushOutcome;

/// Push a job.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime push --delay 30m --queue orders --tag order:4711 '{\"order\": 4711}'
  echo hello | duetime push --at 2027-01-31T08:00:00Z -")]
pub(crate) struct Args {
    /// What the worker is given, any text; `-` reads standard input, any bytes
    #[arg(value_name = "PAYLOAD|-", allow_hyphen_values = true)]
    payload: String,
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let json = args.target.json;
    let target = args.target.clone();
    let job = job(&args)?;
    target
        .with_new(async |client| {
            let pushed = client.push_all(vec![job]).await?.pop();
            let pushed = pushed.ok_or_else(|| Failure::error("the push was not answered"))??;
            if json { output::json(&document(pushed)) } else { tell(&pushed) }
        })
        .await
}

fn job(args: &Args) -> Result<NewJob> {
    let job = args.job.job(&args.payload)?;
    Ok(NewJob { due: args.when.due().unwrap_or_default(), ..job })
}

fn document(pushed: duetime::Pushed) -> Pushed {
    let duetime::Pushed { id, queue, state, due_at, outcome, .. } = pushed;
    Pushed { id, queue: Text(queue), state, due_at: Instant(due_at), outcome }
}

fn tell(pushed: &duetime::Pushed) -> Result {
    let what = match pushed.outcome {
        PushOutcome::Created => "pushed",
        PushOutcome::Kept => "kept (the key is held)",
        PushOutcome::Replaced => "replaced",
    };
    let due = relative(pushed.due_at, now());
    output::say(format_args!("{} {what}: queue {}, due {due}", pushed.id, pushed.queue))
}
