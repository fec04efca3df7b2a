//! `duetime bench push`: how many jobs a second are taken in.

use super::feed::{Feed, Plan};
use super::options::Load;
use super::report::Report;
use super::waiting;
use crate::cli::exit::Result;
use crate::cli::progress::Progress;
use duetime_core::api::Span;

/// Push jobs as fast as the store accepts them
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of jobs
    #[arg(long, short = 'n', value_name = "N", default_value_t = 200_000)]
    jobs: usize,
    /// Spread the due times over this time from now
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    within: Span,
    #[command(flatten)]
    load: Load,
}

pub(super) async fn run(args: Args) -> Result {
    let Args { jobs, within, load: Load { shape, traffic, place } } = args;
    let subject = waiting::open(&place).await?;
    let progress = Progress::new("push", jobs);
    let feed = Feed::new(&subject, "bench", shape, traffic);
    let fed = feed.push(&Plan::spread(jobs, within.0 / 10, within.0), &progress).await?;
    progress.done();
    let setting = format!(
        "{jobs} jobs of {shape}, due within {within}; batches of {}, {} at a time; {} wait",
        traffic.batch, traffic.tasks, place.waiting
    );
    Report::new("push", &subject.name, setting)
        .rate("pushed", jobs, fed.elapsed)
        .timing("each push", &fed.calls)
        .finish(subject, place.json)
        .await
}
