//! `duetime get`.

use super::one::One;
use crate::cli::exit::Result;
use crate::cli::output::{self, safe, snippet};
use crate::cli::target::Target;
use crate::cli::time::{exact, now};
use crate::retry_rule::{show_backoff, show_exhausted};
use crate::{deliver, job_options};
use duetime_core::api::JobBody;
use duetime_core::{Job, JobOptions, KeyUntil, Retry};
use serde_json::Value;
use std::fmt::Display;

/// Show a job in full.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime get 117111681613568 --json | jq .errors
  duetime get --key order-4711")]
pub(crate) struct Args {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let client = args.target.client().await?;
    let job = client.jobs().get(args.one.id(client).await?).await?;
    if args.target.json { output::json(&JobBody::new(&job, now())) } else { show(&job) }
}

fn show(job: &Job) -> Result {
    line("id", job.id)?;
    line("queue", &job.queue)?;
    line("kind", safe(&job.kind))?;
    line("state", job.state(now()))?;
    line("due", exact(job.due_at.0))?;
    line("attempt", job.attempt)?;
    line("priority", job.priority)?;
    optional("key", job.key.as_deref().map(safe))?;
    optional("key until", job.key.as_ref().filter(|_| job.key_until != KeyUntil::default()).map(|_| "started"))?;
    optional("origin", job.origin.as_deref().map(safe))?;
    optional("tags", (!job.tags.is_empty()).then(|| safe(&job.tags.join(" "))))?;
    optional("lease", job.lease)?;
    optional("expires", job.expires.map(|expires| format!("{expires} after its due time")))?;
    for (name, value) in job_options::given(job.options()) {
        line(&name.replace('_', " "), safe(&words(job.options(), &name, &value)))?;
    }
    optional("crashes", (job.crashes > 0).then_some(job.crashes))?;
    optional("releases", (job.releases() > 0).then_some(job.releases()))?;
    optional("cancel", (job.cancel_asked && job.is_pending()).then_some("requested; the worker has not stopped yet"))?;
    optional("leased until", job.lease_until.map(|at| exact(at.0)))?;
    optional(
        "progress",
        job.progress.as_ref().map(|progress| {
            let note = progress.note.as_deref().map(|note| format!(": {}", safe(note))).unwrap_or_default();
            format!("{} %{note}, at {}", progress.percent, exact(progress.at.0))
        }),
    )?;
    line("pushed", exact(job.created_at.0))?;
    optional("started", job.started_at.map(|at| exact(at.0)))?;
    optional("finished", job.finished_at.map(|at| exact(at.0)))?;
    line("version", job.version)?;
    optional("message", job.message.as_deref().map(safe))?;
    for error in &job.errors {
        let said = snippet(error.message.as_bytes());
        line("error", format_args!("attempt {}, {}: {said}", error.attempt, exact(error.at.0)))?;
    }
    line("payload", safe(&String::from_utf8_lossy(&job.payload)))?;
    optional("result", job.result.as_deref().map(|result| safe(&String::from_utf8_lossy(result))))
}

/// An option in the words of the command line, if it has some; else as it is in JSON.
fn words(options: &JobOptions, name: &str, value: &Value) -> String {
    let JobOptions { retry: Retry { backoff, when_exhausted, .. }, target, .. } = options;
    let words = match name {
        "retry" => backoff.as_ref().map(show_backoff),
        "when_exhausted" => when_exhausted.as_ref().map(show_exhausted),
        "target" => target.as_deref().map(shown),
        "meta" => {
            Some(options.meta().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", "))
        }
        _ => value.as_str().map(str::to_owned),
    };
    words.unwrap_or_else(|| value.to_string())
}

/// Short: headers may hold secrets.
fn shown(target: &duetime_core::Target) -> String {
    match target {
        duetime_core::Target::Url(endpoint) => format!("{} {}", endpoint.method, endpoint.url),
        duetime_core::Target::RedisList(list) => deliver::list_words(list),
        duetime_core::Target::Queue(queue) => format!("the queue {queue}"),
    }
}

fn line(name: &str, value: impl Display) -> Result {
    output::say(format_args!("{:<15} {value}", format!("{name}:")))
}

fn optional(name: &str, value: Option<impl Display>) -> Result {
    value.map_or(Ok(()), |value| line(name, value))
}
