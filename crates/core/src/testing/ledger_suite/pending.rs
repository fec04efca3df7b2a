//! Pending rows, as they are loaded.

use super::Subject;
use super::fixture::*;
use crate::json::Timestamp;
use crate::limits::DAY_MS;
use crate::model::job::{Job, Stage};
use crate::ports::{BUCKET_MS, OutboxEntry};

fn due(n: u64, due_at: u64) -> Job {
    job_with(n, |job| {
        job.due_at = Timestamp(due_at);
        job.first_due_at = Timestamp(due_at);
    })
}

/// And within each by id.
pub async fn near_rows_come_first_then_by_bucket(subject: Subject) {
    let jobs = [
        due(1, WATERMARK + 3 * BUCKET_MS),
        due(2, WATERMARK + BUCKET_MS + 1),
        due(3, WATERMARK - 1),
        due(4, NOW),
        due(5, WATERMARK + 2 * BUCKET_MS - 1),
        due(6, WATERMARK),
    ];
    record(&*subject.ledger, &jobs).await;
    for limit in [1, 2, 4, 100] {
        assert_eq!(pending(&*subject.ledger, u64::MAX, limit).await, [3, 4, 6, 2, 5, 1], "pages of {limit}");
    }
}

/// A row may come with its bucket, but none of a bucket that begins at or after the instant.
pub async fn rows_beyond_are_left_out(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[due(1, NOW), due(2, WATERMARK), due(3, WATERMARK + BUCKET_MS), due(4, WATERMARK + DAY_MS)]).await;
    assert_eq!(pending(ledger, WATERMARK, 10).await, [1]);
    assert_eq!(pending(ledger, WATERMARK + 1, 10).await, [1, 2]);
    assert_eq!(pending(ledger, WATERMARK + BUCKET_MS, 10).await, [1, 2]);
    assert_eq!(pending(ledger, WATERMARK + DAY_MS, 10).await, [1, 2, 3]);
    assert_eq!(pending(ledger, WATERMARK + DAY_MS + 1, 10).await, [1, 2, 3, 4]);
}

/// Of any length, also if rows come and go meanwhile.
pub async fn pages_cover_all_once(subject: Subject) {
    let ledger = &*subject.ledger;
    let jobs: Vec<Job> = (1..=500).map(|n| due(n, WATERMARK - 250 + n)).collect();
    record(ledger, &jobs).await;
    let whole = pending(ledger, u64::MAX, 1_000).await;
    assert_eq!(whole.len(), 500);
    assert_eq!(pending(ledger, u64::MAX, 7).await, whole);
    let first = ledger.pending(u64::MAX, None, 10).await.unwrap();
    apply(ledger, &[ended(&jobs[0], Stage::Succeeded), ended(&jobs[10], Stage::Succeeded)]).await;
    let second = ledger.pending(u64::MAX, first.next, 10).await.unwrap();
    assert_eq!(second.jobs.iter().map(|job| number(job.id)).collect::<Vec<_>>(), (12..=21).collect::<Vec<_>>());
}

/// A page may be short of its limit if payloads are large; the pages together have all.
pub async fn large_payloads_make_short_pages(subject: Subject) {
    let ledger = &*subject.ledger;
    for n in 1..=24 {
        record(ledger, &[job_with(n, |job| job.payload = vec![n as u8; 1 << 20].into())]).await;
    }
    assert_eq!(pending(ledger, WATERMARK, 1_000).await, (1..=24).collect::<Vec<_>>());
}

/// They wait for nothing.
pub async fn leased_and_finished_rows_are_left_out(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), job(2), job(3), job(4)]).await;
    apply(ledger, &[leased(&job(1)), ended(&job(3), Stage::Cancelled)]).await;
    for limit in [1, 10] {
        assert_eq!(pending(ledger, WATERMARK, limit).await, [2, 4]);
    }
    assert_eq!(row(ledger, id(1)).await, Some(leased(&job(1))));
}

/// Whole rows.
pub async fn tags_and_keys_are_read(subject: Subject) {
    let jobs = vec![tagged(1, &["b", "a"]), keyed(2, "k"), job_with(3, |job| job.queue = text("other")), job(4)];
    record(&*subject.ledger, &jobs).await;
    assert_eq!(subject.ledger.pending(WATERMARK, None, 10).await.unwrap().jobs, jobs);
}

/// By its new due time.
pub async fn a_row_that_waits_again_has_a_new_bucket(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), due(2, WATERMARK + DAY_MS)]).await;
    let near = again(&due(2, WATERMARK + DAY_MS), NOW);
    ledger
        .apply(vec![OutboxEntry::Changed(again(&job(1), WATERMARK + DAY_MS)), OutboxEntry::Changed(near)], WATERMARK)
        .await
        .unwrap();
    assert_eq!(pending(ledger, WATERMARK, 10).await, [2]);
    assert_eq!(pending(ledger, u64::MAX, 10).await, [2, 1]);
}
