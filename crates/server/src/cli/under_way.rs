//! `duetime progress`.

use super::exit::Result;
use super::output;
use super::target::Target;
use duetime_core::Receipt;
use std::sync::Arc;

/// Say how far a running job has come.
///
/// It is shown with the job until its next attempt begins, and extends the lease. A command that `duetime work` runs finds
/// the receipt in DUETIME_RECEIPT, and the server in DUETIME_SERVER. Of a job of a store file nobody else can say it: the
/// worker holds the file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime progress \"$DUETIME_RECEIPT\" 40 'frames are rendered'")]
pub(crate) struct Args {
    /// What proves the lease
    #[arg(value_name = "RECEIPT")]
    receipt: Receipt,
    /// How much is done
    #[arg(value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    percent: u8,
    /// What it is at, up to 1 KiB
    #[arg(value_name = "NOTE")]
    note: Option<Arc<str>>,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let Args { receipt, percent, note, target } = args;
    let client = target.client().await?;
    let extension = client.progress(receipt, percent, note).await?;
    match (target.json, extension.cancel_asked) {
        (true, _) => output::json(&extension),
        (false, true) => output::say("the job was cancelled: its worker is to stop"),
        (false, false) => Ok(()),
    }
}
