//! Whether a file takes changes, and what else is wrong with it.
//!
//! A process keeps writing into a file that was moved or removed, and what it acknowledges then is gone with the next start. So
//! before each transaction the files are looked at by name: they must be those that were opened. A file that is put back is
//! used again.

use super::file::beside;
use duetime_core::ports::Trouble;
use duetime_core::{Clock, Error, Millis, SystemClock};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is appended to the name of the store for each of its files.
const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-leases"];
/// For how long a refusal is told, in milliseconds: smaller changes may succeed meanwhile.
const REFUSAL_TOLD_MS: Millis = 10_000;
/// For how long it is told that records were dropped early, in milliseconds.
const DROPS_TOLD_MS: Millis = 60_000;
/// Pause between two attempts to write something small after a refusal, in milliseconds.
const TRY_EVERY_MS: Millis = 1_000;

/// The health of one file.
#[derive(Default)]
pub(super) struct Health {
    files: Vec<(PathBuf, FileId)>,
    /// Whether they were found at the last look.
    is_moved: AtomicBool,
    state: Mutex<State>,
    clock: SystemClock,
}

/// The device and the inode of a file.
type FileId = (u64, u64);

#[derive(Default)]
struct State {
    /// The last refusal, and when it was.
    refused: Option<(Error, Millis)>,
    /// Whether a change has succeeded since.
    is_accepting: bool,
    /// Damage that was met.
    damage: Option<String>,
    /// How many records were dropped early, and when the last time was.
    dropped: Option<(usize, Millis)>,
    /// When something small was last written to see whether that is possible.
    tried_at: Option<Millis>,
}

impl Health {
    /// Of an open store, whose files are all there.
    ///
    /// # Errors
    /// If they are not.
    pub(super) fn of(store: &Path) -> Result<Self, Error> {
        let paths = SUFFIXES.map(|suffix| beside(store, suffix));
        let known = |path: PathBuf| file_id(&path).map(|id| (path.clone(), id)).map_err(|error| lost(&path, &error));
        let files = paths.into_iter().map(known).collect::<Result<_, _>>()?;
        Ok(Self { files, ..Self::default() })
    }

    /// Fails if a file is no longer where it was opened.
    pub(super) fn check_files(&self) -> Result<(), Error> {
        let found = self.look_for_files();
        self.is_moved.store(found.is_err(), Ordering::Relaxed);
        found
    }

    /// The same, as it was at the last look, without one if all was well: for what is done too often to look each time.
    pub(super) fn check_last(&self) -> Result<(), Error> {
        if self.is_moved.load(Ordering::Relaxed) { self.check_files() } else { Ok(()) }
    }

    fn look_for_files(&self) -> Result<(), Error> {
        for (path, opened) in &self.files {
            match file_id(path) {
                Ok(found) if found == *opened => {}
                Ok(_) => return Err(moved(path, "is another file now")),
                Err(error) => return Err(lost(path, &error)),
            }
        }
        Ok(())
    }

    /// Called with the outcome of each change, and of each reading that failed.
    pub(super) fn note(&self, outcome: Result<(), &Error>) {
        match outcome {
            Ok(()) => {
                let mut state = self.state();
                state.is_accepting = true;
                if state.refused.as_ref().is_some_and(|(_, at)| self.clock.mono() >= at + REFUSAL_TOLD_MS) {
                    state.refused = None;
                }
            }
            Err(error @ (Error::Full(_) | Error::Unavailable(_))) => {
                let mut state = self.state();
                state.is_accepting = false;
                state.refused = Some((error.clone(), self.clock.mono()));
            }
            Err(error @ Error::Damaged(_)) => self.damaged(error.to_string()),
            // An error of the caller.
            Err(_) => {}
        }
    }

    /// Called when content is found to be damaged or missing.
    pub(super) fn damaged(&self, what: String) {
        self.state().damage.get_or_insert(what);
    }

    /// Called when records of finished jobs were dropped before their time.
    pub(super) fn dropped(&self, records: usize) {
        let mut state = self.state();
        let before = state.dropped.map_or(0, |(records, _)| records);
        state.dropped = Some((before + records, self.clock.mono()));
    }

    /// Whether something small should be written now, to see whether changes are possible again.
    pub(super) fn is_to_try(&self) -> bool {
        let now = self.clock.mono();
        let mut state = self.state();
        let is_due = state.refused.is_some() && state.tried_at.is_none_or(|at| now >= at + TRY_EVERY_MS);
        if is_due {
            state.tried_at = Some(now);
        }
        is_due
    }

    /// What is wrong.
    pub(super) fn troubles(&self) -> Vec<(Trouble, String)> {
        let mut troubles = Vec::new();
        if let Err(error) = self.check_files() {
            troubles.push((Trouble::Moved, error.to_string()));
        }
        let state = self.state();
        match &state.refused {
            Some((error @ Error::Full(_), _)) => troubles.push((Trouble::Full, error.to_string())),
            Some((error, _)) if !state.is_accepting && troubles.is_empty() => {
                troubles.push((Trouble::Unwritable, error.to_string()));
            }
            _ => {}
        }
        if let Some((records, at)) = state.dropped
            && self.clock.mono() < at + DROPS_TOLD_MS
        {
            let why = format!("{records} records were dropped since the start, the oldest first");
            troubles.push((Trouble::DropsRecords, why));
        }
        troubles.extend(state.damage.iter().map(|what| (Trouble::Damaged, what.clone())));
        troubles
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_id(path: &Path) -> io::Result<FileId> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

fn lost(path: &Path, error: &io::Error) -> Error {
    moved(path, &format!("cannot be found ({error})"))
}

fn moved(path: &Path, what: &str) -> Error {
    Error::Unavailable(format!(
        "{path:?} {what}, and this process still has the file open that it was: put that file back, or stop this process and \
         restore the store"
    ))
}
