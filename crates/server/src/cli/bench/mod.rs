//! `duetime bench`: loads on any store or server, and their measurements.
//!
//! The load generator shares the machine with what it measures, so it prepares what it can before the clock starts, and
//! reads only the parts of answers that it counts.

mod burst;
mod cycle;
mod drain;
mod feed;
mod histogram;
mod http;
mod lateness;
mod options;
mod push;
mod report;
mod subject;
mod waiting;

use super::exit::Result;

/// Measure a store or a server.
///
/// Without --server, a temporary store is created and removed afterwards.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime bench push --jobs 1000000 --batch 1000 --tasks 4
  duetime bench cycle --server http://127.0.0.1:7300
  duetime bench lateness --rate 2000 --waiting 1000000 --json")]
pub(crate) struct Args {
    #[command(subcommand)]
    load: Load,
}

#[derive(Debug, clap::Subcommand)]
enum Load {
    Push(push::Args),
    Cycle(cycle::Args),
    Lateness(lateness::Args),
    Burst(burst::Args),
}

pub(crate) async fn run(args: Args) -> Result {
    match args.load {
        Load::Push(args) => push::run(args).await,
        Load::Cycle(args) => cycle::run(args).await,
        Load::Lateness(args) => lateness::run(args).await,
        Load::Burst(args) => burst::run(args).await,
    }
}
