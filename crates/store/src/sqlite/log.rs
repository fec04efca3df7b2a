//! The write-ahead log: kept short without blocking the writer, and synced to disk in time.
//!
//! Another thread copies the log into the file while the writer continues ("passive" checkpoints). Only the short rest is
//! left to the writer, because only the writer can restart the log under constant load. At a hard limit it waits for the other
//! thread and does so however much is left.

#[cfg(test)]
mod tests;

use super::fault::{self, Fault};
use super::file::beside;
use super::file::{self, BUSY_WAIT};
use super::health::Health;
use super::task::Task;
use super::verify;
use super::walk;
use duetime_core::ports::Trouble;
use duetime_core::{Clock, Error, Millis, SystemClock};
use rusqlite::ffi::{self, SQLITE_FULL, SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC};
use rusqlite::{Connection, ErrorCode};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Growth in pages after which the log is copied again: 16 MiB. SQLite searches a longer log more slowly.
const PAGES_PER_COPY: u32 = 4_096;
/// The same under a load of large transactions, which another thread syncs: 64 MiB. They change the same pages of the indexes many times, and each page is copied once.
const PAGES_PER_COPY_LOADED: u32 = 4 * PAGES_PER_COPY;
/// Pages at which the writer restarts the log, once most of it is copied: 64 MiB, and 128 MiB under such a load.
const PAGES_WANTED: u32 = 4 * PAGES_PER_COPY;
const PAGES_WANTED_LOADED: u32 = 2 * PAGES_PER_COPY_LOADED;
/// Pages at which the writer restarts the log however much is left: 256 MiB. While a reader needs the log, it tries again after each growth.
const PAGES_MAX: u32 = 16 * PAGES_PER_COPY;
/// How long a reading of the whole file may take, in milliseconds. Meanwhile the log grows by all that is written.
const VERIFY_MS_MAX: Millis = 5_000;
/// Steps of SQLite's machine after which such a reading looks whether it is to end: a few hundred microseconds.
const STEPS_PER_LOOK: i32 = 10_000;
/// How long written pages may stay unsynced with `durability = "interval"`: 50 ms including the sync itself.
pub(super) const SYNC_INTERVAL: Duration = Duration::from_millis(40);

thread_local! {
    /// Pages in the log, as reported by SQLite at the last commit of the writer's thread.
    static PAGES: Cell<u32> = const { Cell::new(0) };
}

/// Pages in the log, for the writer's thread.
pub(super) fn pages() -> u32 {
    PAGES.get()
}

/// Makes SQLite report the length of the log to this thread.
pub(super) fn watch(connection: &Connection) {
    // rusqlite has a method for it only since 0.33.
    #[allow(
        unsafe_code,
        reason = "the handle is that of a connection that is open, and the hook has no data that could end"
    )]
    unsafe {
        ffi::sqlite3_wal_hook(connection.handle(), Some(note_pages), std::ptr::null_mut());
    }
}

extern "C" fn note_pages(_: *mut c_void, _: *mut ffi::sqlite3, _: *const c_char, pages: c_int) -> c_int {
    PAGES.set(u32::try_from(pages).unwrap_or(0));
    ffi::SQLITE_OK
}

/// The log of one file.
pub(super) struct Log {
    path: PathBuf,
    /// Of the store.
    pub(super) health: Health,
    state: Mutex<SyncState>,
    changed: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// The log's length at the last attempt to copy it.
    asked_at: u32,
    /// Whether the last attempt failed.
    has_copy_failed: bool,
    /// Whether copying is requested or in progress.
    is_copying: bool,
    /// Whether the log has pages that may not be on disk.
    is_dirty: bool,
    /// Tasks that are answered once these pages are.
    tasks: Vec<Box<dyn Task>>,
    /// How many transactions have begun whose tasks are answered so.
    begun: u64,
    /// How many of them have ended.
    ended: u64,
    /// How many of them are on disk.
    synced: u64,
    /// Why something could not be synced. It is permanent: after such an error the state of the disk is unknown.
    sync_error: Option<String>,
    is_closed: bool,
}

impl Log {
    /// Of this store.
    pub(super) fn new(path: &Path, health: Health) -> Self {
        Self { path: path.to_owned(), health, state: Mutex::default(), changed: Condvar::new() }
    }

    /// The file, to be synced.
    pub(super) fn open(&self) -> Result<File, Error> {
        let path = beside(&self.path, "-wal");
        File::open(&path).map_err(|error| Error::Unavailable(format!("cannot open {path:?} ({error})")))
    }

    /// What is wrong with the store.
    pub(super) fn troubles(&self) -> Vec<(Trouble, String)> {
        let mut troubles = self.health.troubles();
        if let Err(error) = self.check() {
            troubles.retain(|(trouble, _)| *trouble != Trouble::Unwritable);
            troubles.push((Trouble::Unwritable, error.to_string()));
        }
        troubles
    }

    /// Fails once a sync has failed.
    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.state().sync_error {
            None => Ok(()),
            Some(error) => Err(Error::Unavailable(format!(
                "writing {:?} to disk failed ({error}); check the disk, then restart this process",
                self.path
            ))),
        }
    }

    /// Called before a transaction that the other thread syncs.
    pub(super) fn begin(&self) {
        self.state().begun += 1;
    }

    /// Called when it has ended. Its tasks are answered once it is on disk.
    pub(super) fn end(&self, tasks: Vec<Box<dyn Task>>) {
        let mut state = self.state();
        state.ended = state.begun;
        state.tasks.extend(tasks);
        state.is_dirty = true;
        drop(state);
        self.changed.notify_all();
    }

    /// Whether such a transaction may not be on disk.
    pub(super) fn is_syncing(&self) -> bool {
        let state = self.state();
        state.synced < state.begun
    }

    /// Waits until every transaction that has begun is on disk, or cannot be synced.
    pub(super) fn wait_synced(&self) {
        let state = self.state();
        let begun = state.begun;
        drop(self.wait_while(state, |state| state.synced < begun && state.sync_error.is_none()));
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
        let is_loaded = state.synced < state.begun;
        let (per_copy, wanted) =
            if is_loaded { (PAGES_PER_COPY_LOADED, PAGES_WANTED_LOADED) } else { (PAGES_PER_COPY, PAGES_WANTED) };
        let is_full = pages >= PAGES_MAX;
        let is_due = pages >= state.asked_at + per_copy || is_full && state.asked_at < PAGES_MAX;
        if !is_due || state.is_copying && !is_full {
            return;
        }
        // While the other thread copies, SQLite refuses to restart the log.
        state = self.wait_while(state, |state| state.is_copying && !state.is_closed);
        // Most of the log has just been copied, unless the other thread falls behind, or a load has just ended.
        let is_copied = state.asked_at > 0 && pages < state.asked_at + 2 * per_copy;
        let starts_over = pages >= wanted && is_copied || is_full;
        state.asked_at = pages;
        if !starts_over {
            state.is_copying = true;
            drop(state);
            self.changed.notify_all();
            return;
        }
        drop(state);
        self.start_over(connection, "RESTART");
    }

    /// Copies the rest of the log and lets the next write restart it, unless a reader or the other thread still needs the log;
    /// as a `TRUNCATE` it also gives its room back. Called by the writer between transactions.
    pub(super) fn start_over(&self, connection: &Connection, mode: &str) {
        match start_over(connection, mode) {
            Ok(true) => {
                PAGES.set(0);
                let mut state = self.state();
                state.asked_at = 0;
                state.has_copy_failed = false;
            }
            Ok(false) => {}
            Err(error) => self.copy_failed(&error),
        }
    }

    /// Copies the log when requested, until closed. Runs on its own thread.
    pub(super) fn copy(&self, connection: &Connection) {
        loop {
            let state = self.wait_while(self.state(), |state| !state.is_copying && !state.is_closed);
            if state.is_closed {
                return;
            }
            drop(state);
            match checkpoint(connection, "PASSIVE") {
                Ok(_) => self.state().has_copy_failed = false,
                Err(error) => self.copy_failed(&error),
            }
            self.state().is_copying = false;
            self.changed.notify_all();
        }
    }

    /// Compares the jobs that are there with those that are counted, once. Runs on its own thread. A reading that takes long is
    /// given up, since the log cannot be restarted meanwhile. Then the rows and the indexes are compared with each other, in short
    /// steps.
    pub(super) fn verify(self: &Arc<Self>, connection: &mut Connection, store: &str) {
        self.verify_within(connection, store, VERIFY_MS_MAX, walk::ROWS);
    }

    fn verify_within(self: &Arc<Self>, connection: &mut Connection, store: &str, most_ms: Millis, rows: usize) {
        let mut is_large = false;
        for step in verify::STEPS {
            self.interrupt_after(connection, most_ms);
            let read = step(connection);
            is_large |= read.as_ref().is_err_and(is_interrupted);
            self.verified(read, store);
        }
        if !is_large {
            return;
        }
        tracing::info!(
            store,
            "the file is too large to compare its jobs with its totals while it is open: they are compared in steps"
        );
        let mut place = Some(walk::START);
        self.interrupt_after(connection, Millis::MAX);
        while let Some(next) = place.take().filter(|_| !self.state().is_closed) {
            let clock = SystemClock::new();
            place = self.verified(walk::step(connection, next, rows), store).flatten();
            // The other half of the time is left to other work.
            let rest = Duration::from_millis(clock.mono());
            drop(self.changed.wait_timeout_while(self.state(), rest, |state| !state.is_closed));
        }
    }

    /// Has readings of this connection end when this time has passed, or the store is closed.
    fn interrupt_after(self: &Arc<Self>, connection: &mut Connection, most_ms: Millis) {
        let (log, clock) = (self.clone(), SystemClock::new());
        let is_over = move || log.state().is_closed || clock.mono() >= most_ms;
        // An error, which older versions of rusqlite do not have, means that the reading takes as long as it takes.
        let _ = connection.progress_handler(STEPS_PER_LOOK, Some(is_over));
    }

    /// The answer of a reading that compares; `None` if it was interrupted, or damage was found.
    fn verified<T>(&self, read: Result<T, Fault>, store: &str) -> Option<T> {
        let fault = match read {
            Ok(read) => return Some(read),
            Err(fault) => fault,
        };
        if !is_interrupted(&fault) {
            let error = fault.into_error(store);
            tracing::error!(store, %error, "jobs are missing or damaged");
            self.health.note(Err(&error));
        }
        None
    }

    /// Syncs the log this long after a write, until closed. Runs on its own thread.
    pub(super) fn sync(&self, interval: Duration, file: &File) {
        let _told = PanicGuard(self);
        loop {
            let mut state = self.wait_while(self.state(), |state| !state.is_dirty && !state.is_closed);
            if !interval.is_zero() {
                let wait = self.changed.wait_timeout_while(state, interval, |state| !state.is_closed);
                state = wait.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.is_closed && !state.is_dirty {
                return;
            }
            state.is_dirty = false;
            let (tasks, ended) = (mem::take(&mut state.tasks), state.ended);
            drop(state);
            let synced = file.sync_data();
            let mut state = self.state();
            if synced.is_ok() {
                state.synced = ended;
            }
            drop(state);
            self.changed.notify_all();
            if let Err(error) = synced {
                self.fail(error.to_string());
            }
            for task in tasks {
                task.answer(self.check());
            }
        }
    }

    /// Ends the threads.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Notes an error of SQLite. If a sync has failed, nothing more is written.
    pub(super) fn note(&self, error: &rusqlite::Error) {
        let code = error.sqlite_error().map(|error| error.extended_code);
        if matches!(code, Some(SQLITE_IOERR_FSYNC | SQLITE_IOERR_DIR_FSYNC)) {
            self.fail(error.to_string());
        }
    }

    /// A sync has failed. The next one could succeed without writing what this one has not.
    fn fail(&self, error: String) {
        let mut state = self.state();
        if state.sync_error.is_none() {
            tracing::error!(store = %self.path.display(), error, "changes may not be on disk; nothing more is written");
            state.sync_error = Some(error);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Logs that copying has failed, unless it failed the last time too.
    fn copy_failed(&self, error: &rusqlite::Error) {
        self.note(error);
        if !mem::replace(&mut self.state().has_copy_failed, true) {
            let error = fault::explain(error, &self.path.display().to_string());
            tracing::warn!(%error, "the write-ahead log could not be copied into the store and grows; check the disk");
        }
    }

    fn wait_while<'a>(
        &self,
        state: MutexGuard<'a, SyncState>,
        is_waiting: impl Fn(&SyncState) -> bool,
    ) -> MutexGuard<'a, SyncState> {
        self.changed.wait_while(state, |state| is_waiting(state)).unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_interrupted(fault: &Fault) -> bool {
    matches!(fault, Fault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted))
}

/// Reports a panic of the sync thread to the writer.
struct PanicGuard<'a>(&'a Log);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the thread that does it panicked".to_owned());
            // Their callers get an error.
            let tasks = mem::take(&mut self.0.state().tasks);
            drop(tasks);
        }
    }
}

/// Copies the rest of the log and lets the next write restart it, unless a reader still needs the log.
fn start_over(connection: &Connection, mode: &str) -> rusqlite::Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let outcome = checkpoint(connection, mode);
    connection.busy_timeout(BUSY_WAIT)?;
    outcome
}

/// Empties a log that a killed process has left. If that process could not sync a part, the system may take this part for written, and no later
/// sync would write it. A power failure would then end the log there.
pub(super) fn begin_empty(connection: &Connection) {
    if let Err(error) = empty(connection) {
        tracing::warn!(%error, "the write-ahead log of the last run could not be copied into the store");
    }
}

/// Copies all of the log and truncates it.
pub(super) fn empty(connection: &Connection) -> rusqlite::Result<()> {
    checkpoint(connection, "TRUNCATE").map(drop)
}

/// Copies the log, if the disk has room for what the file grows by; otherwise the copy would take the rest of the disk from the
/// log, and fail. Returns whether all is copied.
fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<bool> {
    if file::disk(connection)?.is_some_and(|disk| disk.growth > disk.free) {
        return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(SQLITE_FULL), None));
    }
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| Ok(row.get::<_, i64>(0)? == 0))
}
