//! `duetime backup`.

use crate::cli::exit::{Failure, Result};
use crate::cli::output::{self, note};
use crate::cli::time::{now, relative};
use duetime_core::Millis;
use duetime_store::sqlite;
use serde_json::json;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Of a time in UTC within the name of a file.
const TIME_FORMAT: &str = "%Y%m%dT%H%M%SZ";

/// Copy a store file, also while a server is using it.
///
/// The copy holds everything that was acknowledged before the backup began, and can be used instead of the store. An
/// earlier backup of the same name is replaced once the new one is on disk. Other files are never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime backup --store duetime.db /backups/duetime-monday.db
  duetime backup --store duetime.db --keep 7 /backups")]
pub(crate) struct Args {
    /// The copy: a new file or an earlier backup; with --keep, a folder
    #[arg(value_name = "PATH")]
    to: PathBuf,
    /// Name the copy after the store and the time, as in `duetime-20261201T060000Z.db`, and keep only the last N
    #[arg(long, value_name = "N")]
    keep: Option<NonZeroUsize>,
    /// Store file
    #[arg(long, value_name = "PATH", env = "DUETIME_STORE", default_value = "duetime.db")]
    store: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result {
    let Args { to, keep, store, json } = args;
    if !store.exists() {
        return Err(Failure::error(format!("there is no store file at {}", store.display())).hint(
            "name the server's store file with --store PATH; Redis and databases are backed up with their own tools",
        ));
    }
    let series = keep.map(|keep| Series::new(&to, &store, keep)).transpose()?;
    let to = series.as_ref().map_or(to, Series::next);
    let (from, copy) = (store.clone(), to.clone());
    let copied = tokio::task::spawn_blocking(move || sqlite::backup(&from, &copy)).await;
    copied.map_err(|error| Failure::error(error.to_string()))??;
    let bytes = std::fs::metadata(&to)?.len();
    let removed = series.as_ref().map_or_else(|| Ok(Vec::new()), Series::prune)?;
    warn_if_left(&store);
    let mut said = format!("{bytes} bytes copied to {}", to.display());
    removed.iter().for_each(|path| said += &format!("\nremoved {}", path.display()));
    output::tell(json, &json!({ "path": to, "bytes": bytes, "removed": removed }), said)
}

/// Tells if no process has the store open: it may be the old one, whose jobs have moved to another store.
fn warn_if_left(store: &Path) {
    // Only this system lists who holds a file.
    let is_left = cfg!(target_os = "linux") && sqlite::probe(store).is_ok_and(|probed| probed.held_by.is_none());
    if is_left {
        let changed = ["", "-wal"].map(|suffix| {
            let path = format!("{}{suffix}", store.display());
            std::fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()
        });
        let changed = changed.into_iter().flatten().max().map_or(0, |since| since.as_millis());
        let changed = relative(Millis::try_from(changed).unwrap_or(0), now());
        note!(
            "no server has {} open; it was last changed {changed}. If your jobs have moved to another store, back that up",
            store.display()
        );
    }
}

/// The backups of one store in a folder.
struct Series {
    folder: PathBuf,
    /// The store's name without `.db`.
    name: String,
    keep: NonZeroUsize,
}

impl Series {
    fn new(folder: &Path, store: &Path, keep: NonZeroUsize) -> Result<Self> {
        if !folder.is_dir() {
            return Err(Failure::error(format!("--keep needs a folder: {} is not one", folder.display()))
                .hint(format!("create it: mkdir {}", folder.display())));
        }
        let name = store.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { folder: folder.to_owned(), name, keep })
    }

    /// The one that is made now.
    fn next(&self) -> PathBuf {
        self.folder.join(format!("{}-{}.db", self.name, jiff::Timestamp::now().strftime(TIME_FORMAT)))
    }

    /// Removes all but the last; answers those that were removed.
    fn prune(&self) -> Result<Vec<PathBuf>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            all.extend(name.to_str().filter(|name| self.has(name)).map(|name| self.folder.join(name)));
        }
        // Their names are in the order of their times.
        all.sort();
        all.truncate(all.len().saturating_sub(self.keep.get()));
        all.iter().try_for_each(std::fs::remove_file)?;
        Ok(all)
    }

    fn has(&self, name: &str) -> bool {
        let time = name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".db"));
        time.is_some_and(|time| jiff::civil::DateTime::strptime(TIME_FORMAT, time).is_ok())
    }
}
