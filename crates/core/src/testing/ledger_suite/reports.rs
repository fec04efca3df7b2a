//! Readings of many rows.

use super::Subject;
use super::fixture::*;
use crate::json::Timestamp;
use crate::limits::HOUR_MS;
use crate::model::job::{Job, Stage};
use crate::ports::{DueTally, FAILED_MESSAGE_CHARS, FailedJob, Queues, Reports};

/// Counts step by step.
async fn count(reports: &dyn Reports, mut tally: DueTally) -> DueTally {
    let mut after = None;
    loop {
        (tally, after) = reports.due(tally, after).await.expect("counted");
        if after.is_none() {
            return tally;
        }
    }
}

fn due(n: u64, queue: &str, due_at: u64) -> Job {
    job_with(n, |job| (job.queue, job.due_at.0, job.first_due_at.0) = (text(queue), due_at, due_at))
}

/// Each in the bucket that ends with its due time or after it.
pub async fn jobs_are_counted_by_due_time(subject: Subject) {
    let ledger = &*subject.ledger;
    let bounds = vec![NOW, NOW + 10, NOW + HOUR_MS];
    let tally = || DueTally::new(bounds.clone(), [text("a"), text("none")]);
    assert_eq!(count(&*subject.reports, tally()).await.of(None), Some(&[0; 4][..]));
    let times = [NOW - 5, NOW, NOW + 1, NOW + 10, NOW + 11, NOW + HOUR_MS, NOW + HOUR_MS + 1, NOW + 400 * HOUR_MS];
    let jobs: Vec<Job> = (1..).zip(times).map(|(n, at)| due(n, if n % 2 == 0 { "a" } else { "b" }, at)).collect();
    record(ledger, &jobs).await;
    let tally = count(&*subject.reports, tally()).await;
    assert_eq!(tally.of(None), Some(&[2, 2, 2, 2][..]));
    assert_eq!(tally.of(Some("a")), Some(&[1, 1, 1, 1][..]));
    assert_eq!(tally.of(Some("none")), Some(&[0, 0, 0, 0][..]));
    assert_eq!(tally.of(Some("b")), None, "it is not counted separately");
}

/// Running jobs count as due; ended ones do not count.
pub async fn due_counts_add_up_to_what_has_not_ended(subject: Subject) {
    let ledger = &*subject.ledger;
    let mut jobs = record_ended(ledger, &[due(1, "a", NOW), due(2, "a", NOW)], Stage::Failed).await;
    record_ended(ledger, &[due(3, "a", NOW)], Stage::Succeeded).await;
    record(ledger, &(4..=9).map(|n| due(n, "a", NOW + n)).collect::<Vec<_>>()).await;
    apply(ledger, &[leased(&due(4, "a", NOW + 4)), again(&due(5, "a", NOW + 5), NOW + 500)]).await;
    jobs.clear();
    let tally = count(&*subject.reports, DueTally::new(vec![NOW + 5, NOW + 9], [text("a")])).await;
    assert_eq!(tally.of(Some("a")), Some(&[1, 4, 1][..]));
    let (_, kept) = ledger.tallies(Queues::one(&text("a"))).await.expect("tallies").remove(0);
    assert_eq!(tally.of(None).map(|counts| counts.iter().sum()), Some(kept.pending));
}

/// Over many steps, each once.
pub async fn many_jobs_are_counted_once(subject: Subject) {
    let ledger = &*subject.ledger;
    for batch in 0..3 {
        let numbers = batch * 10_000 + 1..=(batch + 1) * 10_000;
        record(ledger, &numbers.map(|n| due(n, &format!("q{}", n % 7), NOW + n)).collect::<Vec<_>>()).await;
    }
    let tally =
        count(&*subject.reports, DueTally::new(vec![NOW + 20_000], (0..7).map(|n| text(&format!("q{n}"))))).await;
    assert_eq!(tally.of(None), Some(&[20_000, 10_000][..]));
    let of_queues: u64 = (0..7).flat_map(|n| tally.of(Some(&format!("q{n}"))).expect("counted").to_vec()).sum();
    assert_eq!(of_queues, 30_000);
}

/// The one that ended last comes first, with as much of its message as is shown.
pub async fn the_latest_failed_jobs_come_first(subject: Subject) {
    let ledger = &*subject.ledger;
    assert_eq!(subject.reports.failed(10).await.expect("read"), []);
    let message = |n: u64| format!("größe {n}: {}", "x".repeat(2_000));
    let jobs: Vec<Job> =
        (1..=8).map(|n| job_with(n, |job| job.queue = text(if n % 2 == 0 { "a" } else { "b" }))).collect();
    record(ledger, &jobs).await;
    let stages = [Stage::Failed, Stage::Succeeded, Stage::Failed, Stage::Failed, Stage::Cancelled, Stage::Failed];
    let ends: Vec<Job> = jobs
        .iter()
        .zip(stages)
        .map(|(job, stage)| {
            let n = number(job.id);
            // The third ends last.
            let finished_at = Some(if n == 3 { NOW + 1_000 } else { NOW + n });
            Job {
                finished_at: finished_at.map(Timestamp),
                message: (n != 4).then(|| text(&message(n))),
                ..ended(job, stage)
            }
        })
        .collect();
    apply(ledger, &ends).await;
    let failed = subject.reports.failed(10).await.expect("read");
    assert_eq!(failed.iter().map(|job| number(job.id)).collect::<Vec<_>>(), [3, 6, 4, 1]);
    let FailedJob { queue, kind, finished_at, message: shown, .. } = &failed[0];
    assert_eq!((&**queue, &**kind, *finished_at), ("b", "default", NOW + 1_000));
    assert!(message(3).starts_with(shown) && shown.chars().count() >= FAILED_MESSAGE_CHARS, "{shown}");
    assert!(shown.len() < 2_000, "{}", shown.len());
    assert_eq!((&*failed[1].queue, &*failed[2].message), ("a", ""));
    let failed = subject.reports.failed(2).await.expect("read");
    assert_eq!(failed.iter().map(|job| number(job.id)).collect::<Vec<_>>(), [3, 6]);
}
