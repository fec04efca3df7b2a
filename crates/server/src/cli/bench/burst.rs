//! `duetime bench burst`: many jobs due at one instant, and what that does to another queue.

use super::drain::Drain;
use super::feed::{Feed, Plan};
use super::lateness;
use super::options::Load;
use super::report::Report;
use super::waiting;
use crate::cli::exit::{Failure, Result};
use crate::cli::progress::Progress;
use crate::cli::time::now;
use duetime_core::limits::SECOND_MS;
use std::time::{Duration, Instant};

/// Jobs of the other queue that come due each second.
const OTHER_PER_SECOND: u64 = 100;
/// The burst comes this long after the other queue has begun.
const LEAD_MS: u64 = 2 * SECOND_MS;
/// The run has failed if jobs are missing this long after the burst.
const OVERDUE: Duration = Duration::from_secs(300);

/// Hand out many jobs that are due at the same time
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of jobs
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100_000)]
    jobs: usize,
    /// Concurrent workers
    #[arg(long, value_name = "N", default_value = "2", help_heading = "The traffic")]
    workers: std::num::NonZero<u16>,
    /// Seconds during which jobs of another queue come due, 100 each second
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: usize,
    #[command(flatten)]
    load: Load,
}

pub(super) async fn run(args: Args) -> Result {
    let Args { jobs, workers, seconds, load: Load { shape, traffic, place } } = args;
    let subject = waiting::open(&place).await?;
    // Long enough to push them all, at 20,000 a second at the least.
    let other_start = now() + SECOND_MS + jobs as u64 / 20;
    let instant = other_start + LEAD_MS;
    let progress = Progress::new("push", jobs);
    Feed::new(&subject, "bench-burst", shape, traffic).push(&Plan::at(jobs, instant), &progress).await?;
    let others = seconds * OTHER_PER_SECOND as usize;
    let plan = Plan::rate(others, other_start, OTHER_PER_SECOND);
    Feed::new(&subject, "bench-other", shape, traffic).push(&plan, &progress).await?;
    progress.done();
    let left_ms = instant.saturating_sub(now());
    if left_ms == 0 {
        return Err(Failure::error("the jobs were due before all were pushed: lower --jobs"));
    }
    let due = Instant::now() + Duration::from_millis(left_ms);
    let working = Progress::new("burst", jobs);
    let drain = Drain::new(&subject.client, "bench-burst", traffic.batch, workers.get());
    let limit = Duration::from_secs(seconds as u64) + OVERDUE;
    let (drained, other) = tokio::join!(
        async {
            let drained = drain.run(jobs, &working).await?;
            Ok::<_, Failure>((drained, Instant::now()))
        },
        lateness::listen(&subject.client, "bench-other", others, limit)
    );
    working.done();
    let ((drained, completed), other) = (drained?, other?);
    let handed_out = drained.handed_out.saturating_duration_since(due);
    let setting = format!(
        "{jobs} jobs of {} bytes due at one instant; batches of {}, {workers} workers; {} wait",
        shape.payload, traffic.batch, place.waiting
    );
    Report::new("burst", &subject.name, setting)
        .seconds("until all were handed out", handed_out)
        .rate("handed out", jobs, handed_out)
        .rate("completed", jobs, completed.saturating_duration_since(due))
        .timing("lateness of the other queue", &other)
        .finish(subject, place.json)
        .await
}
