//! `duetime delete`.

use super::exit::Result;
use super::many::{self, Selected};
use duetime_core::engine::BulkAction;

/// Remove jobs that do not run, with their records.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime delete 117111681613568
  duetime delete --queue orders-dead --state failed")]
pub(crate) struct Args {
    #[command(flatten)]
    selected: Selected,
}

pub(crate) async fn run(args: Args) -> Result {
    many::run(&args.selected, BulkAction::Delete, async |client, id| {
        client.delete(id).await?;
        Ok("deleted")
    })
    .await
}
