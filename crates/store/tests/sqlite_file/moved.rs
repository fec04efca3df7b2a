//! Files that are moved, removed or replaced under an open store, and files with two names.

use super::{beside, folder, open};
use duetime_core::ports::{Ledger, Trouble};
use duetime_core::testing::ledger_suite::fixture::*;
use std::fs;
use std::path::Path;

async fn assert_refuses(store: &impl Ledger, n: u64, harm: &str) {
    let error = store.record(vec![job(n)], WATERMARK).await.expect_err(harm);
    assert_eq!(error.code(), "store_unavailable", "{harm}: {error}");
    assert!(error.to_string().contains("put that file back"), "{harm}: {error}");
    let troubles = store.troubles();
    assert_eq!(troubles.len(), 1, "{harm}: {troubles:?}");
    assert_eq!(troubles[0].0, Trouble::Moved, "{harm}: {troubles:?}");
    assert!(troubles[0].1.contains("restore the store"), "{troubles:?}");
}

#[tokio::test]
async fn nothing_is_acknowledged_into_a_file_that_is_no_longer_there() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 8] = [
        ("the file is removed", |path| fs::remove_file(path).unwrap()),
        ("the file is moved", |path| fs::rename(path, path.with_extension("old")).unwrap()),
        ("the log is removed", |path| fs::remove_file(beside(path, "-wal")).unwrap()),
        ("the log is replaced", |path| {
            fs::copy(beside(path, "-wal"), beside(path, "-copy")).unwrap();
            fs::rename(beside(path, "-copy"), beside(path, "-wal")).unwrap();
        }),
        ("the index of the log is removed", |path| fs::remove_file(beside(path, "-shm")).unwrap()),
        ("the journal of leases is removed", |path| fs::remove_file(beside(path, "-leases")).unwrap()),
        ("the folder is moved", |path| {
            let folder = path.parent().unwrap();
            fs::rename(folder, folder.with_extension("old")).unwrap();
        }),
        ("the folder is removed", |path| fs::remove_dir_all(path.parent().unwrap()).unwrap()),
    ];
    for (harm, harms) in harms {
        let folder = folder();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("duetime.db");
        let store = open(&path).unwrap();
        record(&store, &[job(1)]).await;
        assert!(store.troubles().is_empty(), "{harm}");
        harms(&path);
        for n in 2..4 {
            assert_refuses(&store, n, harm).await;
        }
    }
}

#[tokio::test]
async fn a_file_that_is_put_back_is_used_again() {
    let folder = folder();
    let [path, away] = ["duetime.db", "away.db"].map(|name| folder.path().join(name));
    let store = open(&path).unwrap();
    record(&store, &[job(1)]).await;
    fs::rename(&path, &away).unwrap();
    assert_refuses(&store, 2, "moved").await;
    fs::rename(&away, &path).unwrap();
    record(&store, &[job(3)]).await;
    assert!(store.troubles().is_empty());
    drop(store);
    assert_eq!(found(&open(&path).unwrap(), all(duetime_core::ports::Selector::All)).await, [1, 3]);
}

#[test]
fn a_file_is_held_by_whatever_name() {
    let folder = folder();
    let [path, link, moved] = ["duetime.db", "link.db", "moved.db"].map(|name| folder.path().join(name));
    let store = open(&path).unwrap();
    fs::hard_link(&path, &link).unwrap();
    assert_eq!(open(&link).unwrap_err().code(), "store_held", "by a hard link");
    fs::remove_file(&link).unwrap();
    fs::remove_file(beside(&path, ".lock")).unwrap();
    assert_eq!(open(&path).unwrap_err().code(), "store_held", "without the lock file");
    fs::rename(&path, &moved).unwrap();
    assert_eq!(open(&moved).unwrap_err().code(), "store_held", "moved");
    drop(store);
    open(&moved).unwrap();
}

/// Its log lies beside the name by which it was opened last.
#[test]
fn a_file_with_two_names_is_refused() {
    let folder = folder();
    let [path, link] = ["duetime.db", "link.db"].map(|name| folder.path().join(name));
    drop(open(&path).unwrap());
    fs::hard_link(&path, &link).unwrap();
    let error = open(&link).unwrap_err();
    assert_eq!(error.code(), "store_unusable");
    assert!(error.to_string().contains("remove the other names"), "{error}");
    fs::remove_file(&path).unwrap();
    open(&link).unwrap();
}
