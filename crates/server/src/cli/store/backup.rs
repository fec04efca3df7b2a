//! `duetime backup`.

use crate::cli::exit::{Failure, Result};
use crate::cli::output;
use duetime_store::sqlite;
use serde_json::json;
use std::path::PathBuf;

/// Copy a store to a file, also while a server works on it.
///
/// The copy holds everything that was acknowledged before it began. It can be opened in the store's place. An earlier
/// backup of the same name is replaced once the new one is on disk. Any other file of that name is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime backup --store duetime.db /backups/duetime-monday.db")]
pub(crate) struct Args {
    /// The copy; a new file or an earlier backup
    #[arg(value_name = "FILE")]
    to: PathBuf,
    /// The store's file
    #[arg(long, value_name = "PATH", env = "DUETIME_STORE", default_value = "duetime.db")]
    store: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result {
    if !args.store.exists() {
        return Err(Failure::error(format!("there is no store at {}", args.store.display()))
            .hint("name the file that the server was started with: --store PATH"));
    }
    let (from, to) = (args.store.clone(), args.to.clone());
    let copied = tokio::task::spawn_blocking(move || sqlite::backup(&from, &to)).await;
    copied.map_err(|error| Failure::error(error.to_string()))??;
    let bytes = std::fs::metadata(&args.to)?.len();
    output::tell(args.json, &json!({ "bytes": bytes }), format_args!("{bytes} bytes copied to {}", args.to.display()))
}
