//! Damage that SQLite does not notice: a job that is counted and not found must be told.

use super::{folder, open};
use duetime_core::ports::{Find, Ledger, Selector, Trouble};
use duetime_core::testing::ledger_suite::fixture::*;
use duetime_core::testing::random::Random;
use duetime_core::{Job, Stage};
use duetime_store::sqlite;
use std::fs;
use std::path::Path;
use std::time::Duration;

const JOBS: u64 = 2_000;
/// Damages that are tried, and more until one hides a job: which do depends on where the pages are.
const SEEDS: u64 = 60;
const SEEDS_MAX: u64 = 600;

/// A closed store with jobs that wait, that have ended, that have keys and tags.
async fn filled(path: &Path) {
    let store = open(path).unwrap();
    let with_key =
        |n: u64, job: Job| if n.is_multiple_of(3) { Job { key: Some(text(&format!("key-{n}"))), ..job } } else { job };
    let jobs: Vec<Job> = (1..=JOBS).map(|n| with_key(n, tagged(n, &["t"]))).collect();
    record(&store, &jobs).await;
    let ends: Vec<_> = jobs.iter().skip(4).step_by(5).map(|job| ended(job, Stage::Succeeded)).collect();
    apply(&store, &ends).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn jobs_that_a_damaged_file_hides_are_told() {
    let folder = folder();
    let [whole, path] = ["whole.db", "duetime.db"].map(|name| folder.path().join(name));
    filled(&whole).await;
    assert_eq!(sqlite::verify(&whole).unwrap(), JOBS);
    let whole = fs::read(&whole).unwrap();
    let (mut hidden, mut told) = (0, 0);
    for seed in 0..SEEDS_MAX {
        if seed >= SEEDS && hidden > 0 {
            break;
        }
        let mut random = Random::new(seed);
        let mut bytes = whole.clone();
        let at = usize::try_from(random.within(1..bytes.len() as u64 / 4_096) * 4_096).unwrap();
        // Where a page has its type, its number of cells and the list of them; and anywhere.
        let at = if random.percent(50) { at } else { at + usize::try_from(random.within(0..4_000)).unwrap() };
        for byte in &mut bytes[at..at + if seed % 2 == 0 { 64 } else { 5 }] {
            *byte ^= u8::try_from(random.within(0..256)).unwrap();
        }
        fs::write(&path, &bytes).unwrap();
        let is_told = sqlite::verify(&path).is_err();
        told += u32::from(is_told);
        if let Ok(store) = open(&path) {
            let listed = async |listed: &Find| {
                let (mut count, mut after) = (0, None);
                loop {
                    let find = Find { after, ..listed.clone() };
                    let Ok(found) = store.find(find).await else { return None };
                    count += found.jobs.len() as u64;
                    after = found.next;
                    if after.is_none() {
                        return Some(count);
                    }
                }
            };
            let of_queue = Find { queue: Some(text("default")), ..all(Selector::State) };
            for find in [all(Selector::All), of_queue] {
                if listed(&find).await.is_some_and(|count| count != JOBS) {
                    hidden += 1;
                    assert!(is_told, "seed {seed}: {find:?} hides jobs and nothing is said");
                }
            }
            drop(store);
        }
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(super::beside(&path, suffix));
        }
    }
    assert!(hidden > 0, "no seed hides a job: {told} are told");
}

/// The store compares them itself once it is open.
#[tokio::test]
async fn an_open_store_tells_of_jobs_that_are_missing() {
    let folder = folder();
    let path = folder.path().join("duetime.db");
    filled(&path).await;
    assert!(open(&path).unwrap().troubles().is_empty());
    let theirs = rusqlite::Connection::open(&path).unwrap();
    theirs
        .execute_batch("DELETE FROM duetime_jobs WHERE id IN (SELECT id FROM duetime_jobs ORDER BY id LIMIT 7)")
        .unwrap();
    drop(theirs);
    let error = sqlite::verify(&path).unwrap_err();
    assert_eq!(error.code(), "store_damaged");
    assert!(
        error.to_string().contains("1594 waiting or running jobs are found by due time, but 1600 are counted"),
        "{error}"
    );
    let store = open(&path).unwrap();
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    let troubles = loop {
        let troubles = store.troubles();
        if !troubles.is_empty() {
            break troubles;
        }
        looks.tick().await;
    };
    assert!(matches!(&troubles[..], [(Trouble::Damaged, why)] if why.contains("are counted")), "{troubles:?}");
}
