//! A process that has no file descriptor left.

use super::{beside, folder, open};
use duetime_core::ports::{Ledger, Selector};
use duetime_core::testing::ledger_suite::fixture::*;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// The limit is that of a process: the test runs itself again.
#[test]
fn without_descriptors_the_store_is_written_and_read() {
    const STORE: &str = "DUETIME_TEST_FEW_FILES";
    if let Some(path) = std::env::var_os(STORE) {
        return tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(few(Path::new(&path)));
    }
    let folder = folder();
    let path = folder.path().join("duetime.db");
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite_file::descriptors::without_descriptors_the_store_is_written_and_read", "--nocapture"])
        .env(STORE, &path)
        .status();
    assert!(ended.unwrap().success());
    assert!(!beside(&path, "-wal").exists(), "it was closed");
}

async fn few(path: &Path) {
    let store = Arc::new(open(path).unwrap());
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 3, hard).unwrap();
    assert!(std::fs::File::open("/dev/null").is_err(), "no descriptor is left");
    // The transaction of many rows is synced by a thread of its own.
    record(&*store, &(1..=1_000).map(job).collect::<Vec<_>>()).await;
    record(&*store, &[job(1_001)]).await;
    let readers = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { found(&*store, all(Selector::All)).await.len() })
    });
    for reader in readers.collect::<Vec<_>>() {
        assert_eq!(reader.await.unwrap(), 1_001);
    }
    assert!(store.troubles().is_empty());
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    store.close().await.unwrap();
}
