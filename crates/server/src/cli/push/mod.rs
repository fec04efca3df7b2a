//! `duetime push`.

mod file;
mod line;
mod report;

use crate::cli::due::When;
use crate::cli::exit::{Failure, Result};
use crate::cli::retry_rule::{parse_backoff, parse_exhausted};
use crate::cli::target::Target;
use crate::cli::time::{now, relative};
use crate::cli::{output, stdin};
use duetime::wire::{Instant, Pushed, Span, Text};
use duetime_core::engine::PushOutcome;
use duetime_core::limits::PRIORITY_DEFAULT;
use duetime_core::{Backoff, KeyUntil, NewJob, OnConflict, Retry, Target as JobTarget, WhenExhausted, name, trace};
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
    #[arg(value_name = "PAYLOAD|-", allow_hyphen_values = true, required_unless_present = "file")]
    payload: Option<String>,
    /// Push the jobs of this file, one a line, as JSON; `-` reads standard input. --queue and --trace are for lines that
    /// name none
    #[arg(long, value_name = "FILE|-", conflicts_with_all = [
        "payload", "kind", "delay", "at", "key", "on_conflict", "key_until", "tag", "priority", "lease", "max_attempts",
        "retry", "when_exhausted", "expires", "delivery",
    ])]
    file: Option<PathBuf>,
    /// Leave out so many lines of the file, which were pushed before
    #[arg(long, value_name = "N", default_value_t = 0, requires = "file", conflicts_with = "payload")]
    skip: u64,
    /// Put refused lines into this file, which must not be there yet
    #[arg(long, value_name = "FILE", requires = "file", conflicts_with = "payload")]
    rejects: Option<PathBuf>,
    /// The queue
    #[arg(long, short, value_name = "QUEUE", default_value = name::QUEUE_DEFAULT)]
    queue: Arc<str>,
    /// Which handler the job is for
    #[arg(long, short, value_name = "KIND", default_value = name::KIND_DEFAULT)]
    kind: Arc<str>,
    #[command(flatten)]
    when: When,
    /// A name that is unique in the queue while the job lives
    #[arg(long, value_name = "KEY")]
    key: Option<Arc<str>>,
    /// What to do where another live job has the key: keep it, replace what it is to do, or refuse this one
    #[arg(long, value_enum, value_name = "WHAT", default_value = "keep", requires = "key")]
    on_conflict: Conflict,
    /// Until when the job holds its key
    #[arg(long, value_enum, value_name = "WHEN", default_value = "finished", requires = "key")]
    key_until: Until,
    /// A label; may be given several times
    #[arg(long, short, value_name = "TAG")]
    tag: Vec<Arc<str>>,
    /// How urgent it is among the due jobs of its queue; 0 comes first
    #[arg(long, value_name = "N", default_value_t = PRIORITY_DEFAULT)]
    priority: u32,
    /// How long a worker holds it unless it asks for more; 1s to 12h
    #[arg(long, value_name = "SPAN")]
    lease: Option<Span>,
    /// Attempts in all, 0 for no limit
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Waits between attempts: `none`, `default`, steps such as `15s,30s,5m`, or JSON as in the HTTP API
    #[arg(long, value_name = "RULE", value_parser = parse_backoff)]
    retry: Option<Backoff>,
    /// What becomes of it after the last attempt: `keep`, `drop`, `restart` or `move:QUEUE`
    #[arg(long, value_name = "WHAT", value_parser = parse_exhausted)]
    when_exhausted: Option<WhenExhausted>,
    /// How long after it is due it may still start
    #[arg(long, value_name = "SPAN")]
    expires: Option<Span>,
    /// Where the job is delivered in place of its queue's target: a URL, or JSON as in the HTTP API
    #[arg(long = "target", value_name = "URL|JSON", value_parser = parse_target)]
    delivery: Option<Arc<JobTarget>>,
    /// The trace that it belongs to, as a W3C traceparent; by default TRACEPARENT, where that is one
    #[arg(long, value_name = "TRACEPARENT")]
    trace: Option<Arc<str>>,
    #[command(flatten)]
    target: Target,
}

fn parse_target(text: &str) -> std::result::Result<Arc<JobTarget>, String> {
    let url = serde_json::json!({ "url": text });
    let target = if text.starts_with('{') { serde_json::from_str(text) } else { serde_json::from_value(url) };
    let target: JobTarget = target.map_err(|error| error.to_string())?;
    target.check().map_err(|error| error.to_string())?;
    Ok(Arc::new(target))
}

/// The trace that this command was started in, where its environment says so.
fn trace_of_environment() -> Option<Arc<str>> {
    std::env::var("TRACEPARENT").ok().filter(|trace| trace::check(trace).is_ok()).map(Arc::from)
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Conflict {
    Keep,
    Replace,
    Reject,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Until {
    Finished,
    Started,
}

pub(crate) async fn run(args: Args) -> Result {
    if let Some(path) = &args.file {
        let Args { skip, rejects, queue, trace, target, .. } = &args;
        let trace = trace.clone().or_else(trace_of_environment);
        let source = Source { path, skip: *skip, rejects: rejects.as_ref(), queue: queue.clone(), trace };
        return file::run(source, target).await;
    }
    let json = args.target.json;
    let target = args.target.clone();
    let job = job(args)?;
    target
        .with_new(async |client| {
            let pushed = client.push_all(vec![job]).await?.pop();
            let pushed = pushed.ok_or_else(|| Failure::error("the push was not answered"))??;
            if json { output::json(&document(pushed)) } else { tell(&pushed) }
        })
        .await
}

fn job(args: Args) -> Result<NewJob> {
    let payload = stdin::or_text(args.payload.as_deref().unwrap_or_default())?;
    let retry = Retry {
        backoff: args.retry,
        max_attempts: args.max_attempts,
        when_exhausted: args.when_exhausted,
        ..Retry::default()
    };
    Ok(NewJob {
        queue: args.queue,
        kind: args.kind,
        due: args.when.due().unwrap_or_default(),
        priority: args.priority,
        key: args.key,
        on_conflict: match args.on_conflict {
            Conflict::Keep => OnConflict::Keep,
            Conflict::Replace => OnConflict::Replace,
            Conflict::Reject => OnConflict::Reject,
        },
        key_until: match args.key_until {
            Until::Finished => KeyUntil::Finished,
            Until::Started => KeyUntil::Started,
        },
        tags: args.tag,
        lease_ms: args.lease.map(|span| span.0),
        retry: (retry != Retry::default()).then_some(retry),
        expires_ms: args.expires.map(|span| span.0),
        target: args.delivery,
        trace: args.trace.or_else(trace_of_environment),
        ..NewJob::new(payload)
    })
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
