//! Rows that wait for room in the broker, by their urgency.

use super::Subject;
use super::fixture::*;
use crate::limits::DAY_MS;
use crate::model::job::{Job, Stage};
use crate::ports::{Change, Edit, Ledger, OVERFLOW, OutboxEntry, OverflowDue, Update, Window};
use std::sync::Arc;

/// A job of a queue with this priority and due time.
fn waiting(n: u64, queue: &str, priority: u32, due_at: u64) -> Job {
    job_with(n, |job| {
        (job.queue, job.priority, job.due_at.0, job.first_due_at.0) = (text(queue), priority, due_at, due_at);
    })
}

async fn file(ledger: &dyn Ledger, jobs: &[Job]) {
    ledger.record(jobs.to_vec(), OVERFLOW).await.unwrap();
}

async fn overflow(ledger: &dyn Ledger, queue: &str, until: u64, limit: usize) -> Vec<u64> {
    let jobs = ledger.overflow(queue, Window { from: 0, to: until }, limit).await.unwrap();
    jobs.iter().map(|job| number(job.id)).collect()
}

/// By priority, then due time, then id; only jobs due in the window.
pub async fn the_most_urgent_come_first(subject: Subject) {
    let ledger = &*subject.ledger;
    let jobs = [
        waiting(1, "a", 1_024, NOW),
        waiting(2, "a", 0, NOW + 10),
        waiting(3, "a", 1_024, NOW - 5),
        waiting(4, "a", u32::MAX, NOW - 9),
        waiting(5, "a", 0, NOW + 10_000),
        waiting(6, "a", 1_024, NOW),
        waiting(7, "b", 0, NOW),
        waiting(8, "a", 7, NOW + 10_000),
    ];
    file(ledger, &jobs).await;
    for limit in [6, 5, 4, 3, 2, 1] {
        let all = [2, 3, 1, 6, 4];
        assert_eq!(overflow(ledger, "a", NOW + 10, limit).await, all[..limit.min(5)], "at most {limit}");
    }
    assert_eq!(overflow(ledger, "a", u64::MAX, 10).await, [2, 5, 8, 3, 1, 6, 4]);
    let window = Window { from: NOW, to: NOW + 10 };
    let jobs = ledger.overflow("a", window, 10).await.unwrap();
    assert_eq!(jobs.iter().map(|job| number(job.id)).collect::<Vec<_>>(), [2, 1, 6]);
    assert!(overflow(ledger, "c", u64::MAX, 10).await.is_empty());
}

/// Whole rows.
pub async fn rows_are_read_as_they_are(subject: Subject) {
    let jobs = [tagged(1, &["b", "a"]), keyed(2, "k")];
    file(&*subject.ledger, &jobs).await;
    assert_eq!(subject.ledger.overflow(&jobs[0].queue, Window::ALL, 10).await.unwrap(), jobs);
}

/// No more payload than a page may have.
pub async fn large_payloads_make_short_pages(subject: Subject) {
    let ledger = &*subject.ledger;
    for n in 1..=24 {
        file(ledger, &[job_with(n, |job| job.payload = vec![n as u8; 1 << 20].into())]).await;
    }
    let first = ledger.overflow(&job(1).queue, Window::ALL, 1_000).await.unwrap();
    assert!((8..24).contains(&first.len()), "{}", first.len());
}

/// By name, and each once.
pub async fn queues_with_an_overflow_are_named(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[waiting(1, "near", 0, NOW)]).await;
    file(ledger, &[waiting(2, "b", 0, NOW), waiting(3, "a", 0, NOW + DAY_MS), waiting(4, "b", 9, NOW)]).await;
    file(ledger, &[waiting(5, "a+", 0, NOW), waiting(6, "Z", 3, NOW)]).await;
    let (mut names, mut after): (Vec<Arc<str>>, Option<Arc<str>>) = (Vec::new(), None);
    while let Some(name) = ledger.overflowing(after.as_deref()).await.unwrap() {
        names.push(name.clone());
        after = Some(name);
    }
    assert_eq!(names, ["Z", "a", "a+", "b"].map(text));
}

/// Jobs that are loaded by due time never include them.
pub async fn they_are_not_among_what_is_loaded_by_time(subject: Subject) {
    let ledger = &*subject.ledger;
    file(ledger, &[job(1), waiting(2, "a", 0, WATERMARK + DAY_MS)]).await;
    record(ledger, &[job(3)]).await;
    for limit in [1, 10] {
        assert_eq!(pending(ledger, u64::MAX, limit).await, [3]);
    }
}

/// Loaded jobs move to the near bucket, if they still have the version that was read.
pub async fn what_is_loaded_leaves(subject: Subject) {
    let ledger = &*subject.ledger;
    file(ledger, &[job(1), job(2), job(3)]).await;
    ledger.loaded(&[(id(1), job(1).version), (id(2), job(2).version - 1), (id(9), 1)], "").await.unwrap();
    assert_eq!(overflow(ledger, &job(1).queue, u64::MAX, 10).await, [2, 3]);
    assert_eq!(pending(ledger, u64::MAX, 10).await, [1]);
    assert_eq!(row(ledger, id(1)).await, Some(job(1)), "nothing else of it changes");
}

/// From any bucket, but not if they have ended.
pub async fn what_finds_no_room_joins(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), waiting(2, &job(1).queue, 0, WATERMARK + DAY_MS), job(3)]).await;
    apply(ledger, &[ended(&job(3), Stage::Succeeded)]).await;
    ledger.not_loaded(&[id(1), id(2), id(3), id(9)], OVERFLOW).await.unwrap();
    ledger.not_loaded(&[], OVERFLOW).await.unwrap();
    assert_eq!(overflow(ledger, &job(1).queue, u64::MAX, 10).await, [2, 1]);
    assert!(pending(ledger, u64::MAX, 10).await.is_empty());
}

/// Neither ended nor leased jobs; a job that waits again, or is changed, gets a new bucket.
pub async fn only_what_waits_is_there(subject: Subject) {
    let ledger = &*subject.ledger;
    let queue = job(1).queue;
    file(ledger, &(1..=5).map(job).collect::<Vec<_>>()).await;
    apply(ledger, &[ended(&job(1), Stage::Cancelled), leased(&job(2))]).await;
    ledger.apply(vec![OutboxEntry::Changed(again(&job(3), NOW))], WATERMARK).await.unwrap();
    let change = Change::Update(Update { due_at: Some(NOW + 1), ..Update::default() });
    ledger.edit(vec![Edit { id: id(4), version: None, change }], NOW, WATERMARK).await.unwrap();
    assert_eq!(overflow(ledger, &queue, u64::MAX, 10).await, [5]);
    assert_eq!(pending(ledger, u64::MAX, 10).await, [3, 4]);
    ledger.not_loaded(&[id(4)], OVERFLOW).await.unwrap();
    assert_eq!(overflow(ledger, &queue, u64::MAX, 10).await, [5, 4], "by its new due time");
}

/// By queue.
pub async fn what_is_due_is_counted(subject: Subject) {
    let ledger = &*subject.ledger;
    let jobs =
        [waiting(1, "a", 5, NOW), waiting(2, "a", 0, NOW + 1), waiting(3, "a", 9, NOW - 7), waiting(4, "b", 5, 1)];
    file(ledger, &jobs).await;
    record(ledger, &[waiting(5, "a", 0, NOW - 9)]).await;
    let due = |jobs, oldest_due| OverflowDue { jobs, oldest_due };
    assert_eq!(ledger.overflow_due("a", NOW).await.unwrap(), due(2, Some(NOW - 7)));
    assert_eq!(ledger.overflow_due("a", NOW + 1).await.unwrap(), due(3, Some(NOW - 7)));
    assert_eq!(ledger.overflow_due("c", NOW).await.unwrap(), due(0, None));
}

/// With more rows than one statement takes.
pub async fn rows_are_marked_in_bulk(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &(1..=1_500).map(job).collect::<Vec<_>>()).await;
    let ids: Vec<_> = (1..=1_500).rev().map(id).collect();
    ledger.not_loaded(&ids, OVERFLOW).await.unwrap();
    let all = overflow(ledger, &job(1).queue, u64::MAX, 2_000).await;
    assert_eq!(all, (1..=1_500).collect::<Vec<_>>());
    let all: Vec<_> = ids.iter().map(|id| (*id, job(1).version)).collect();
    ledger.loaded(&all, "").await.unwrap();
    assert_eq!(ledger.overflowing(None).await.unwrap(), None);
}
