//! `duetime bench push`: how many jobs a second are taken in.

use super::feed::{Feed, Plan};
use super::options::{Shape, Traffic, Where};
use super::report::Report;
use super::subject::Subject;
use crate::cli::exit::Result;
use crate::cli::progress::Progress;
use duetime_core::api::Span;

/// Push jobs as fast as they are taken.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 200_000)]
    jobs: usize,
    /// They are due over this span from now
    #[arg(long, value_name = "SPAN", default_value = "30d")]
    within: Span,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    traffic: Traffic,
    #[command(flatten)]
    place: Where,
}

pub(super) async fn run(args: Args) -> Result {
    let subject = Subject::open(&args.place).await?;
    let progress = Progress::new("push", args.jobs);
    let feed = Feed::new(&subject, "bench", args.shape, args.traffic);
    let fed = feed.push(&Plan::spread(args.jobs, args.within.0 / 10, args.within.0), &progress).await?;
    progress.done();
    let Args { jobs, within, shape, traffic, place } = args;
    let setting = format!(
        "{jobs} jobs of {} bytes, {} tags{}, due within {within}; batches of {}, {} at a time; {} wait",
        shape.payload,
        shape.tags,
        if shape.key { ", a key" } else { "" },
        traffic.batch,
        traffic.tasks,
        place.waiting,
    );
    Report::new("push", &subject.name, setting)
        .rate("pushed", jobs, fed.elapsed)
        .timing("each push", &fed.calls)
        .memory_of(&subject)
        .show(place.json)?;
    subject.close().await
}
