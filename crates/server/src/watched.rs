//! Files that are read again when they change. They are looked at every second: a rename into their place, as tools and
//! mounted secrets do it, is seen like any other change.

use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// How often they are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// By which a change of a file is seen; `None` where it cannot be.
type Mark = Option<(SystemTime, u64, u64)>;

/// Files, and how they were when they were last looked at.
struct Watched {
    files: Vec<PathBuf>,
    seen: Vec<Mark>,
}

impl Watched {
    /// Looks at these files from now on.
    fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let files: Vec<_> = files.into_iter().collect();
        let seen = marks(&files);
        Self { files, seen }
    }

    /// Waits until one of them has changed.
    async fn changed(&mut self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let now = marks(&self.files);
            if now != self.seen {
                self.seen = now;
                return;
            }
        }
    }
}

/// Reads files whenever they have changed, and hands what was read on. Where they are wrong, what was read before goes on
/// to hold.
pub(crate) async fn reread<T, E: Display>(
    files: impl IntoIterator<Item = PathBuf>,
    what: &str,
    read: impl Fn() -> Result<T, E>,
    take: impl Fn(T),
) {
    let mut watched = Watched::new(files);
    let shown = watched.files[0].display().to_string();
    loop {
        watched.changed().await;
        match read() {
            Ok(new) => {
                tracing::info!(file = shown, "{what} reloaded");
                take(new);
            }
            Err(error) => tracing::error!(%error, "{what} could not be reloaded; the previous ones stay in use"),
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
