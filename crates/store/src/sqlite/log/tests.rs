//! Tests of the threads that sync and copy the log.

use super::*;
use crate::sqlite::queue::Queue;
use crate::sqlite::task::Transaction;
use crate::sqlite::{Options, Sqlite};
use crate::sums::Tallies;
use duetime_core::Stage;
use duetime_core::ports::Ledger;
use duetime_core::testing::ledger_suite::fixture::{apply, ended, record, tagged};
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
        let log = Arc::new(Log::new(&path, Health::default()));
        let queue = Arc::new(Queue::new(None));
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
            move || log.sync(Duration::ZERO, &log.open().unwrap())
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

#[test]
fn at_the_hard_limit_the_writer_waits_for_the_copy_and_restarts_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::new(&folder.path().join("store.db"), Health::default());
    // The last copy began just below the limit.
    *log.state() = SyncState { asked_at: PAGES_MAX - 1, is_copying: true, ..SyncState::default() };
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            PAGES.set(PAGES_MAX);
            log.tend(&Connection::open_in_memory().unwrap());
            PAGES.get()
        });
        let state = log.state();
        let (mut state, _) = log.changed.wait_timeout(state, Duration::from_millis(100)).unwrap();
        assert!(!writer.is_finished(), "the limit is no limit");
        state.is_copying = false;
        drop(state);
        log.changed.notify_all();
        assert_eq!(writer.join().unwrap(), 0);
    });
    assert_eq!(log.state().asked_at, 0);
}

/// Of a log with a hole, nothing after the hole would be found.
#[tokio::test]
async fn what_a_killed_process_has_left_in_its_log_is_copied_before_the_first_write() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copied] = ["store.db", "copied.db"].map(|name| folder.path().join(name));
    let store = Sqlite::open(&path, Options::default()).unwrap();
    store.write(1, 0, |transaction| Ok(transaction.connection.execute_batch("CREATE TABLE more(x)")?)).await.unwrap();
    let bytes = |path: &Path| std::fs::metadata(beside(path, "-wal")).unwrap().len();
    assert!(bytes(&path) > 0);
    std::fs::copy(&path, &copied).unwrap();
    std::fs::copy(beside(&path, "-wal"), beside(&copied, "-wal")).unwrap();
    let _copied = Sqlite::open(&copied, Options::default()).unwrap();
    assert_eq!(bytes(&copied), 0);
    drop(store);
}

/// A reading of the whole file is given up at once, and each step takes few rows.
#[tokio::test]
async fn a_large_file_is_compared_in_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Sqlite::open(&path, Options::default()).unwrap();
    let jobs: Vec<_> = (1..=3_000).map(|n| tagged(n, &["t"])).collect();
    record(&store, &jobs).await;
    let ends: Vec<_> = jobs.iter().step_by(2).map(|job| ended(job, Stage::Succeeded)).collect();
    apply(&store, &ends).await;
    store.close().await.unwrap();
    // What is done to the rows does not reach this index.
    let hide = |index: &str| {
        format!(
            "PRAGMA writable_schema = ON; CREATE TABLE hidden AS SELECT * FROM sqlite_schema WHERE name = '{index}'; \
             DELETE FROM sqlite_schema WHERE name = '{index}'; PRAGMA writable_schema = RESET;"
        )
    };
    let show = "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM hidden; DROP TABLE hidden; \
                PRAGMA writable_schema = RESET;";
    let whole = std::fs::read(&path).unwrap();
    for (index, change, told) in [
        ("duetime_jobs_finished", "SELECT 1", None),
        (
            "duetime_jobs_finished",
            "UPDATE duetime_jobs SET finished_at = 7 WHERE id IN (SELECT max(id) FROM duetime_jobs WHERE state = 10)",
            Some("by finished"),
        ),
        (
            "duetime_jobs_pending",
            "UPDATE duetime_jobs SET bucket = 7 WHERE id IN (SELECT max(id) FROM duetime_jobs)",
            Some("by pending"),
        ),
        (
            "duetime_jobs_queue",
            "DELETE FROM duetime_jobs WHERE id IN (SELECT max(id) FROM duetime_jobs); \
             UPDATE duetime_tallies SET pending = pending - 1",
            Some("cannot be read"),
        ),
    ] {
        std::fs::write(&path, &whole).unwrap();
        let theirs = Connection::open(&path).unwrap();
        theirs.execute_batch(&hide(index)).unwrap();
        theirs.execute_batch(change).unwrap_or_else(|error| assert!(change.starts_with("SELECT"), "{error}"));
        theirs.execute_batch(show).unwrap();
        drop(theirs);
        let log = Arc::new(Log::new(&path, Health::default()));
        log.verify_within(&mut Connection::open(&path).unwrap(), "store", 0, 7);
        let troubles = log.health.troubles();
        match told {
            None => assert_eq!(troubles, []),
            Some(told) => {
                assert!(
                    matches!(&troubles[..], [(Trouble::Damaged, why)] if why.contains(told)),
                    "{index}: {troubles:?}"
                );
            }
        }
    }
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
