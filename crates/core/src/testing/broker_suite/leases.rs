//! Leases: their length, their numbers, their end.

use super::Subject;
use crate::json::{Span, Timestamp};
use crate::limits::{LEASE_MS_DEFAULT, MINUTE_MS};
use crate::model::id::Receipt;
use crate::model::job::{AttemptError, Job, State};
use crate::model::progress::Progress;
use crate::ports::{Extended, Put, QueueLeases, Queues, Reserve};
use crate::testing::fixtures::{QUEUE, T0, again, cancel, due, id, job, reserve, success};
use std::collections::BTreeSet;
use std::sync::Arc;

/// While it lives no other caller gets the job.
pub async fn a_lease_has_one_holder(s: Subject) {
    s.hold(&[job(1)]).await;
    let job = s.one().await;
    assert_eq!(job.state(s.now()), State::Running);
    assert_eq!((job.attempt, job.started_at), (1, Some(Timestamp(T0))));
    assert_eq!(s.handed_out(1).await, []);
    s.pass(LEASE_MS_DEFAULT * 10);
    assert_eq!(s.handed_out(1).await, [], "only a settle ends it");
}

/// The request's length, else the job's, else the queue's, else a minute.
pub async fn the_nearest_length_wins(s: Subject) {
    let own = |n| Job { lease: Some(Span(20_000)), ..job(n) };
    s.hold(&[own(1), own(2), job(3), job(4)]).await;
    let of_queue = Arc::new(QueueLeases::default());
    of_queue.set(&"other".into(), Some(5_000));
    of_queue.set(&QUEUE.into(), Some(30_000));
    let lengths = [
        Reserve { lease_ms: Some(10_000), queue_leases: of_queue.clone(), ..reserve(QUEUE, 1) },
        Reserve { queue_leases: of_queue.clone(), ..reserve(QUEUE, 1) },
        Reserve { queue_leases: of_queue, ..reserve(QUEUE, 1) },
        reserve(QUEUE, 1),
    ];
    for (request, lease_ms) in lengths.into_iter().zip([10_000, 20_000, 30_000, LEASE_MS_DEFAULT]) {
        let lease = s.leases(request).await.remove(0);
        assert_eq!(lease.length, Span(lease_ms));
        assert_eq!(lease.job.lease_until, Some(Timestamp(T0 + lease_ms)));
    }
}

/// Epoch and version grow with each lease and each change, even within a millisecond; attempts count leases.
pub async fn numbers_grow_with_each_lease(s: Subject) {
    s.hold(&[job(1)]).await;
    let mut last = job(1);
    for attempt in 1..=5 {
        let job = s.one().await;
        assert!(job.epoch > last.epoch && job.version > last.version, "{job:?}");
        assert_eq!(job.attempt, attempt);
        assert_eq!(s.settle(job.receipt(), again(&job, T0)).await, Some(State::Ready));
        let waiting = s.get(id(1)).await.unwrap();
        assert!(waiting.version > job.version && waiting.epoch == job.epoch);
        last = waiting;
    }
}

/// A broker that only has the ledger's row of a job hands it out with greater numbers than any before, and the old receipt
/// is refused.
pub async fn numbers_grow_over_a_lost_memory(s: Subject) {
    let row = Job { version: T0 + 70, epoch: T0 + 60, attempt: 3, ..job(1) };
    s.hold(std::slice::from_ref(&row)).await;
    let job = s.one().await;
    assert!(job.epoch > row.epoch && job.version > row.version && job.attempt == 4, "{job:?}");
    assert_eq!(s.settle(row.receipt(), success()).await, None);
    assert_eq!(s.extend(row.receipt(), None).await, Extended::Lost);
}

/// The wall clock was ahead when it was given, and is back since.
pub async fn a_lease_of_a_clock_that_was_ahead_is_no_longer(s: Subject) {
    let long = Job { lease: Some(Span(2 * LEASE_MS_DEFAULT)), ..job(1) };
    s.hold(&[long, job(2)]).await;
    assert_eq!(s.handed_out(1).await, [id(1)]);
    assert_eq!(s.crashed().await, []);
    s.clock.step(10 * MINUTE_MS as i64);
    assert_eq!(s.handed_out(1).await, [id(2)]);
    s.clock.step(-(10 * MINUTE_MS as i64));
    assert_eq!(s.crashed().await, []);
    s.pass(LEASE_MS_DEFAULT - 1);
    assert_eq!(s.crashed().await, []);
    s.pass(1);
    assert_eq!(s.crashed().await, [id(2)], "the other one was given for longer");
}

/// A job as a row shows it whose lease ends this long after [`T0`].
fn leased(n: u64, left_ms: u64) -> Job {
    Job {
        version: T0,
        epoch: T0 - 1,
        attempt: 1,
        started_at: Some(Timestamp(T0 - 1)),
        lease_until: Some(Timestamp(T0 + left_ms)),
        ..job(n)
    }
}

/// A row with a lease is put as running; its worker keeps its receipt, but no longer than the time left.
pub async fn a_restored_lease_has_the_time_left(s: Subject) {
    assert_eq!(s.put(&[leased(1, 10_000), leased(2, 20_000), leased(3, 0)]).await, [Put::Held; 3]);
    assert_eq!(s.handed_out(10).await, []);
    assert_eq!(s.get(id(1)).await, Some(leased(1, 10_000)));
    assert_eq!(s.crashed().await, [id(3)]);
    assert_eq!(s.settle(leased(3, 0).receipt(), again(&leased(3, 0), T0)).await, Some(State::Ready));
    let second = s.one().await;
    assert!(second.epoch > T0 - 1, "{second:?}");
    assert_eq!(s.settle(leased(3, 0).receipt(), success()).await, None, "the restored receipt is stale now");
    s.pass(9_999);
    assert_eq!(s.crashed().await, []);
    s.pass(1);
    assert_eq!(s.crashed().await, [id(1)]);
    assert_eq!(s.settle(leased(2, 20_000).receipt(), success()).await, Some(State::Succeeded));
}

/// Each is on one page.
pub async fn running_jobs_are_shown_page_by_page(s: Subject) {
    let other = Job { queue: "other".into(), ..leased(5, 15_000) };
    s.hold(&[leased(1, 30_000), leased(2, 10_000), leased(3, 10_000), leased(4, 20_000), other, job(6)]).await;
    let partitions: BTreeSet<u16> = [QUEUE, "other"].iter().map(|queue| s.broker.partition(queue)).collect();
    let mut found = Vec::new();
    for partition in partitions {
        let mut after = None;
        loop {
            let (jobs, next) = s.broker.running_in(partition, after, 2).await.unwrap();
            assert!(next.is_none() || jobs.len() == 2, "{jobs:?}");
            found.extend(jobs.into_iter().map(|job| job.id));
            if next.is_none() {
                break;
            }
            after = next;
        }
    }
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3, 4, 5].map(id));
}

/// The length when it began or was extended last, also if the clock was set back before the restart. An extension after the
/// restart is not longer either.
pub async fn a_restored_lease_is_no_longer_than_it_was(s: Subject) {
    let later = T0 + 30 * MINUTE_MS;
    let began = Job {
        version: T0,
        epoch: T0,
        attempt: 1,
        started_at: Some(Timestamp(later)),
        updated_at: Timestamp(later),
        ..job(1)
    };
    let plain = Job { lease_until: Some(Timestamp(later + 2_000)), ..began.clone() };
    let extended = Job {
        id: id(2),
        updated_at: Timestamp(later + 60_000),
        lease_until: Some(Timestamp(later + 67_000)),
        ..began.clone()
    };
    let cancelled = Job { id: id(3), cancel_asked: true, lease_until: Some(Timestamp(later + 1_000)), ..began };
    assert_eq!(s.put(&[plain, extended.clone(), cancelled.clone()]).await, [Put::Held; 3]);
    assert_eq!(s.handed_out(10).await, []);
    assert_eq!(s.get(id(1)).await.unwrap().lease_until, Some(Timestamp(T0 + 2_000)));
    s.pass(999);
    assert_eq!(s.crashed().await, []);
    s.pass(1);
    assert_eq!(s.crashed().await, [id(3)]);
    s.pass(1_000);
    assert!(s.crashed().await.contains(&id(1)));
    for (job, lease_ms) in [(extended, 7_000), (cancelled, LEASE_MS_DEFAULT)] {
        let until = s.now() + lease_ms;
        let extended = s.extend(job.receipt(), None).await;
        assert!(matches!(extended, Extended::Until { lease_until, .. } if lease_until == until), "{extended:?}");
    }
}

/// It counts from now on, not from the former end.
pub async fn an_extension_moves_the_end(s: Subject) {
    s.hold(&[job(1)]).await;
    let job = s.one().await;
    s.pass(50_000);
    let Extended::Until { lease_until, version, cancel_asked, .. } = s.extend(job.receipt(), Some(30_000)).await else {
        panic!("the lease lives");
    };
    assert_eq!((lease_until, cancel_asked), (s.now() + 30_000, false));
    assert!(version > job.version);
    let seen = s.get(id(1)).await.unwrap();
    assert_eq!((seen.version, seen.lease_until, seen.epoch), (version, Some(Timestamp(lease_until)), job.epoch));
    s.pass(29_999);
    assert_eq!(s.crashed().await, []);
    s.pass(1);
    assert_eq!(s.crashed().await, [id(1)]);
}

/// Not the length of the last extension.
pub async fn an_extension_takes_the_first_length_again(s: Subject) {
    s.hold(&[job(1)]).await;
    let receipt = s.leases(Reserve { lease_ms: Some(7_000), ..reserve(QUEUE, 1) }).await[0].job.receipt();
    for (asked, got) in [(None, 7_000), (Some(90_000), 90_000), (None, 7_000)] {
        s.pass(1_000);
        let extended = s.extend(receipt, asked).await;
        assert!(
            matches!(extended, Extended::Until { lease_until, .. } if lease_until == s.now() + got),
            "{extended:?}"
        );
    }
}

fn told(percent: u8, note: Option<&str>) -> Arc<Progress> {
    Arc::new(Progress { percent, note: note.map(Arc::from), at: Timestamp(T0) })
}

/// Regardless of other changes and of what its earlier attempts reported; it is recorded with the job's outcome.
pub async fn what_is_said_of_a_job_stays_until_its_next_lease(s: Subject) {
    let error = AttemptError { attempt: 1, at: Timestamp(T0 - 5), message: "no".into(), crashed: false };
    let failed = Job { attempt: 1, epoch: T0 - 9, message: Some("no".into()), errors: vec![error], ..job(1) };
    s.hold(std::slice::from_ref(&failed)).await;
    let first = s.one().await;
    for progress in [told(40, Some("Größe \0\"")), told(0, None), told(100, Some(&"ä".repeat(512)))] {
        assert!(matches!(s.progress(first.receipt(), &progress).await, Extended::Until { .. }));
        s.extend(first.receipt(), None).await;
        let seen = s.get(id(1)).await.unwrap();
        assert_eq!((seen.progress, &seen.errors, &seen.message), (Some(progress), &failed.errors, &failed.message));
    }
    let last = Some(told(100, Some(&"ä".repeat(512))));
    let settled = s.settled(first.receipt(), again(&first, T0)).await;
    assert_eq!((settled.entries.len(), &settled.entries[0].job().progress), (1, &last));
    assert_eq!(s.get(id(1)).await.unwrap().progress, last, "it waits");

    let second = s.one().await;
    assert_eq!((second.progress.as_ref(), &second.errors), (None, &failed.errors));
    assert_eq!(s.get(id(1)).await, Some(second.clone()));
    assert_eq!(s.progress(first.receipt(), &told(1, None)).await, Extended::Lost);
    assert_eq!(s.get(id(1)).await, Some(second.clone()), "that changed nothing");
    s.progress(second.receipt(), &told(50, Some("half"))).await;
    s.edit(id(1), cancel()).await;
    assert_eq!(s.get(id(1)).await.unwrap().progress, Some(told(50, Some("half"))), "asked to stop");
    let settled = s.settled(second.receipt(), success()).await;
    let ended = settled.entries[0].job();
    assert_eq!((&ended.progress, &ended.errors), (&Some(told(50, Some("half"))), &failed.errors));
}

/// By its original length; also for a job without any other options.
pub async fn what_is_said_of_a_job_extends_its_lease(s: Subject) {
    s.hold(&[job(1)]).await;
    let receipt = s.leases(Reserve { lease_ms: Some(7_000), ..reserve(QUEUE, 1) }).await[0].job.receipt();
    s.pass(5_000);
    let Extended::Until { lease_until, version, .. } = s.progress(receipt, &told(7, None)).await else {
        panic!("the lease lives");
    };
    assert_eq!(lease_until, s.now() + 7_000);
    let seen = s.get(id(1)).await.unwrap();
    assert_eq!(
        (seen.version, seen.lease_until, seen.progress),
        (version, Some(Timestamp(lease_until)), Some(told(7, None)))
    );
    let settled = s.settled(receipt, success()).await;
    assert_eq!(settled.entries[0].job().progress, Some(told(7, None)));
}

/// It was settled, it is an earlier one, or the job does not exist.
pub async fn an_extended_lease_can_be_lost(s: Subject) {
    s.hold(&[job(1)]).await;
    let first = s.one().await;
    s.settle(first.receipt(), again(&first, T0)).await;
    assert_eq!(s.extend(first.receipt(), None).await, Extended::Lost, "released");
    let second = s.one().await;
    assert_eq!(s.extend(first.receipt(), None).await, Extended::Lost, "handed out again");
    assert_eq!(s.get(id(1)).await, Some(second.clone()), "that changed nothing");
    s.settle(second.receipt(), success()).await;
    assert_eq!(s.extend(second.receipt(), None).await, Extended::Lost, "finished");
    assert_eq!(s.extend(Receipt { id: id(9), epoch: 1 }, None).await, Extended::Lost, "unknown");
}

/// `expired` reports it, and how long there is until the next one; the worker may still settle.
pub async fn a_lease_ends_once_its_time_is_over(s: Subject) {
    assert_eq!(s.broker.expired(10).await.unwrap().next_ms, None);
    s.hold(&[job(1)]).await;
    let job = s.leases(Reserve { lease_ms: Some(2_000), ..reserve(QUEUE, 1) }).await.remove(0).job;
    let mut left = 2_000;
    while left > 0 {
        let expired = s.broker.expired(10).await.unwrap();
        assert!(expired.crashed.is_empty(), "{left} ms too early");
        let next_ms = expired.next_ms.expect("a lease lives");
        assert!((1..=left).contains(&next_ms), "{next_ms} of {left}");
        s.pass(next_ms);
        left -= next_ms;
    }
    let expired = s.broker.expired(10).await.unwrap();
    let whole = |head: &Job| Job { payload: job.payload.clone(), ..head.clone() };
    assert_eq!(expired.crashed.iter().map(whole).collect::<Vec<_>>(), std::slice::from_ref(&job));
    assert_eq!(s.settle(job.receipt(), success()).await, Some(State::Succeeded));
    s.pass(60_000);
    assert_eq!(s.crashed().await, []);
}

/// Later, but not never: the caller that got it may have died.
pub async fn an_unsettled_end_is_told_again(s: Subject) {
    s.hold(&[job(1)]).await;
    s.one().await;
    s.pass(LEASE_MS_DEFAULT);
    assert_eq!(s.crashed().await, [id(1)]);
    assert_eq!(s.crashed().await, []);
    let next_ms = s.broker.expired(10).await.unwrap().next_ms;
    assert!(next_ms.is_some_and(|ms| ms > 0), "{next_ms:?}");
    s.pass(LEASE_MS_DEFAULT);
    assert_eq!(s.crashed().await, [id(1)]);
}

/// If the holder extends a lease that was already reported as expired, it is not reported again before its new end, even if
/// a repeated report would come sooner or later than that.
pub async fn an_extension_counts_after_its_end_was_told(s: Subject) {
    for lease_ms in [100, 60_000] {
        let n = lease_ms;
        s.hold(&[job(n)]).await;
        let job = s.one().await;
        s.pass(LEASE_MS_DEFAULT);
        assert_eq!(s.crashed().await, [id(n)]);
        assert!(matches!(s.extend(job.receipt(), Some(lease_ms)).await, Extended::Until { .. }));
        for passed in [lease_ms - 1, 1] {
            assert_eq!(s.crashed().await, [], "{lease_ms} ms are not over");
            s.pass(passed);
        }
        assert_eq!(s.crashed().await, [id(n)]);
        assert_eq!(s.settle(job.receipt(), success()).await, Some(State::Succeeded));
    }
}

/// It reports whether there are more.
pub async fn expired_is_bounded(s: Subject) {
    let late = |n| Job { expires: Some(Span(1_000)), ..job(n) };
    s.hold(&(1..=5).map(job).collect::<Vec<_>>()).await;
    assert_eq!(s.handed_out(5).await.len(), 5);
    s.hold(&(6..=10).map(late).collect::<Vec<_>>()).await;
    s.pass(LEASE_MS_DEFAULT);
    let expired = s.broker.expired(3).await.unwrap();
    assert!(expired.crashed.len() <= 3 && expired.unstarted.len() <= 3);
    assert_eq!(expired.next_ms, Some(0));
    let mut crashed: Vec<_> = expired.crashed.iter().map(|job| job.id).collect();
    for _ in 0..5 {
        crashed.extend(s.broker.expired(3).await.unwrap().crashed.iter().map(|job| job.id));
    }
    crashed.sort();
    assert_eq!(crashed, [1, 2, 3, 4, 5].map(id));
}

/// It is reported as unstarted instead, until somebody ends it. The last instant still counts.
pub async fn a_job_not_started_in_time_is_not_handed_out(s: Subject) {
    let until = |n, expires_ms| Job { expires: Some(expires_ms), ..due(n, T0 + 10) };
    s.hold(&[until(1, Span(0)), until(2, Span(90)), until(3, Span(90)), until(4, Span(91))]).await;
    s.pass(100);
    assert_eq!(s.handed_out(1).await, [id(2)], "the first is late");
    s.pass(1);
    assert_eq!(s.handed_out(10).await, [id(4)]);
    for _ in 0..2 {
        let unstarted = s.broker.expired(10).await.unwrap().unstarted;
        assert_eq!(unstarted.iter().map(|job| job.id).collect::<Vec<_>>(), [1, 3].map(id), "what started is not late");
    }
    let counts = s.broker.counts(Queues::Named(vec![QUEUE.into()])).await.unwrap()[0].1;
    assert_eq!((counts.ready, counts.running), (2, 2), "they still wait");
}
