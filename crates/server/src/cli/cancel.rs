//! `duetime cancel`.

use super::exit::Result;
use super::many::{self, Selected};
use duetime_core::engine::{BulkAction, CancelOutcome};

/// Cancel jobs.
///
/// A waiting job is cancelled; of a running one the worker is asked to stop.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime cancel 117111681613568
  duetime cancel --tag order:4711")]
pub(crate) struct Args {
    #[command(flatten)]
    selected: Selected,
}

pub(crate) async fn run(args: Args) -> Result {
    many::run(&args.selected, BulkAction::Cancel, async |client, id| {
        Ok(match client.cancel(id).await? {
            CancelOutcome::Cancelled => "cancelled",
            CancelOutcome::CancelRequested => "cancel_requested",
            CancelOutcome::AlreadyFinished => "already_finished",
        })
    })
    .await
}
