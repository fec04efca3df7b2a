//! Finished rows past their retention.

use super::Subject;
use super::fixture::*;
use crate::json::{Span, Timestamp};
use crate::model::job::{Job, Stage};
use crate::model::marks::Marks;
use crate::ports::{Change, Edit, Edited, Queues, Retention, Selector};

const RETENTION: Retention = Retention { succeeded: Span(100), failed: Span(1_000) };

/// Failed ones stay longer; waiting ones stay.
pub async fn only_what_is_past_its_retention(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1)]).await;
    record_ended(ledger, &[job(2)], Stage::Succeeded).await;
    record_ended(ledger, &[job(3)], Stage::Failed).await;
    record_ended(ledger, &[job(4)], Stage::Cancelled).await;
    let ended_at = NOW + 2;
    assert_eq!(ledger.prune(RETENTION, ended_at + 99, 10).await.unwrap(), 0);
    assert_eq!(ledger.prune(RETENTION, ended_at + 100, 10).await.unwrap(), 2);
    assert_eq!(found(ledger, all(Selector::All)).await, [1, 3]);
    assert_eq!(ledger.prune(RETENTION, ended_at + 1_000, 10).await.unwrap(), 1);
    assert_eq!(ledger.prune(RETENTION, u64::from(u32::MAX), 10).await.unwrap(), 0, "before anything ended");
    assert_eq!(found(ledger, all(Selector::All)).await, [1]);
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap()[0].1.failed, 0);
}

/// Over all states together.
pub async fn at_most_the_limit(subject: Subject) {
    let ledger = &*subject.ledger;
    for (ns, stage) in [(1..=3, Stage::Succeeded), (4..=6, Stage::Failed), (7..=9, Stage::Cancelled)] {
        record_ended(ledger, &ns.map(job).collect::<Vec<Job>>(), stage).await;
    }
    let mut counts = Vec::new();
    for _ in 0..4 {
        counts.push(ledger.prune(RETENTION, NOW + 5_000, 4).await.unwrap());
    }
    assert_eq!(counts, [4, 4, 1, 0]);
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap(), []);
}

/// Pruned jobs are no longer found by them.
pub async fn tags_go_too(subject: Subject) {
    let ledger = &*subject.ledger;
    record_ended(ledger, &[tagged(1, &["t", "u"])], Stage::Succeeded).await;
    record(ledger, &[tagged(2, &["t"])]).await;
    assert_eq!(ledger.prune(RETENTION, NOW + 5_000, 10).await.unwrap(), 1);
    assert_eq!(found(ledger, all(Selector::Tag(text("t")))).await, [2]);
    assert_eq!(found(ledger, all(Selector::Tag(text("u")))).await, [0; 0]);
}

/// The time of a job's end counts, not that of its push.
pub async fn late_finishers_among_early_ids(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), job(2)]).await;
    let late = Job { finished_at: Some(Timestamp(NOW + 9_000)), ..ended(&job(1), Stage::Succeeded) };
    apply(ledger, &[late, ended(&job(2), Stage::Succeeded)]).await;
    assert_eq!(ledger.prune(RETENTION, NOW + 9_050, 10).await.unwrap(), 1);
    assert_eq!(found(ledger, all(Selector::All)).await, [1]);
}

/// A parked job has no end time: it stays until it is removed or retried. Its attempts may go on.
pub async fn what_is_parked_stays(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), job(2)]).await;
    let parked = |n| Job { finished_at: None, attempt: 3, crashes: 2, ..ended(&job(n), Stage::Failed) };
    apply(ledger, &[parked(1), parked(2)]).await;
    assert_eq!(ledger.prune(RETENTION, NOW + 9_000_000, 10).await.unwrap(), 0);
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap()[0].1.failed, 2);
    let marks = Marks::from_iter([("parks", 1)]).shared();
    let change = Change::Retry { after: Span(0), keeps_attempts: true, marks: marks.clone() };
    let retry = Edit { id: id(1), version: None, change };
    let retried = ledger.edit(vec![retry], NOW + 5, NOW).await.unwrap().remove(0);
    let Edited::Changed(retried) = retried else { panic!("{retried:?}") };
    assert_eq!((retried.attempt, retried.crashes, &retried.options().marks), (3, 2, &marks));
    assert_eq!(
        (retried.stage, retried.due_at, &*retried.payload),
        (Stage::Pending, Timestamp(NOW + 5), &*job(1).payload)
    );
    assert_eq!(row(ledger, id(1)).await, Some(retried));
    let removed = Edit { id: id(2), version: None, change: Change::Delete };
    assert!(matches!(ledger.edit(vec![removed], NOW + 5, NOW).await.unwrap()[..], [Edited::Changed(_)]));
    assert_eq!(found(ledger, all(Selector::All)).await, [1]);
}
