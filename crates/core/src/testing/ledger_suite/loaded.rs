//! The bucket of pending rows: loaded once the broker holds them, else by due time.

use super::SharedSubject;
use super::fixture::*;
use crate::json::Timestamp;
use crate::limits::DAY_MS;
use crate::model::job::Stage;
use crate::ports::{ADOPTED, BROKER, BUCKET_MS, Cursor, Ledger, Page, PutIf};

/// The memory of the broker.
const INCARNATION: &str = "incarnation";

async fn adopt(subject: &SharedSubject, incarnation: &str, version: u64) {
    let put = subject.registry.put_if(BROKER, ADOPTED, incarnation, version).await.unwrap();
    assert_eq!(put, PutIf::Stored(version + 1));
}

/// The numbers of rows still to be loaded: pages after the loaded rows.
async fn not_loaded(ledger: &dyn Ledger) -> Vec<u64> {
    let end_of_near = Cursor { bucket: 0, id: u64::MAX };
    let Page { jobs, .. } = ledger.pending(u64::MAX, Some(end_of_near), 100).await.unwrap();
    jobs.iter().map(|job| number(job.id)).collect()
}

/// They leave the pages of rows to be loaded, and come in those of loaded rows.
pub async fn loaded_rows_are_near(subject: SharedSubject) {
    let ledger = &*subject.ledger;
    let far = job_with(2, |job| job.due_at = Timestamp(WATERMARK + DAY_MS));
    ledger.record(vec![job(1), far.clone(), job(3)], 0).await.unwrap();
    adopt(&subject, INCARNATION, 0).await;
    assert_eq!(not_loaded(ledger).await, [1, 3, 2]);
    ledger.loaded(&[(far.id, far.version), (id(1), job(1).version), (id(9), 1)], INCARNATION).await.unwrap();
    assert_eq!(not_loaded(ledger).await, [3]);
    assert_eq!(pending(ledger, BUCKET_MS, 10).await, [1, 2]);
    assert_eq!(row(ledger, id(1)).await, Some(job(1)), "nothing else of it changes");
}

/// Neither a row of another version, nor one that an earlier memory holds, is marked.
pub async fn what_is_loaded_must_be_as_it_is_now(subject: SharedSubject) {
    let ledger = &*subject.ledger;
    ledger.record(vec![job(1), job(2)], 0).await.unwrap();
    ledger.loaded(&[(id(1), job(1).version)], INCARNATION).await.unwrap();
    assert_eq!(not_loaded(ledger).await, [1, 2], "no memory was adopted");
    adopt(&subject, INCARNATION, 0).await;
    ledger.loaded(&[(id(1), job(1).version - 1), (id(2), job(2).version + 1)], INCARNATION).await.unwrap();
    assert_eq!(not_loaded(ledger).await, [1, 2], "other versions");
    adopt(&subject, "another", 1).await;
    ledger.loaded(&[(id(1), job(1).version)], INCARNATION).await.unwrap();
    assert_eq!(not_loaded(ledger).await, [1, 2], "another memory was adopted");
    ledger.loaded(&[(id(1), job(1).version)], "another").await.unwrap();
    assert_eq!(not_loaded(ledger).await, [2]);
}

/// By due time, and never as loaded, even if it is due early.
pub async fn rows_that_are_not_loaded_wait_to_be(subject: SharedSubject) {
    let ledger = &*subject.ledger;
    let early = job_with(2, |job| job.due_at = Timestamp(0));
    record(ledger, &[job(1), early, job(3)]).await;
    assert!(not_loaded(ledger).await.is_empty());
    ledger.not_loaded(&[id(1), id(2), id(9)], 0).await.unwrap();
    assert_eq!(not_loaded(ledger).await, [2, 1]);
    assert_eq!(pending(ledger, BUCKET_MS, 10).await, [3]);
    assert_eq!(pending(ledger, NOW, 10).await, [3, 2]);
    assert_eq!(pending(ledger, NOW + 1, 10).await, [3, 2, 1]);
}

/// They have no bucket.
pub async fn finished_rows_stay_as_they_are(subject: SharedSubject) {
    let ledger = &*subject.ledger;
    let done = record_ended(ledger, &[job(1)], Stage::Succeeded).await.remove(0);
    adopt(&subject, INCARNATION, 0).await;
    ledger.loaded(&[(done.id, done.version)], INCARNATION).await.unwrap();
    ledger.not_loaded(&[done.id], 0).await.unwrap();
    assert!(pending(ledger, u64::MAX, 10).await.is_empty());
    assert_eq!(row(ledger, done.id).await, Some(done));
}

/// With more rows than one statement takes.
pub async fn rows_are_marked_in_bulk(subject: SharedSubject) {
    let ledger = &*subject.ledger;
    ledger.record((1..=1_500).map(job).collect(), 0).await.unwrap();
    adopt(&subject, INCARNATION, 0).await;
    let all: Vec<_> = (1..=1_500).rev().map(|n| (id(n), job(n).version)).collect();
    ledger.loaded(&all, INCARNATION).await.unwrap();
    assert_eq!(pending(ledger, BUCKET_MS, 1_000).await.len(), 1_500);
    ledger.not_loaded(&all.iter().map(|(id, _)| *id).collect::<Vec<_>>(), 0).await.unwrap();
    assert!(pending(ledger, BUCKET_MS, 1_000).await.is_empty());
    ledger.loaded(&[], INCARNATION).await.unwrap();
    ledger.not_loaded(&[], 0).await.unwrap();
    assert_eq!(not_loaded(ledger).await.len(), 100);
}
