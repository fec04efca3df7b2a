//! The events that are published about jobs.

use super::fixture::{Bench, job, pass};
use duetime_core::api::Span;
use duetime_core::engine::events::{Event, Filter, RING_TRANSITIONS, Subscription, What};
use duetime_core::engine::{JobRef, Outcome, Patch, Source, TakeRequest};
use duetime_core::rules::Failure;
use duetime_core::{Due, Error, NewJob, OnConflict, Retry, State, WhenExhausted};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// All that has been told until now, in the form `what state attempt`.
fn told(listener: &mut Subscription) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(told) = listener.try_next() {
        words.push(match told {
            Event::Transition(told) => {
                assert_eq!((&*told.kind, told.id.get() > 0), ("default", true));
                let waits = matches!(told.state, State::Scheduled | State::Ready);
                assert_eq!(told.due_at.is_some(), waits || told.what == What::Deleted && told.due_at.is_some());
                format!("{} {} {}", told.what, told.state, told.attempt)
            }
            Event::Missed => "missed".to_owned(),
        });
    }
    words
}

fn fail(is_final: bool) -> Outcome {
    Outcome::Fail(Failure { message: "no".into(), is_final, retry_after: None })
}

#[tokio::test(start_paused = true)]
async fn a_life_is_told_in_order() {
    let bench = Bench::new().await;
    let mut listener = bench.engine.subscribe(Filter::default()).await.unwrap();
    let id = bench.push(NewJob { due: Due::After(Span(1_000)), ..job() }).await.id;
    bench.engine.run(id.into()).await.unwrap();
    let lease = bench.lease().await;
    bench.settle(&lease, fail(false)).await.unwrap();
    pass(17 * SECOND).await;
    let lease = bench.lease().await;
    bench.settle(&lease, Outcome::release(Span(0))).await.unwrap();
    let lease = bench.lease().await;
    bench.complete(&lease).await.unwrap();
    bench.complete(&lease).await.unwrap();
    bench.engine.retry(vec![id.into()]).await.remove(0).unwrap();
    bench.engine.cancel(vec![id.into()]).await.remove(0).unwrap();
    bench.engine.delete(vec![id.into()]).await.remove(0).unwrap();
    let expected = [
        "pushed scheduled 0",
        "changed ready 0",
        "started running 1",
        "retrying scheduled 1",
        "started running 2",
        "released ready 1",
        "started running 2",
        // And not again for the repeat.
        "succeeded succeeded 2",
        "retried ready 0",
        "cancelled cancelled 0",
        "deleted cancelled 0",
    ];
    assert_eq!(told(&mut listener), expected);
}

#[tokio::test(start_paused = true)]
async fn ends_that_nobody_asked_for_are_told() {
    let bench = Bench::new().await;
    let mut listener = bench.engine.subscribe(Filter::default()).await.unwrap();
    let options = Retry { max_attempts: Some(2), ..Retry::default() }.into();
    bench.push(NewJob { lease: Some(Span(1_000)), options, ..job() }).await;
    for _ in 0..2 {
        bench.lease().await;
        pass(2 * SECOND).await;
    }
    bench.push(NewJob { queue: "unstarted".into(), expires: Some(Span(500)), ..job() }).await;
    pass(2 * SECOND).await;
    let expected = [
        "pushed ready 0",
        "started running 1",
        "crashed ready 1",
        "started running 2",
        "failed failed 2",
        "pushed ready 0",
        "expired failed 0",
    ];
    assert_eq!(told(&mut listener), expected);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_taken_moved_or_cancelled_by_its_worker() {
    let bench = Bench::new().await;
    let mut listener = bench.engine.subscribe(Filter::default()).await.unwrap();
    bench.push(job()).await;
    let from = Source::Queues(vec!["default".into()]);
    let take = TakeRequest { from, limit: 1, due_from: None, due_to: None, request_id: None };
    bench.engine.take(take).await.unwrap();
    assert_eq!(told(&mut listener), ["pushed ready 0", "taken succeeded 1"]);

    let retry = Retry { when_exhausted: Some(WhenExhausted::Move("dead".into())), ..Retry::default() };
    bench.push(NewJob { options: retry.into(), ..job() }).await;
    let lease = bench.lease().await;
    bench.settle(&lease, fail(true)).await.unwrap();
    let expected = ["pushed ready 0", "started running 1", "failed failed 1", "pushed ready 0"];
    assert_eq!(told(&mut listener), expected);
    assert_eq!(bench.queue("dead").await.counts.ready, 1);

    let id = bench.push(job()).await.id;
    let lease = bench.lease().await;
    bench.engine.cancel(vec![JobRef::from(id)]).await.remove(0).unwrap();
    bench.settle(&lease, fail(false)).await.unwrap();
    assert_eq!(told(&mut listener), ["pushed ready 0", "started running 1", "cancelled cancelled 1"]);
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_is_not_told() {
    let bench = Bench::new().await;
    let keyed = || NewJob { key: Some("k".into()), ..job() };
    let id = bench.push(keyed()).await.id;
    let mut listener = bench.engine.subscribe(Filter::default()).await.unwrap();
    bench.push(keyed()).await;
    assert!(bench.try_push(NewJob { on_conflict: OnConflict::Reject, ..keyed() }).await.is_err());
    bench.engine.retry(vec![id.into()]).await.remove(0).unwrap_err();
    let stale = JobRef { id, version: Some(2) };
    bench.engine.update(stale, Patch { priority: Some(1), ..Patch::default() }).await.unwrap_err();
    assert_eq!(told(&mut listener), [""; 0]);
    bench.push(NewJob { on_conflict: OnConflict::Replace, ..keyed() }).await;
    assert_eq!(told(&mut listener), ["changed ready 0"]);
}

#[tokio::test(start_paused = true)]
async fn who_is_slow_holds_nobody_up_and_learns_what_was_missed() {
    let bench = Bench::new().await;
    let mut slow = bench.engine.subscribe(Filter::default()).await.unwrap();
    let mut fast = bench.engine.subscribe(Filter::default()).await.unwrap();
    let batch = 4_096;
    for _ in 0..RING_TRANSITIONS / batch {
        bench.engine.push(vec![job(); batch]).await.unwrap();
        assert_eq!(told(&mut fast).len(), batch);
    }
    bench.push(job()).await;
    assert_eq!(told(&mut fast), ["pushed ready 0"]);
    assert!(matches!(slow.next().await, Some(Event::Missed)));
    assert_eq!(told(&mut slow).len(), RING_TRANSITIONS);
}

#[tokio::test(start_paused = true)]
async fn who_listens_hears_no_more_once_the_engine_stops() {
    let bench = Bench::new().await;
    let mut listener = bench.engine.subscribe(Filter::default()).await.unwrap();
    let waiting = tokio::spawn(async move { listener.next().await });
    bench.engine.stop().await.unwrap();
    assert!(waiting.await.unwrap().is_none());
    assert_eq!(bench.engine.subscribe(Filter::default()).await.map(drop), Err(Error::Stopping));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_asked_for_is_not_heard() {
    let bench = Bench::new().await;
    let filter = |queues: &[&str], what: &[What]| Filter {
        queues: queues.iter().map(|&queue| queue.into()).collect(),
        what: what.to_vec(),
    };
    let mut by_name = bench.engine.subscribe(filter(&["mail", "mail.*"], &[])).await.unwrap();
    let mut by_what = bench.engine.subscribe(filter(&["*"], &[What::Cancelled])).await.unwrap();
    for queue in ["mail", "mail.a", "mails", "other", "MAIL"] {
        let id = bench.push(NewJob { queue: queue.into(), ..job() }).await.id;
        bench.engine.cancel(vec![id.into()]).await.remove(0).unwrap();
    }
    let mut queues = Vec::new();
    while let Some(Event::Transition(told)) = by_name.try_next() {
        queues.push(told.queue.to_string());
    }
    assert_eq!(queues, ["mail", "mail", "mail.a", "mail.a"]);
    assert_eq!(told(&mut by_what), ["cancelled cancelled 0"; 5]);
    for queues in [&["a b"][..], &["a*b"], &["**"], &["q"; 65]] {
        let refused = bench.engine.subscribe(filter(queues, &[])).await.map(drop);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{queues:?}: {refused:?}");
    }
}
