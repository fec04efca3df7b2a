//! `duetime bench lateness`: how long after its due time a job's handler starts.

use super::feed::{Feed, Plan};
use super::histogram::Histogram;
use super::options::Load;
use super::report::Report;
use super::waiting;
use crate::cli::exit::{Failure, Result};
use crate::cli::progress::Progress;
use crate::cli::time::{late, now};
use duetime::{Client, Worker};
use duetime_core::limits::SECOND_MS;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Jobs are pushed at this pace before the first is due, at the least.
const PUSH_PER_SECOND: u64 = 20_000;
/// The run has failed if jobs are missing this long after the last was due.
const OVERDUE: Duration = Duration::from_secs(60);
/// Handlers at a time.
const CONCURRENCY: usize = 64;

/// Measure how late jobs start that come due one after another
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of jobs
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10_000)]
    jobs: usize,
    /// Jobs that come due each second
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    #[command(flatten)]
    load: Load,
}

pub(super) async fn run(args: Args) -> Result {
    let Args { jobs, rate, load: Load { shape, traffic, place } } = args;
    let subject = waiting::open(&place).await?;
    let start = now() + SECOND_MS + jobs as u64 * SECOND_MS / PUSH_PER_SECOND;
    let plan = Plan::rate(jobs, start, rate);
    let progress = Progress::new("push", jobs);
    Feed::new(&subject, "bench", shape, traffic).push(&plan, &progress).await?;
    progress.done();
    if now() > start {
        return Err(Failure::error("the first job was due before all were pushed: lower --jobs or --rate"));
    }
    let limit = Duration::from_secs(jobs as u64 / rate) + OVERDUE;
    let lateness = listen(&subject.client, "bench", jobs, limit).await?;
    let setting = format!(
        "{jobs} jobs of {} bytes, {rate} a second; {CONCURRENCY} handlers at a time; {} wait",
        shape.payload, place.waiting
    );
    Report::new("lateness", &subject.name, setting)
        .timing("handler start minus due time", &lateness)
        .finish(subject, place.json)
        .await
}

/// Runs this many jobs of a queue, and tells how late each was.
pub(super) async fn listen(client: &Client, queue: &str, jobs: usize, limit: Duration) -> Result<Histogram> {
    let progress = Progress::new("run", jobs);
    let lateness = Arc::new(Mutex::new(Histogram::new()));
    let done = Arc::new(Notify::new());
    let handler = {
        let (lateness, done, progress) = (lateness.clone(), done.clone(), progress.clone());
        let seen = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        move |context: duetime::Context| {
            let late = late(context.due_at().0);
            lateness.lock().unwrap_or_else(PoisonError::into_inner).record_late(late);
            progress.add(1);
            if seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 == jobs {
                done.notify_one();
            }
            std::future::ready(duetime::worker::Handled::Ok(()))
        }
    };
    let worker = Worker::new(client).queue(queue).concurrency(CONCURRENCY).fallback(handler);
    let end = async { drop(tokio::time::timeout(limit, done.notified()).await) };
    let summary = worker.run_until(end).await?;
    progress.done();
    if summary.succeeded < jobs as u64 {
        return Err(Failure::error(format!("only {} of {jobs} jobs ran in time", summary.succeeded)));
    }
    let lateness = lateness.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(lateness.clone())
}
