//! The write-ahead log: kept short without blocking the writer, and synced to disk in time.
//!
//! Another thread copies the log into the file while the writer continues ("passive" checkpoints). Only the short rest is
//! left to the writer, because only the writer can restart the log under constant load. At a hard limit it does so however
//! much is left.

use super::fault::{self, Fault};
use super::file::BUSY_WAIT;
use super::lock::beside;
use duetime_core::Error;
use rusqlite::Connection;
use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Growth in pages after which the log is copied again: 16 MiB.
const PAGES_PER_COPY: u32 = 4_096;
/// Pages at which the writer restarts the log, once most of it is copied: 64 MiB.
const PAGES_WANTED: u32 = 4 * PAGES_PER_COPY;
/// Pages at which the writer restarts the log however much is left: 256 MiB.
const PAGES_MAX: u32 = 16 * PAGES_PER_COPY;
/// How long written pages may stay unsynced with `durability = "interval"`: 50 ms including the sync itself.
const SYNC_INTERVAL: Duration = Duration::from_millis(40);

thread_local! {
    /// Pages in the log, as reported by SQLite at the last commit of the writer's thread.
    static PAGES: Cell<u32> = const { Cell::new(0) };
}

/// Makes SQLite report the length of the log to this thread.
pub(super) fn watch(connection: &Connection) {
    connection.wal_hook(Some(|_, pages| {
        PAGES.set(u32::try_from(pages).unwrap_or(0));
        Ok(())
    }));
}

/// The log of one file.
pub(super) struct Log {
    path: PathBuf,
    state: Mutex<SyncState>,
    changed: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// The log's length at the last attempt to copy it.
    asked_at: u32,
    /// Whether copying is requested or in progress.
    is_copying: bool,
    /// Whether the log has pages that may not be on disk.
    is_dirty: bool,
    /// Why they cannot be synced. It is permanent: after such an error the state of the disk is unknown.
    sync_error: Option<String>,
    is_closed: bool,
}

impl Log {
    /// Of this store.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), state: Mutex::default(), changed: Condvar::new() }
    }

    /// Fails if written pages could not be synced as promised.
    pub(super) fn check(&self) -> Result<(), Fault> {
        match &self.state().sync_error {
            None => Ok(()),
            Some(error) => Err(Fault::Known(Error::Unavailable(format!(
                "writing {:?} to disk failed ({error}); check the disk, then restart this process",
                self.path
            )))),
        }
    }

    /// Called after a write.
    pub(super) fn written(&self) {
        let mut state = self.state();
        if !state.is_dirty {
            state.is_dirty = true;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Keeps the log short. Called by the writer between transactions.
    pub(super) fn tend(&self, connection: &Connection) {
        let pages = PAGES.get();
        let mut state = self.state();
        if pages < state.asked_at {
            state.asked_at = 0;
        }
        if state.is_copying && pages < PAGES_MAX || pages < state.asked_at + PAGES_PER_COPY {
            return;
        }
        // Most of the log has just been copied, unless the other thread falls behind.
        let starts_over = pages >= PAGES_WANTED && state.asked_at > 0 || pages >= PAGES_MAX;
        state.asked_at = pages;
        if !starts_over {
            state.is_copying = true;
            drop(state);
            self.changed.notify_all();
            return;
        }
        drop(state);
        match start_over(connection) {
            Ok(true) => {
                PAGES.set(0);
                self.state().asked_at = 0;
            }
            Ok(false) => {}
            Err(error) => self.warn(&error),
        }
    }

    /// Copies the log when requested, until closed. Runs on its own thread.
    pub(super) fn copy(&self, connection: &Connection) {
        loop {
            let mut state = self.state();
            while !state.is_copying && !state.is_closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_closed {
                return;
            }
            drop(state);
            if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
                self.warn(&error);
            }
            self.state().is_copying = false;
        }
    }

    /// Syncs the log at intervals, until closed. Runs on its own thread.
    pub(super) fn sync(&self) {
        let _told = Told(self);
        loop {
            let mut state = self.state();
            while !state.is_dirty && !state.is_closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let wait = self.changed.wait_timeout_while(state, SYNC_INTERVAL, |state| !state.is_closed);
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
            if state.is_closed && !state.is_dirty {
                return;
            }
            state.is_dirty = false;
            drop(state);
            let synced = File::open(beside(&self.path, "-wal")).and_then(|log| log.sync_data());
            if let Err(error) = synced {
                tracing::error!(store = %self.path.display(), %error, "acknowledged changes may not be on disk");
                self.state().sync_error.get_or_insert(error.to_string());
            }
        }
    }

    /// Ends both threads.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    fn warn(&self, error: &rusqlite::Error) {
        let error = fault::explain(error, &self.path.display().to_string());
        tracing::warn!(%error, "the write-ahead log could not be copied into the store and grows; check the disk");
    }

    fn state(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports a panic of the sync thread to the writer.
struct Told<'a>(&'a Log);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state().sync_error.get_or_insert_with(|| "the thread that does it panicked".to_owned());
        }
    }
}

/// Copies the rest of the log and lets the next write restart it, unless a reader still needs the log.
fn start_over(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let outcome = connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, i64>(0));
    connection.busy_timeout(BUSY_WAIT)?;
    outcome.map(|busy| busy == 0)
}

/// Copies all of the log and truncates it, at the end.
pub(super) fn empty(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}
