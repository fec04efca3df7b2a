//! Files that are read again when they change. They are checked every second. Replacing a file by a rename, as tools and
//! mounted secrets do, is noticed like any other change.

use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// How often the files are checked.
const LOOK: Duration = Duration::from_secs(1);

/// The state by which a change of a file is noticed; `None` if it cannot be read.
type Mark = Option<(SystemTime, u64, u64)>;

/// Files, and the value that was read from them.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    what: &'static str,
    files: Vec<PathBuf>,
    current: RwLock<T>,
}

impl<T: Clone> Watched<T> {
    /// `what` names it in the log; `read` is what the files hold now.
    pub(crate) fn new(what: &'static str, files: impl Into<Vec<PathBuf>>, read: T) -> Self {
        Self { what, files: files.into(), current: RwLock::new(read) }
    }

    /// The value that was last read.
    pub(crate) fn get(&self) -> T {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, read: T) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = read;
    }

    /// Reads the files again whenever they change, until the process stops. If they are invalid, the previous value stays
    /// in use.
    pub(crate) async fn watch<E: Display>(&self, read: impl Fn(&[PathBuf]) -> Result<T, E>) {
        let Some(file) = self.files.first() else { return std::future::pending().await };
        let mut seen = marks(&self.files);
        loop {
            tokio::time::sleep(LOOK).await;
            let now = marks(&self.files);
            if now == seen {
                continue;
            }
            seen = now;
            match read(&self.files) {
                Ok(new) => {
                    tracing::info!(file = %file.display(), "{} reloaded", self.what);
                    self.set(new);
                }
                Err(error) => {
                    tracing::error!(%error, "{} could not be reloaded; the previous ones stay in use", self.what);
                }
            }
        }
    }
}

fn marks(files: &[PathBuf]) -> Vec<Mark> {
    let mark = |file: &PathBuf| {
        let found = std::fs::metadata(file).ok()?;
        Some((found.modified().ok()?, found.len(), found.ino()))
    };
    files.iter().map(mark).collect()
}
