//! Files that are read again when they change. They are checked every second. Replacing a file by a rename, as tools and
//! mounted secrets do, is noticed like any other change.

use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// How often the files are checked.
const LOOK: Duration = Duration::from_secs(1);

/// The state by which a change of a file is noticed; `None` if it cannot be read.
type Mark = Option<(SystemTime, u64, u64)>;

/// Files, and the value that was read from them.
#[derive(Debug, Default)]
pub(crate) struct FileWatch<T> {
    what: &'static str,
    files: Vec<PathBuf>,
    current: watch::Sender<T>,
    /// The marks that the files had before the current value was read.
    seen: Mutex<Vec<Mark>>,
}

impl<T: Clone> FileWatch<T> {
    /// Reads the files. `what` names the value in the log.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn open<E>(
        what: &'static str,
        files: impl Into<Vec<PathBuf>>,
        read: impl FnOnce(&[PathBuf]) -> Result<T, E>,
    ) -> Result<Self, E> {
        let files = files.into();
        // Before the files are read: what is written from now on counts as a change, however long it takes to start.
        let seen = Mutex::new(marks(&files));
        let current = watch::Sender::new(read(&files)?);
        Ok(Self { what, files, current, seen })
    }

    /// The value that was last read.
    pub(crate) fn get(&self) -> T {
        self.current.borrow().clone()
    }

    /// Tells of each value that is read from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<T> {
        self.current.subscribe()
    }

    /// Reads the files again whenever they change, until the process stops. If they are invalid, the previous value stays
    /// in use.
    pub(crate) async fn watch<E: Display>(&self, read: impl Fn(&[PathBuf]) -> Result<T, E>) {
        if self.files.is_empty() {
            return std::future::pending().await;
        }
        loop {
            self.look(&read);
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reads the files again if they have changed.
    pub(crate) fn look<E: Display>(&self, read: impl Fn(&[PathBuf]) -> Result<T, E>) {
        let now = marks(&self.files);
        if std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), now.clone()) == now {
            return;
        }
        match read(&self.files) {
            Ok(new) => {
                tracing::info!(file = %self.files[0].display(), "{} reloaded", self.what);
                self.current.send_replace(new);
            }
            Err(error) => {
                tracing::error!(%error, "{} could not be reloaded; the previous ones stay in use", self.what);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Certificates, tokens and keys of webhooks are all read here.
    #[test]
    fn a_file_that_changes_while_the_server_starts_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let read = |files: &[PathBuf]| std::fs::read_to_string(&files[0]);
        std::fs::write(&file, "one").unwrap();
        let watched = FileWatch::open("words", [file], |files| {
            let before = read(files);
            std::fs::write(&files[0], "the second").unwrap();
            before
        })
        .unwrap();
        assert_eq!(watched.get(), "one");
        watched.look(read);
        assert_eq!(watched.get(), "the second");
    }
}
