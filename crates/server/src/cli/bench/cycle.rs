//! `duetime bench cycle`: how many jobs a second go through push, reserve and complete.

use super::drain::Drain;
use super::feed::{Feed, Plan};
use super::options::Load;
use super::report::Report;
use super::waiting;
use crate::cli::exit::Result;
use crate::cli::progress::Progress;
use std::time::Instant;

/// Push jobs that are due at once, while workers reserve and complete them
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of jobs
    #[arg(long, short = 'n', value_name = "N", default_value_t = 200_000)]
    jobs: usize,
    /// Concurrent workers
    #[arg(long, value_name = "N", default_value = "2", help_heading = "The traffic")]
    workers: std::num::NonZero<u16>,
    #[command(flatten)]
    load: Load,
}

pub(super) async fn run(args: Args) -> Result {
    let Args { jobs, workers, load: Load { shape, traffic, place } } = args;
    let subject = waiting::open(&place).await?;
    let feed = Feed::new(&subject, "bench", shape, traffic);
    let drain = Drain::new(&subject.client, "bench", traffic.batch, workers.get());
    let (pushing, working) = (Progress::new("push", jobs), Progress::new("cycle", jobs));
    pushing.done();
    let begin = Instant::now();
    let plan = Plan::spread(jobs, 0, 0);
    let (fed, drained) = tokio::join!(feed.push(&plan, &pushing), drain.run(jobs, &working));
    let elapsed = begin.elapsed();
    working.done();
    let (fed, drained) = (fed?, drained?);
    let setting = format!(
        "{jobs} jobs of {shape}; batches of {}, {} pushers, {workers} workers; {} wait",
        traffic.batch, traffic.tasks, place.waiting
    );
    Report::new("cycle", &subject.name, setting)
        .rate("pushed, run, completed", jobs, elapsed)
        .timing("each push", &fed.calls)
        .timing("due to handed out", &drained.lateness)
        .finish(subject, place.json)
        .await
}
