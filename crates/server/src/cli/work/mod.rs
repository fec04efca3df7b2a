//! `duetime work`: a worker that runs a command for each job, or sends it to a URL.

mod ending;
mod environment;
mod handler;
mod process;
mod stop;
mod tail;
mod url;

use super::exit::{Failure, Result, TRY_LATER};
use super::output::{self, note};
use super::program::Program;
use super::queues::is_unused;
use super::target::{Target, loaded};
use crate::cli::usage::span;
use duetime::worker::{Handled, Summary};
use duetime::{Client, Context, Worker};
use duetime_core::api::Span;
use duetime_core::limits::{LEASE_MS_MAX, LEASE_MS_MIN};
use duetime_core::model::name;
use handler::Handler;
use serde_json::json;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stop::Stop;
use url::Courier;

/// How long running commands may take to finish after the first signal: as long as they like, since a second signal
/// ends them. A century.
const STOP_LIMIT: Duration = Duration::from_secs(100 * 365 * 86_400);
/// How often a locked store is retried.
const HELD_RETRY: Duration = Duration::from_millis(100);

/// Run a command for each due job, or send each job to a URL.
///
/// The command gets the payload on standard input. Its environment has DUETIME_ID, DUETIME_QUEUE, DUETIME_KIND,
/// DUETIME_ATTEMPT, DUETIME_DUE_AT, DUETIME_DUE_AT_MS, DUETIME_TAGS (one per line), DUETIME_META (a JSON object),
/// DUETIME_KEY, DUETIME_RECEIPT and DUETIME_EPOCH, DUETIME_PREVIOUS (the job whose end began this one, as a JSON object; without
/// its result beyond 64 KiB), and TRACEPARENT if the job belongs to a trace. Exit status 0 completes the job, 65 fails it for good, and any other fails the attempt. The message of a failure is the status, the last line of standard error that is no stack
/// trace, and the end of standard error.
///
/// The lease is extended while the command runs. The command runs in its own process group, which is ended (SIGTERM, then
/// SIGKILL after 5 s) at the time limit, when the job is cancelled, and when its lease is lost.
///
/// The first SIGTERM, SIGINT or SIGHUP lets running commands finish. A second SIGTERM or SIGINT ends them and releases their
/// jobs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime work orders -- ./cancel-order.sh
  duetime work mails invoices --concurrency 8 --time-limit 10m -- python3 send.py
  duetime work hooks --url https://shop.example/hook --webhook-keys keys --concurrency 16
  * * * * *  duetime work orders --for 58s -- ./cancel-order.sh       (crontab)

Exit codes: 0 done, even if jobs failed; 75 try again later: nothing was done, or with --once or --for an outcome was not \
recorded and its job will run again; 126 and 127 the command cannot be run or was not found.")]
pub(crate) struct Args {
    /// Queues, in strict order: an earlier one is emptied first
    #[arg(value_name = "QUEUE", required = true, num_args = 1..)]
    queues: Vec<Arc<str>>,
    /// Number of jobs to run at the same time
    #[arg(long, short, value_name = "N", default_value = "1")]
    concurrency: NonZero<u16>,
    /// Run all due jobs, then exit
    #[arg(long, conflicts_with = "span")]
    once: bool,
    /// Work for this long, finish running jobs, then exit
    #[arg(long = "for", id = "span", value_name = "DURATION")]
    span: Option<Span>,
    /// End a command that runs longer; no limit by default. With --url, up to 30m [default: 30s]
    #[arg(long, value_name = "DURATION")]
    time_limit: Option<Span>,
    /// Lease for each job, extended while it runs; 1s to 12h
    #[arg(long, value_name = "DURATION", value_parser = span::<LEASE_MS_MIN, LEASE_MS_MAX>)]
    lease: Option<Span>,
    /// Name of this worker in `duetime workers` [default: host name and process id]
    #[arg(long, value_name = "NAME")]
    name: Option<Arc<str>>,
    /// Wait this long for a store file that another process has open, then exit with 75
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    wait: Span,
    /// Store standard output, up to 1 MiB, as the job's result, instead of printing it
    #[arg(long)]
    result: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    url: url::Args,
    /// Command and its arguments, run without a shell
    #[arg(last = true, required_unless_present = "url", value_name = "CMD ARGS")]
    command: Vec<OsString>,
}

pub(crate) async fn run(args: Args) -> Result {
    for queue in &args.queues {
        name::check_queue(queue)?;
    }
    if let Some(worker) = &args.name {
        name::check_worker(worker)?;
    }
    let stop = Stop::on_signals()?;
    // Before anything is reserved: a missing command must not fail every job.
    let runner = Runner::of(&args, &stop)?;
    let client = open(&args, &stop).await?;
    let result = work(&args, &client, runner, &stop).await;
    if args.once && matches!(&result, Ok(summary) if *summary == Summary::default()) {
        note_unused(&client, &args.queues).await;
    }
    let closed = client.close().await;
    let summary = result?;
    closed?;
    tell(summary, &args)
}

/// The way in which each job is run.
enum Runner {
    Command(Handler),
    Url(Box<Courier>),
}

impl Runner {
    fn of(args: &Args, stop: &Stop) -> Result<Self> {
        if let Some(url) = &args.url.url {
            let courier = Courier::new(&args.url, url, args.time_limit, args.concurrency.get().into(), stop.clone())?;
            return Ok(Self::Url(Box::new(courier)));
        }
        Ok(Self::Command(Handler {
            program: Program::find(&args.command)?,
            server: args.target.store.is_none().then(|| args.target.address()),
            time_limit: args.time_limit.map(|span| Duration::from_millis(span.0)),
            keeps_result: args.result,
            stop: stop.clone(),
        }))
    }

    async fn run(&self, context: Context) -> Handled {
        match self {
            Self::Command(handler) => handler.run(context).await,
            Self::Url(courier) => courier.run(context).await,
        }
    }
}

async fn work(args: &Args, client: &Client, runner: Runner, stop: &Stop) -> Result<Summary> {
    if args.once {
        // A server that has just started may not know yet all that is due.
        loaded(client).await?;
    }
    let mut worker = Worker::new(client).stop_limit(STOP_LIMIT);
    if let Some(name) = &args.name {
        worker = worker.name(name.clone());
    }
    worker = match &runner {
        Runner::Command(_) => worker.concurrency(args.concurrency.get().into()),
        Runner::Url(courier) => {
            let pace = courier.pace.clone();
            worker.room(move |now| pace.room(now))
        }
    };
    for queue in &args.queues {
        worker = worker.queue(queue.clone());
    }
    if let Some(Span(lease_ms)) = args.lease {
        worker = worker.lease(Duration::from_millis(lease_ms));
    }
    let runner = Arc::new(runner);
    let worker = worker.fallback(move |context: Context| {
        let runner = runner.clone();
        async move { runner.run(context).await }
    });
    let end = stop.asked_within(args.span.map(|span| Duration::from_millis(span.0)));
    let summary =
        if args.once { worker.drain_until(end).await } else { worker.run_until(end).await }.map_err(Failure::from)?;
    stop.fault().map_or(Ok(summary), Err)
}

/// Says which of the queues nobody has used: their names are probably mistyped.
async fn note_unused(client: &Client, queues: &[Arc<str>]) {
    for name in queues {
        // Without the right to look, there is no note.
        if client.queues().get(name).await.is_ok_and(|queue| is_unused(&queue)) {
            note!("duetime: nobody has used the queue {name}: it has no jobs and no settings. Is the name right?");
        }
    }
}

/// Opens the store or server, waiting for a store that is held.
async fn open(args: &Args, stop: &Stop) -> Result<Client> {
    let begin = Instant::now();
    let wait = Duration::from_millis(args.wait.0);
    loop {
        let left = wait.saturating_sub(begin.elapsed());
        match args.target.open().await {
            Err(failure) if failure.is_held() && !left.is_zero() => {
                tokio::select! {
                    () = tokio::time::sleep(HELD_RETRY.min(left)) => {}
                    () = stop.asked_within(None) => return Err(Failure::quiet(TRY_LATER)),
                }
            }
            opened => return opened,
        }
    }
}

fn tell(summary: Summary, args: &Args) -> Result {
    let Summary { succeeded, failed, released, lost, .. } = summary;
    if args.target.json {
        output::json(&json!({ "succeeded": succeeded, "failed": failed, "released": released, "lost": lost }))?;
    } else if lost > 0 || std::io::stderr().is_terminal() {
        // No output to a pipe or a file if all went well: cron mails any output.
        note!(
            "{succeeded} succeeded, {failed} failed, {released} released, {lost} lost their lease or were not recorded"
        );
    }
    // A lease that was lost hours ago is no reason for a long-running worker to report a failed stop.
    let is_bounded = args.once || args.span.is_some();
    if is_bounded && lost > 0 { Err(Failure::quiet(TRY_LATER)) } else { Ok(()) }
}
