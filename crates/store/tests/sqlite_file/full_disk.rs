//! A disk that is full for a while.

use super::{folder, leave_as_killed, open};
use duetime_core::clock::SystemClock;
use duetime_core::json::Timestamp;
use duetime_core::ports::{LeaseRecord, Leases, Ledger, Queues, Selector, Trouble};
use duetime_core::testing::fixtures::T0;
use duetime_core::testing::ledger_suite::fixture::*;
use duetime_core::{Clock as _, Job, Stage};
use duetime_store::sqlite;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// A separate small file system, which fills up quickly.
pub(crate) struct SmallDisk(pub(crate) tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn mount(size: &str) -> Self {
        let folder = folder();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .status()
            .expect("mount runs");
        assert!(mounted.success(), "this test mounts a small file system and so needs root");
        Self(folder)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_pushes_and_loses_nothing() {
    let disk = SmallDisk::mount("3m");
    let path = disk.0.path().join("duetime.db");
    let ballast = disk.0.path().join("ballast");
    let store = Arc::new(open(&path).unwrap());
    fs::write(&ballast, vec![0; 500_000]).unwrap();
    let large = |n| job_with(n, |job| job.payload = vec![7; 50_000].into());
    let mut kept = Vec::new();
    let error = loop {
        let n = kept.len() as u64 + 1;
        match store.record(vec![large(n)], WATERMARK).await {
            Ok(_) => kept.push(n),
            Err(error) => break error,
        }
        assert!(kept.len() < 100, "3 MB hold no 5 MB");
    };
    assert_eq!(error.code(), "store_full");
    assert!(error.is_retryable() && error.to_string().contains("the disk of"), "{error}");
    assert!(!kept.is_empty());
    let troubles = store.troubles();
    assert!(matches!(&troubles[..], [(Trouble::Full, why)] if why.contains("the disk of")), "{troubles:?}");

    // In a batch with others, each caller gets its own answer.
    let many: Vec<_> = (1_000..1_020)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.record(vec![large(n)], WATERMARK).await })
        })
        .collect();
    for push in many {
        match push.await.unwrap() {
            Err(error) => assert_eq!(error.code(), "store_full"),
            Ok(_) => panic!("there is no room for another"),
        }
    }
    assert_eq!(found(&*store, all(Selector::All)).await, kept, "reads go on, and nothing is half there");
    assert_eq!(store.tallies(Queues::first()).await.unwrap()[0].1.pending, kept.len() as u64);

    // A lease begins meanwhile.
    let row = store.get(&[id(1)]).await.unwrap().remove(0).unwrap();
    let (version, lease_until) = (row.version + 1, Some(T0 + 60_000));
    let held = Job {
        version,
        epoch: 1,
        attempt: 1,
        lease_until: lease_until.map(Timestamp),
        started_at: Some(Timestamp(T0)),
        ..row
    };
    store.lease(vec![LeaseRecord::of(&held)]).await.unwrap();
    let killed = folder();
    let copy = leave_as_killed(&path, killed.path());
    let restored = open(&copy).unwrap().leased().await.unwrap();
    assert_eq!(restored, std::slice::from_ref(&held), "a killed process forgets no lease");
    let clock = SystemClock::new();
    while clock.mono() < 100 {
        assert_eq!(store.record(vec![large(3_000)], WATERMARK).await.unwrap_err().code(), "store_full");
    }

    // Once there is room, it continues by itself.
    fs::remove_file(&ballast).unwrap();
    record(&*store, &[large(2_000)]).await;
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    while store.leased().await.unwrap().is_empty() {
        looks.tick().await;
    }
    drop(store);
    kept.push(2_000);
    let store = open(&path).unwrap();
    assert_eq!(found(&store, all(Selector::All)).await, kept);
}

/// Leases are written beside the store, so nothing else is refused here.
#[tokio::test]
async fn leases_that_the_disk_has_no_room_for_are_told() {
    let disk = SmallDisk::mount("3m");
    let store = open(&disk.0.path().join("duetime.db")).unwrap();
    let free = usize::try_from(sqlite::free_bytes(disk.0.path()).unwrap()).unwrap();
    fs::write(disk.0.path().join("ballast"), vec![0; free]).unwrap();
    assert_eq!(store.troubles(), []);
    let lease = |n| {
        LeaseRecord::of(&job_with(n, |job| {
            (job.lease_until, job.started_at) = (Some(Timestamp(T0 + 60_000)), Some(Timestamp(T0)));
        }))
    };
    let leases = |jobs: u64| (1..=jobs).map(lease).collect();
    let error = store.lease(leases(10_000)).await.unwrap_err();
    assert_eq!(error.code(), "store_full");
    let troubles = store.troubles();
    assert!(matches!(&troubles[..], [(Trouble::Full, _)]), "{troubles:?}");
}

/// The copy of the log would take the rest of the disk, and nothing could be written any more.
#[tokio::test]
async fn a_start_with_less_room_than_the_log_needs_leaves_the_rest_of_the_disk_to_changes() {
    let disk = SmallDisk::mount("8m");
    let path = disk.0.path().join("duetime.db");
    let store = open(&path).unwrap();
    let jobs: Vec<Job> = (1..=30).map(|n| job_with(n, |job| job.payload = vec![7; 100_000].into())).collect();
    record(&store, &jobs).await;
    drop(store);
    let free = || sqlite::free_bytes(disk.0.path()).unwrap();
    let ballast = usize::try_from(free() - 1_000_000).unwrap();
    fs::write(disk.0.path().join("ballast"), vec![0; ballast]).unwrap();
    let before = free();
    let store = open(&path).unwrap();
    assert!(free() + 100_000 >= before, "{} of {before} are left", free());
    apply(&store, &[ended(&jobs[0], Stage::Succeeded)]).await;
    // Its record may give way at once.
    assert_eq!(store.tallies(Queues::first()).await.unwrap()[0].1.totals.succeeded, 1);
    store.close().await.unwrap();
    assert_eq!(open(&path).unwrap().tallies(Queues::first()).await.unwrap()[0].1.pending, 29);
}

/// A queue whose jobs end: the records of the first ones make room for the next jobs.
#[tokio::test]
async fn finished_records_give_way_before_a_push_is_refused() {
    let disk = SmallDisk::mount("12m");
    let path = disk.0.path().join("duetime.db");
    let store = open(&path).unwrap();
    let large = |n| job_with(n, |job| job.payload = vec![7; 50_000].into());
    // Five times as much as the disk has. One job in a hundred waits.
    for n in 1..=1_200 {
        let job = large(n);
        record(&store, std::slice::from_ref(&job)).await;
        if n % 100 != 0 {
            apply(&store, &[Job { finished_at: Some(Timestamp(NOW + n)), ..ended(&job, Stage::Succeeded) }]).await;
        }
    }
    let troubles = store.troubles();
    assert!(
        matches!(&troubles[..], [(Trouble::DropsRecords, why)] if why.contains("the oldest first")),
        "{troubles:?}"
    );
    let rows = found(&store, all(Selector::All)).await;
    let waiting: Vec<u64> = (1..=1_200).filter(|n| n % 100 == 0).collect();
    assert!(waiting.iter().all(|n| rows.contains(n)), "a job that waits was dropped");
    let kept: Vec<u64> = rows.into_iter().filter(|n| n % 100 != 0).collect();
    let newest: Vec<u64> = (1..=1_200).filter(|n| n % 100 != 0).collect();
    assert!(newest.ends_with(&kept) && kept.len() > 20, "the newest {} are kept", kept.len());
    store.close().await.unwrap();
    sqlite::verify(&path).unwrap();
}
