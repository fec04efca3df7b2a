//! `duetime retry`.

use super::exit::Result;
use super::many::{self, Selected};
use duetime_core::engine::BulkAction;

/// Run finished jobs again, from attempt 0.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime retry 117111681613568
  duetime retry --queue orders --state failed")]
pub(crate) struct Args {
    #[command(flatten)]
    selected: Selected,
}

pub(crate) async fn run(args: Args) -> Result {
    many::run(&args.selected, BulkAction::Retry, async |client, id| {
        client.retry(id).await?;
        Ok("retried")
    })
    .await
}
