//! The write-ahead log: kept short without blocking the writer, and synced to disk in time.
//!
//! Another thread copies the log into the file while the writer continues ("passive" checkpoints). Only the short rest is
//! left to the writer, because only the writer can restart the log under constant load. At a hard limit it does so however
//! much is left.

use super::fault;
use super::file::BUSY_WAIT;
use super::lock::beside;
use super::task::Task;
use duetime_core::Error;
use rusqlite::Connection;
use rusqlite::ffi::{SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC};
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
pub(super) const SYNC_INTERVAL: Duration = Duration::from_millis(40);

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
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), state: Mutex::default(), changed: Condvar::new() }
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
        let is_waiting = |state: &mut SyncState| state.synced < begun && state.sync_error.is_none();
        drop(self.changed.wait_while(state, is_waiting));
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

    /// Syncs the log this long after a write, until closed. Runs on its own thread.
    pub(super) fn sync(&self, interval: Duration) {
        let _told = Told(self);
        let mut file = None;
        loop {
            let mut state = self.state();
            while !state.is_dirty && !state.is_closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !interval.is_zero() {
                let wait = self.changed.wait_timeout_while(state, interval, |state| !state.is_closed);
                state = wait.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.is_closed && !state.is_dirty {
                return;
            }
            state.is_dirty = false;
            let (tasks, ended) = (std::mem::take(&mut state.tasks), state.ended);
            drop(state);
            let synced = self.sync_file(&mut file);
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

    fn sync_file(&self, file: &mut Option<File>) -> std::io::Result<()> {
        let file = match file {
            Some(file) => file,
            None => file.insert(File::open(beside(&self.path, "-wal"))?),
        };
        file.sync_data()
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

    fn warn(&self, error: &rusqlite::Error) {
        self.note(error);
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
            self.0.fail("the thread that does it panicked".to_owned());
            // Their callers get an error.
            let tasks = std::mem::take(&mut self.0.state().tasks);
            drop(tasks);
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

/// Empties a log that a killed process has left. If that process could not sync a part, the system may take this part for written, and no later
/// sync would write it. A power failure would then end the log there.
pub(super) fn begin_empty(connection: &Connection) {
    if let Err(error) = empty(connection) {
        tracing::warn!(%error, "the write-ahead log of the last run could not be copied into the store");
    }
}

/// Copies all of the log and truncates it.
pub(super) fn empty(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::super::queue::Queue;
    use super::super::task::Transaction;
    use super::super::{Options, Sqlite};
    use super::*;
    use crate::sums::Tallies;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    /// A log with its thread, and one task whose transaction has ended.
    struct Ended {
        _folder: tempfile::TempDir,
        log: Arc<Log>,
        answer: tokio::task::JoinHandle<Result<u32, Error>>,
        syncer: thread::JoinHandle<()>,
    }

    impl Ended {
        /// `make` makes the file.
        async fn new(make: impl FnOnce(&Path)) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store.db");
            make(&beside(&path, "-wal"));
            let log = Arc::new(Log::new(&path));
            let queue = Arc::new(Queue::new());
            let answer = tokio::spawn({
                let queue = queue.clone();
                async move { queue.call(1, 0, |_| Ok(7)).await }
            });
            let mut tasks = tokio::task::spawn_blocking(move || queue.take().unwrap().tasks).await.unwrap();
            let connection = &Connection::open_in_memory().unwrap();
            log.begin();
            tasks[0].run(&mut Transaction { connection, tallies: Tallies::default(), is_careful: false }).unwrap();
            log.end(tasks);
            let syncer = thread::spawn({
                let log = log.clone();
                move || log.sync(Duration::ZERO)
            });
            Self { _folder: folder, log, answer, syncer }
        }

        async fn answer(self) -> Result<u32, Error> {
            let answer = self.answer.await.unwrap();
            self.log.close();
            self.syncer.join().unwrap();
            answer
        }
    }

    #[tokio::test]
    async fn a_task_is_answered_once_its_transaction_is_on_disk() {
        let ended = Ended::new(|path| drop(File::create(path).unwrap())).await;
        ended.log.wait_synced();
        assert!(!ended.log.is_syncing());
        assert_eq!(ended.answer().await.unwrap(), 7);
    }

    /// A pipe can be opened once somebody writes to it, and cannot be synced.
    #[tokio::test]
    async fn nobody_is_answered_before_a_sync_ends_nor_after_it_has_failed() {
        let ended = Ended::new(|path| {
            assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        })
        .await;
        let (log, has_read) = (ended.log.clone(), Arc::new(AtomicBool::new(false)));
        let reader = thread::spawn({
            let (log, has_read) = (log.clone(), has_read.clone());
            move || {
                log.wait_synced();
                has_read.store(true, Ordering::SeqCst);
            }
        });
        assert!(log.is_syncing() && log.check().is_ok());
        assert!(!ended.answer.is_finished() && !has_read.load(Ordering::SeqCst));
        drop(File::options().write(true).open(beside(&log.path, "-wal")).unwrap());
        let error = ended.answer().await.unwrap_err();
        assert!(error.code() == "store_unavailable" && error.to_string().contains("check the disk"), "{error}");
        assert_eq!(log.check().unwrap_err().to_string(), error.to_string());
        reader.join().unwrap();
    }

    #[tokio::test]
    async fn after_a_failed_sync_nothing_is_written_or_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("store.db"), Options::default()).unwrap();
        let fails = |code| {
            store.write::<(), _>(1, 0, move |_| {
                Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None).into())
            })
        };
        assert_eq!(fails(rusqlite::ffi::SQLITE_IOERR_WRITE).await.unwrap_err().code(), "store_unavailable");
        store.write(1, 0, |_| Ok(())).await.unwrap();
        store.read(|_| Ok(())).await.unwrap();
        fails(SQLITE_IOERR_FSYNC).await.unwrap_err();
        for outcome in [store.write(1, 0, |_| Ok(())).await, store.read(|_| Ok(())).await] {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("check the disk, then restart this process"), "{error}");
        }
    }

    /// Of a log with a hole, nothing after the hole would be found.
    #[tokio::test]
    async fn what_a_killed_process_has_left_in_its_log_is_copied_before_the_first_write() {
        let folder = tempfile::tempdir().unwrap();
        let [path, copied] = ["store.db", "copied.db"].map(|name| folder.path().join(name));
        let store = Sqlite::open(&path, Options::default()).unwrap();
        let bytes = |path: &Path| std::fs::metadata(beside(path, "-wal")).unwrap().len();
        assert!(bytes(&path) > 0);
        std::fs::copy(&path, &copied).unwrap();
        std::fs::copy(beside(&path, "-wal"), beside(&copied, "-wal")).unwrap();
        let _copied = Sqlite::open(&copied, Options::default()).unwrap();
        assert_eq!(bytes(&copied), 0);
        drop(store);
    }

    #[tokio::test]
    async fn readers_do_not_wait_for_a_writer_that_panicked() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("store.db"), Options::default()).unwrap();
        let write = store.write::<(), _>(1_000, 0, |_| panic!("a panic that a test asked for"));
        assert_eq!(write.await.unwrap_err().code(), "store_unavailable");
        let rows = |connection: &Connection| {
            Ok(connection.query_row("SELECT count(*) FROM duetime_jobs", [], |row| row.get::<_, u32>(0))?)
        };
        assert_eq!(store.read(rows).await.unwrap(), 0);
    }
}
