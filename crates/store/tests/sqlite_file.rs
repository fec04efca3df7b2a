//! The SQLite store as a file: opening, holding, damage, a full disk, backups. The behaviour of a ledger is tested in the
//! conformance suite.

mod damage;
mod descriptors;
mod full_disk;
mod moved;
mod threads;

use duetime_core::Error;
use duetime_core::ports::{LeaseRecord, Leases, Ledger, OutboxEntry, Queues, Recorded, Registry, Selector};
use duetime_core::testing::ledger_suite::fixture::*;
use duetime_core::{Job, Stage};
use duetime_store::sqlite::{self, Durability, Options, Sqlite};
use full_disk::SmallDisk;
use std::fs;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn open(path: &Path) -> Result<Sqlite, Error> {
    Sqlite::open(path, Options::default())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// Copies the files of an open store to this folder, as a process would leave them that is killed now.
fn leave_as_killed(path: &Path, folder: &Path) -> PathBuf {
    let copy = folder.join("duetime.db");
    for suffix in ["", "-wal", "-leases"] {
        fs::copy(beside(path, suffix), beside(&copy, suffix)).unwrap();
    }
    copy
}

/// A closed store with this many jobs.
async fn filled(path: &Path, jobs: u64) {
    let store = open(path).unwrap();
    record(&store, &(1..=jobs).map(job).collect::<Vec<_>>()).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn what_was_answered_outlives_a_drop_without_close() {
    let folder = folder();
    let path = folder.path().join("duetime.db");
    for durability in [Durability::Commit, Durability::Interval, Durability::None] {
        let store = Sqlite::open(&path, Options { durability }).unwrap();
        let n = durability as u64 + 1;
        record(&store, &[tagged(n, &["t"])]).await;
        apply(&store, &[ended(&tagged(n, &["t"]), Stage::Succeeded)]).await;
        store.put_if("queue", &durability.to_string(), "{}", 0).await.unwrap();
        drop(store);
        let store = open(&path).unwrap();
        assert_eq!(found(&store, all(Selector::Tag(text("t")))).await, (1..=n).collect::<Vec<_>>());
        assert_eq!(store.tallies(Queues::first()).await.unwrap()[0].1.succeeded, n);
        assert_eq!(store.documents("queue").await.unwrap().len() as u64, n);
    }
}

#[tokio::test]
async fn ids_go_on_after_a_restart() {
    let folder = folder();
    let path = folder.path().join("duetime.db");
    let store = open(&path).unwrap();
    let first = store.allot(1_000, NOW).await.unwrap();
    drop(store);
    let second = open(&path).unwrap().allot(1, NOW - 60_000).await.unwrap();
    assert_eq!(second.start, first.end);
}

#[tokio::test]
async fn closing_empties_the_log() {
    let folder = folder();
    let path = folder.path().join("duetime.db");
    let store = open(&path).unwrap();
    record(&store, &[job(1)]).await;
    assert!(fs::metadata(beside(&path, "-wal")).unwrap().len() > 0);
    store.close().await.unwrap();
    assert!(!beside(&path, "-wal").exists());
}

#[tokio::test]
async fn the_log_stays_bounded_under_load() {
    let folder = folder();
    let path = folder.path().join("duetime.db");
    let store = Sqlite::open(&path, Options { durability: Durability::None }).unwrap();
    let (mut written, mut longest) = (0, 0);
    for batch in 0..60 {
        let jobs = (1..=100).map(|n| job_with(batch * 100 + n, |job| job.payload = vec![7; 100_000].into()));
        let jobs: Vec<Job> = jobs.collect();
        written += 100 * 100_000;
        record(&store, &jobs).await;
        longest = longest.max(fs::metadata(beside(&path, "-wal")).unwrap().len());
    }
    // Without a checkpoint it would be longer than the written data; the hard bound is 256 MiB and one transaction.
    assert!(written > 500_000_000);
    assert!(longest < 300 << 20, "{longest}");
}

#[test]
fn one_file_has_one_holder() {
    let folder = folder();
    let path = folder.path().join("duetime.db");
    let store = open(&path).unwrap();
    let held = Error::Held { path: path.canonicalize().unwrap().display().to_string(), pid: std::process::id() };
    assert_eq!(open(&path).unwrap_err(), held);
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(open(&link).unwrap_err(), held, "also by another name");
    drop(store);
    open(&path).unwrap();
}

/// The other process is this test again, told which store to hold until its input ends.
#[test]
fn another_process_is_refused_until_the_holder_dies() {
    const STORE: &str = "DUETIME_TEST_STORE";
    if let Some(path) = std::env::var_os(STORE) {
        let store = open(Path::new(&path)).unwrap();
        println!("\nheld");
        let _ = std::io::stdin().read_line(&mut String::new());
        return drop(store);
    }
    let folder = folder();
    let path = folder.path().join("duetime.db");
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite_file::another_process_is_refused_until_the_holder_dies", "--nocapture"])
        .env(STORE, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));
    let error = open(&path).unwrap_err();
    assert_eq!(error.code(), "store_held");
    assert!(error.to_string().contains(&format!("process {}", holder.id())), "{error}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    open(&path).unwrap();
}

#[test]
fn what_can_be_no_store_is_refused_with_advice() {
    let folder = folder();
    let missing = folder.path().join("no/such/duetime.db");
    for (path, advice) in
        [(folder.path(), "name a file"), (&missing, "create it"), (Path::new("/"), "not the name of a file")]
    {
        let error = open(path).unwrap_err();
        assert_eq!(error.code(), "store_unusable", "{path:?}");
        assert!(error.to_string().contains(advice), "{error}");
    }
    assert!(!folder.path().join("no").exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    // `/proc` refuses new files to anybody, also to root, whom permissions do not stop.
    let error = open(Path::new("/proc/duetime.db")).unwrap_err();
    assert_eq!(error.code(), "store_unusable");
    assert!(error.to_string().contains("give this user write access"), "{error}");
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("duetime.db");
    filled(&path, 1).await;
    // user_version: four bytes at 60 of the head.
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(60)).unwrap();
    file.write_all(&99_u32.to_be_bytes()).unwrap();
    let before = fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.code(), "store_unusable");
    assert!(error.to_string().contains("newer"), "{error}");
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn another_programs_file_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("theirs.db");
    let theirs = rusqlite::Connection::open(&path).unwrap();
    theirs.execute_batch("CREATE TABLE notes (text)").unwrap();
    drop(theirs);
    let before = fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.code(), "store_unusable");
    assert!(error.to_string().contains("another program"), "{error}");
    assert!(fs::read(&path).unwrap() == before);
    assert!(!beside(&path, "-wal").exists());
}

#[tokio::test]
async fn a_damaged_file_is_told_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("duetime.db");
    filled(&path, 1_000).await;
    let whole = fs::read(&path).unwrap();
    let mut garbage_head = whole.clone();
    garbage_head[..100].fill(b'x');
    let cut = whole[..whole.len() - 5_000].to_vec();
    let text = b"not a database, but somebody's notes\n".repeat(20);
    let stub = b"SQLite".to_vec();
    // What does not begin as an SQLite file was probably never a store.
    let (is_other, is_damaged) = ("store_unusable", "store_damaged");
    for (damaged, code) in [(garbage_head, is_other), (cut, is_damaged), (text, is_other), (stub, is_damaged)] {
        fs::write(&path, &damaged).unwrap();
        let error = open(&path).unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.to_string().contains("backup"), "{error}");
        assert!(fs::read(&path).unwrap() == damaged, "it was changed");
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(open(&path).unwrap().tallies(Queues::first()).await.unwrap()[0].1.pending, 1_000);
}

#[tokio::test]
async fn damage_within_is_told_when_it_is_met() {
    let folder = folder();
    let path = folder.path().join("duetime.db");
    filled(&path, 5_000).await;
    let mut bytes = fs::read(&path).unwrap();
    // All pages but those of the schema and of the small tables, which come first.
    let pages = bytes.len() / 4096;
    for page in pages / 4..pages {
        bytes[page * 4096..page * 4096 + 64].fill(0xa5);
    }
    fs::write(&path, &bytes).unwrap();
    let store = open(&path).unwrap();
    let ids: Vec<_> = (1..=5_000).map(id).collect();
    let error = store.get(&ids).await.unwrap_err();
    assert_eq!(error.code(), "store_damaged");
    let entries = (1..=5_000).map(|n| OutboxEntry::Changed(ended(&job(n), Stage::Failed))).collect();
    assert_eq!(store.apply(entries, WATERMARK).await.unwrap_err().code(), "store_damaged");
}

#[tokio::test]
async fn a_live_store_is_copied_whole() {
    let folder = folder();
    let store = Arc::new(open(&folder.path().join("duetime.db")).unwrap());
    record(&*store, &(1..=2_000).map(|n| tagged(n, &["t"])).collect::<Vec<_>>()).await;
    let pushing = tokio::spawn({
        let store = store.clone();
        async move {
            for n in 2_001..2_200 {
                record(&*store, &[job(n)]).await;
            }
        }
    });
    let to = folder.path().join("copy.db");
    store.backup(&to).await.unwrap();
    pushing.await.unwrap();

    let error = store.backup(&folder.path().join("no/copy.db")).await.unwrap_err();
    assert_eq!(error.code(), "store_unusable");

    let copy = open(&to).unwrap();
    let rows = found(&copy, all(Selector::All)).await;
    assert!(rows.len() >= 2_000);
    assert_eq!(rows, (1..=rows.len() as u64).collect::<Vec<_>>(), "it is one moment");
    assert_eq!(copy.tallies(Queues::first()).await.unwrap()[0].1.pending, rows.len() as u64);
    assert_eq!(found(&copy, all(Selector::Tag(text("t")))).await.len(), 2_000);
    assert_eq!(copy.record(vec![job(1)], WATERMARK).await.unwrap(), [Recorded::Repeat]);
}

#[tokio::test]
async fn a_backup_is_replaced_by_the_next_one_and_nothing_else_is() {
    let folder = folder();
    let path = folder.path().join("duetime.db");
    let to = folder.path().join("monday.db");
    let store = open(&path).unwrap();
    for week in 1..=3 {
        record(&store, &[job(week)]).await;
        store.backup(&to).await.unwrap();
        // A copy of the copy is checked: opening the copy itself would make it a store.
        let copy = folder.path().join(format!("copy-{week}.db"));
        fs::copy(&to, &copy).unwrap();
        assert_eq!(found(&open(&copy).unwrap(), all(Selector::All)).await, (1..=week).collect::<Vec<_>>());
    }
    let refuses = async |to: &Path, says: &str| {
        let before = fs::read(to).ok();
        let error = store.backup(to).await.unwrap_err();
        assert!(error.code() == "store_unusable" && error.to_string().contains(says), "{error}");
        assert_eq!(fs::read(to).ok(), before, "{} is left alone", to.display());
    };
    let at = |name: &str| folder.path().join(name);
    refuses(&path, "is in use as a store").await;
    refuses(&at("copy-1.db"), "is in use as a store").await;
    for (name, bytes) in [("empty", Vec::new()), ("notes.txt", b"notes".to_vec()), ("zeros", vec![0; 200])] {
        fs::write(at(name), bytes).unwrap();
        refuses(&at(name), "is not a backup of Duetime").await;
    }
    rusqlite::Connection::open(at("theirs.db")).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    refuses(&at("theirs.db"), "is not a backup of Duetime").await;
    std::os::unix::fs::symlink(&to, at("link.db")).unwrap();
    refuses(&at("link.db"), "is not a file").await;
    let parts = fs::read_dir(folder.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".part"));
    assert_eq!(parts.count(), 0, "drafts are removed");
}

#[tokio::test]
async fn a_file_is_copied_past_its_holder() {
    let folder = folder();
    let path = folder.path().join("duetime.db");
    let store = open(&path).unwrap();
    record(&store, &[job(1)]).await;
    sqlite::backup(&path, &folder.path().join("copy.db")).unwrap();
    assert_eq!(open(&path).unwrap_err().code(), "store_held", "the holder still holds it");
    record(&store, &[job(2)]).await;
    assert_eq!(found(&open(&folder.path().join("copy.db")).unwrap(), all(Selector::All)).await, [1]);

    fs::write(folder.path().join("empty"), b"").unwrap();
    for (from, code) in [("empty", "store_unusable"), ("missing", "store_unavailable")] {
        let error = sqlite::backup(&folder.path().join(from), &folder.path().join("other.db")).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(!folder.path().join("other.db").exists());
        assert!(!folder.path().join("missing").exists());
    }
}

#[tokio::test]
async fn a_read_only_folder_is_refused_and_loses_nothing() {
    let disk = SmallDisk::mount("8m");
    let path = disk.0.path().join("duetime.db");
    filled(&path, 1).await;
    let remount = |mode: &str| {
        let options = format!("remount,{mode}");
        let remounted = Command::new("mount").args(["-o", &options]).arg(disk.0.path()).status();
        assert!(remounted.expect("mount runs").success());
    };
    remount("ro");
    let error = open(&path).unwrap_err();
    assert!(matches!(error.code(), "store_unusable" | "store_unavailable"), "{error}");
    remount("rw");
    let store = open(&path).unwrap();
    assert_eq!(found(&store, all(Selector::All)).await, [1]);
}

#[tokio::test]
async fn a_push_whose_caller_left_is_recorded_or_not_but_whole() {
    let folder = folder();
    let store = Arc::new(open(&folder.path().join("duetime.db")).unwrap());
    for n in 0..50 {
        let store = store.clone();
        let push = tokio::spawn(async move { store.record(vec![job(2 * n + 1), job(2 * n + 2)], WATERMARK).await });
        tokio::task::yield_now().await;
        push.abort();
    }
    record(&*store, &[job(1_000)]).await;
    let rows = found(&*store, all(Selector::All)).await;
    assert!(rows.iter().filter(|&&n| n < 1_000).all(|n| rows.contains(&(n - 1 + n % 2 * 2))), "{rows:?}");
    assert_eq!(store.tallies(Queues::first()).await.unwrap()[0].1.pending, rows.len() as u64);
}

/// The lease is answered as soon as it is noted, and its row is written later.
#[tokio::test]
async fn a_process_that_is_killed_at_once_forgets_no_lease() {
    let [folder, killed] = [folder(), folder()];
    let path = folder.path().join("duetime.db");
    let store = open(&path).unwrap();
    record(&store, &[job(1), job(2), job(3)]).await;
    store.lease(vec![LeaseRecord::of(&leased(&job(1))), LeaseRecord::of(&leased(&job(2)))]).await.unwrap();
    // Of one that has ended since, the next process knows the end.
    apply(&store, &[ended(&leased(&job(2)), Stage::Succeeded)]).await;
    let copy = leave_as_killed(&path, killed.path());
    let next = open(&copy).unwrap();
    assert_eq!(next.leased().await.unwrap(), [leased(&job(1))]);
    assert_eq!(next.tallies(Queues::first()).await.unwrap()[0].1.succeeded, 1);
    next.close().await.unwrap();
    assert_eq!(fs::metadata(beside(&copy, "-leases")).unwrap().len(), 0);
}
