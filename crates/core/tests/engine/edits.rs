//! Cancel, update, retry, delete; one by one and in bulk; near and beyond the horizon.

use super::fixture::{Bench, job, pass};
use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::{BulkAction, CancelOutcome, JobRef, Outcome, Patch, Query};
use duetime_core::limits::PAGE_JOBS_MAX;
use duetime_core::ports::Ledger;
use duetime_core::rules::Failure;
use duetime_core::{Due, Error, NewJob, State};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const FAR_MS: u64 = 10 * 3_600_000;

#[tokio::test(start_paused = true)]
async fn a_waiting_job_is_cancelled_near_and_far() {
    let bench = Bench::new().await;
    for due in [Due::Now, Due::After(Span(60_000)), Due::After(Span(FAR_MS))] {
        let pushed = bench.push(NewJob { due, ..job() }).await;
        let cancel = || bench.engine.cancel(vec![pushed.id.into()]);
        assert_eq!(cancel().await.pop().unwrap().unwrap(), CancelOutcome::Cancelled, "{due:?}");
        assert_eq!(bench.state(pushed.id).await, State::Cancelled);
        assert_eq!(cancel().await.pop().unwrap().unwrap(), CancelOutcome::AlreadyFinished);
    }
    pass(Duration::from_millis(FAR_MS + 1)).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    let unknown = duetime_core::JobId::new(5).unwrap();
    assert_eq!(bench.engine.cancel(vec![unknown.into()]).await, [Err(Error::NotFound(unknown))]);
}

#[tokio::test(start_paused = true)]
async fn a_running_job_is_asked_to_stop() {
    let bench = Bench::new().await;
    for completes in [true, false] {
        let pushed = bench.push(job()).await;
        let lease = bench.lease().await;
        let answer = bench.engine.cancel(vec![pushed.id.into()]).await.pop().unwrap();
        assert_eq!(answer.unwrap(), CancelOutcome::CancelRequested);
        let extended = bench.engine.extend(vec![(lease.job.receipt(), None)]).await.pop().unwrap().unwrap();
        assert!(extended.cancel_asked);
        let (outcome, end) = if completes {
            (Outcome::complete(None), State::Succeeded)
        } else {
            (Outcome::Fail(Failure::default()), State::Cancelled)
        };
        assert_eq!(bench.settle(&lease, outcome).await.unwrap(), end);
    }
}

/// A restart would undo that end: the cancel is repeated once the ledger is back.
#[tokio::test(start_paused = true)]
async fn a_job_whose_end_is_not_recorded_is_not_answered_as_finished() {
    let bench = Bench::new().await;
    let id = bench.push(job()).await.id;
    let lease = bench.lease().await;
    bench.ledger.set_away(true);
    bench.settle(&lease, Outcome::complete(None)).await.unwrap_err();
    let cancel = || bench.engine.cancel(vec![id.into()]);
    let refused = cancel().await.pop().unwrap();
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    bench.ledger.set_away(false);
    assert_eq!(cancel().await.pop().unwrap().unwrap(), CancelOutcome::AlreadyFinished);
    assert_eq!(bench.ledger.get(&[id]).await.unwrap()[0].as_ref().unwrap().state(0), State::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_changed_version_stops_a_conditional_change() {
    let bench = Bench::new().await;
    for due in [Due::After(Span(60_000)), Due::After(Span(FAR_MS))] {
        let pushed = bench.push(NewJob { due, ..job() }).await;
        let right = JobRef { id: pushed.id, version: Some(pushed.version) };
        let updated = bench.engine.update(right, Patch { priority: Some(1), ..Patch::default() }).await.unwrap();
        assert_eq!((updated.priority, updated.version > pushed.version), (1, true));
        let cancel = bench.engine.cancel(vec![right]).await.pop().unwrap();
        assert_eq!(cancel, Err(Error::VersionMismatch { id: pushed.id, current: updated.version }));
        assert_eq!(bench.state(pushed.id).await, State::Scheduled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_can_be_moved_over_the_horizon_and_back() {
    let bench = Bench::new().await;
    let pushed = bench.push(NewJob { due: Due::After(Span(60_000)), ..job() }).await;
    let target = JobRef::from(pushed.id);
    let to = |due| Patch { due: Some(due), ..Patch::default() };
    bench.engine.update(target, to(Due::After(Span(FAR_MS)))).await.unwrap();
    pass(Duration::from_secs(120)).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    bench.engine.run(target).await.unwrap();
    assert_eq!(bench.lease().await.job.id, pushed.id);
}

#[tokio::test(start_paused = true)]
async fn a_failed_job_is_retried_by_hand_from_zero() {
    let bench = Bench::new().await;
    let pushed = bench.push(job()).await;
    assert_eq!(bench.engine.retry(vec![pushed.id.into()]).await, [Err(Error::Live(pushed.id))]);
    let failure = Failure { is_final: true, ..Failure::default() };
    bench.settle(&bench.lease().await, Outcome::Fail(failure)).await.unwrap();
    bench.engine.retry(vec![pushed.id.into()]).await.pop().unwrap().unwrap();
    let lease = bench.lease().await;
    assert_eq!((lease.job.id, lease.job.attempt), (pushed.id, 1));
}

/// The second edit changes nothing, and is an answer all the same: the job is handed out at once.
#[tokio::test(start_paused = true)]
async fn two_who_retry_the_same_job_do_not_hold_it_back() {
    let bench = Bench::new().await;
    let pushed = bench.push(job()).await;
    let failure = Failure { is_final: true, ..Failure::default() };
    bench.settle(&bench.lease().await, Outcome::Fail(failure)).await.unwrap();
    let target = JobRef { id: pushed.id, version: Some(bench.engine.job(pushed.id).await.unwrap().version) };
    let retried = bench.engine.retry(vec![target, target]).await;
    assert!(matches!(&retried[..], [Ok(_), Err(Error::VersionMismatch { .. })]), "{retried:?}");
    let leases = bench.reserve(1, Duration::from_secs(5)).await;
    assert_eq!(leases.first().map(|lease| lease.job.id), Some(pushed.id));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_leaves_nothing_and_a_running_one_stays() {
    let bench = Bench::new().await;
    for due in [Due::Now, Due::After(Span(FAR_MS))] {
        let pushed = bench.push(NewJob { due, ..job() }).await;
        bench.engine.delete(vec![pushed.id.into()]).await.pop().unwrap().unwrap();
        assert_eq!(bench.engine.job(pushed.id).await.unwrap_err(), Error::NotFound(pushed.id));
    }
    assert!(bench.ledger.jobs().is_empty());
    pass(Duration::from_millis(FAR_MS + 1)).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    let pushed = bench.push(job()).await;
    let lease = bench.lease().await;
    assert_eq!(bench.engine.delete(vec![pushed.id.into()]).await, [Err(Error::Running(pushed.id))]);
    bench.complete(&lease).await.unwrap();
    bench.engine.delete(vec![pushed.id.into()]).await.pop().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_tag_cancels_all_that_carry_it() {
    let bench = Bench::new().await;
    let tagged = |due| NewJob { due, tags: vec!["order:7".into()], ..job() };
    let jobs: Vec<NewJob> = (0..2_500).map(|i| tagged(Due::After(Span(1_000 + i * 10_000)))).collect();
    bench.engine.push(jobs).await.unwrap();
    bench.push(job()).await;
    let query = Query { tag: Some("order:7".into()), ..Query::default() };
    let counts = bench.engine.bulk(&query, BulkAction::Cancel).await.unwrap();
    assert_eq!(counts, [("cancelled", 2_500)].into());
    assert_eq!(bench.engine.bulk(&query, BulkAction::Cancel).await.unwrap(), [].into());
    assert_eq!(bench.engine.bulk(&query, BulkAction::Delete).await.unwrap(), [("deleted", 2_500)].into());
    assert_eq!(bench.engine.bulk(&Query::default(), BulkAction::Cancel).await.unwrap_err().code(), "invalid");
    assert_eq!(bench.lease().await.job.tags.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_many_ends_once_it_may_not_go_on() {
    let bench = Bench::new().await;
    let jobs = vec![NewJob { due: Due::After(Span(1_000)), tags: vec!["order:7".into()], ..job() }; 2_500];
    bench.engine.push(jobs).await.unwrap();
    let query = Query { tag: Some("order:7".into()), ..Query::default() };
    let asked = AtomicUsize::new(0);
    let is_first = || asked.fetch_add(1, Ordering::Relaxed) == 0;
    let counts = bench.engine.bulk_while(&query, BulkAction::Cancel, &is_first).await.unwrap();
    assert_eq!(counts, [("cancelled", PAGE_JOBS_MAX as u64)].into());
    assert_eq!(asked.into_inner(), 2, "before each page");
    let counts = bench.engine.bulk(&query, BulkAction::Cancel).await.unwrap();
    assert_eq!(counts, [("cancelled", 2_500 - PAGE_JOBS_MAX as u64)].into());
}

#[tokio::test(start_paused = true)]
async fn found_jobs_are_rescheduled_over_the_horizon_and_back() {
    let bench = Bench::new().await;
    let bulk = |state: Vec<State>, due| {
        let query = Query { tag: Some("order:7".into()), state: state.into(), ..Query::default() };
        let engine = bench.engine.clone();
        async move { engine.bulk(&query, BulkAction::Reschedule(due)).await }
    };
    let tagged = |due| NewJob { due, tags: vec!["order:7".into()], ..job() };
    bench.engine.push((0..1_500).map(|i| tagged(Due::After(Span(i * 10_000)))).collect()).await.unwrap();
    let bystander = bench.push(NewJob { due: Due::After(Span(2 * FAR_MS)), ..job() }).await;
    let running = bench.lease().await;
    let cancelled = bench.push(tagged(Due::Now)).await;
    bench.engine.cancel(vec![cancelled.id.into()]).await.pop().unwrap().unwrap();
    for wrong in [Due::After(Span(11 * 365 * 86_400_000)), Due::At(Timestamp(1_800_000_000))] {
        assert_eq!(bulk(vec![], wrong).await.unwrap_err().code(), "invalid");
    }

    let at = bench.engine.now() + FAR_MS;
    assert_eq!(bulk(vec![], Due::After(Span(FAR_MS))).await.unwrap(), [("rescheduled", 1_499)].into());
    assert_eq!(bulk(vec![], Due::At(Timestamp(at))).await.unwrap(), [].into(), "a repeat does nothing");
    assert_eq!(bulk(vec![State::Running], Due::Now).await.unwrap(), [("job_running", 1)].into());
    assert_eq!(bulk(vec![State::Cancelled], Due::Now).await.unwrap(), [("already_finished", 1)].into());
    assert_eq!(
        (bench.state(running.job.id).await, bench.state(cancelled.id).await),
        (State::Running, State::Cancelled)
    );
    bench.complete(&running).await.unwrap();
    pass(Duration::from_millis(FAR_MS - 1)).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    assert_eq!(
        bulk(vec![], Due::After(Span(60_000))).await.unwrap(),
        [("rescheduled", 1_499)].into(),
        "the delay starts over"
    );
    pass(Duration::from_millis(59_999)).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());

    // A job that is due keeps its place.
    let ready = bench.push(tagged(Due::Now)).await;
    pass(Duration::from_millis(0)).await;
    assert_eq!(bulk(vec![], Due::Now).await.unwrap(), [("rescheduled", 1_499)].into());
    assert_eq!(bench.engine.job(ready.id).await.unwrap().version, ready.version);
    let mut ran = Vec::new();
    while let leases @ [_, ..] = &bench.reserve(1_000, Duration::ZERO).await[..] {
        ran.extend(leases.iter().map(|lease| lease.job.id));
    }
    ran.sort_unstable();
    ran.dedup();
    assert_eq!((ran.len(), ran.contains(&bystander.id)), (1_500, false));
}

#[tokio::test(start_paused = true)]
async fn a_purge_leaves_what_runs_and_says_so() {
    let bench = Bench::new().await;
    bench.engine.push((0..5).map(|_| job()).collect()).await.unwrap();
    let lease = bench.reserve(1, Duration::ZERO).await.pop().unwrap();
    bench.push(NewJob { due: Due::After(Span(FAR_MS)), ..job() }).await;
    assert_eq!(bench.engine.purge("default").await.unwrap(), 5);
    bench.complete(&lease).await.unwrap();
    let tally = bench.queue("default").await.tally;
    assert_eq!((tally.cancelled, tally.succeeded, tally.pending), (5, 1, 0));
    let cancelled = bench.ledger.jobs().into_iter().find(|job| job.state(0) == State::Cancelled).unwrap();
    assert_eq!(cancelled.message.as_deref(), Some("purged"));
}

#[tokio::test(start_paused = true)]
async fn pages_show_every_job_once() {
    let bench = Bench::new().await;
    let dues = (0..95).map(|i| Due::After(Span((i * 7_919) % 7_200_000 + i * 100_000)));
    bench.engine.push(dues.map(|due| NewJob { due, ..job() }).collect()).await.unwrap();
    for states in [vec![State::Scheduled, State::Ready], vec![]] {
        let query = Query { queue: Some("default".into()), state: states.into(), ..Query::default() };
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = bench.engine.find(&query, cursor.as_deref(), 10).await.unwrap();
            seen.extend(page.jobs.iter().map(|job| job.id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!((count, seen.len()), (95, 95));
    }
    assert_eq!(bench.engine.find(&Query::default(), Some("x"), 10).await.unwrap_err().code(), "invalid");
    // Who lists a queue sees no other one, whatever the cursor says.
    let query = Query { queue: Some("default".into()), ..Query::default() };
    let next = bench.engine.find(&query, None, 1).await.unwrap().next_cursor.unwrap();
    let (list, _) = next.split_once('-').unwrap();
    for place in ["q-5-other", "q-0-", "q-5-othera-0-"] {
        let cursor = format!("{list}-{place}");
        let refused = bench.engine.find(&query, Some(&cursor), 10).await.map(|page| page.jobs.len());
        assert_eq!(refused.unwrap_err().code(), "invalid", "{cursor}");
    }
}

/// A job that only the ledger holds, such as one not loaded yet, must not be put in the broker after it is deleted there.
#[tokio::test(start_paused = true)]
async fn a_job_deleted_before_it_was_loaded_does_not_run() {
    let bench = Bench::new().await;
    pass(Duration::from_secs(1)).await;
    let id = duetime_core::JobId::new(1_024).unwrap();
    let row = NewJob { due: Due::After(Span(60_000)), ..job() }.accept(id, bench.engine.now(), 100).unwrap();
    bench.ledger.record(vec![row], u64::MAX).await.unwrap();
    bench.engine.delete(vec![id.into()]).await.pop().unwrap().unwrap();
    pass(Duration::from_secs(61)).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
}
