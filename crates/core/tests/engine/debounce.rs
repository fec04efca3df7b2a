//! Pushes that postpone the holder of their key.

use super::fixture::{Bench, pass};
use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::PushOutcome;
use duetime_core::{Debounce, Due, Error, KeyUntil, NewJob, OnConflict};
use std::time::Duration;

const STEP: Duration = Duration::from_secs(6);

fn debounced(payload: &str) -> NewJob {
    let quiet = Debounce::new(Span(10_000)).at_latest(Span(25_000));
    let (on_conflict, key_until) = (OnConflict::Debounce(quiet), KeyUntil::Started);
    NewJob { key: Some("k".into()), on_conflict, key_until, ..NewJob::new(payload.as_bytes()) }
}

#[tokio::test(start_paused = true)]
async fn many_pushes_become_one_job_that_runs_once_they_have_stopped() {
    let bench = Bench::new().await;
    let begin = bench.engine.now();
    let first = bench.try_push(debounced("0")).await.unwrap();
    assert_eq!((first.outcome, first.job.due_at), (PushOutcome::Created, Timestamp(begin + 10_000)));
    for (payload, due_ms) in [("6", 16_000), ("12", 22_000), ("18", 25_000), ("24", 25_000)] {
        pass(STEP).await;
        let pushed = bench.try_push(debounced(payload)).await.unwrap();
        assert_eq!((pushed.outcome, pushed.job.id), (PushOutcome::Replaced, first.job.id));
        assert_eq!(pushed.job.due_at, Timestamp(begin + due_ms), "after the push at {payload} s");
    }
    assert!(bench.reserve(2, Duration::ZERO).await.is_empty());
    pass(Duration::from_secs(1)).await;
    assert_eq!(&*bench.lease().await.job.payload, b"24");
    // While it runs, its key is free.
    let next = bench.try_push(debounced("25")).await.unwrap();
    assert_eq!((next.outcome, next.job.due_at), (PushOutcome::Created, Timestamp(begin + 35_000)));
}

/// Whoever is last, there is one job, and it is not postponed beyond its limit.
#[tokio::test(start_paused = true)]
async fn pushes_at_the_same_moment_become_one_job() {
    let bench = Bench::new().await;
    let begin = bench.engine.now();
    let first = bench.push(debounced("first")).await;
    for _ in 0..4 {
        pass(STEP).await;
        let payloads: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        let push = |payload: &String| {
            let (engine, job) = (bench.engine.clone(), debounced(payload));
            tokio::spawn(async move { engine.push(vec![job]).await.unwrap().remove(0).unwrap().job.id })
        };
        let pushes: Vec<_> = payloads.iter().map(push).collect();
        for pushed in pushes {
            assert_eq!(pushed.await.unwrap(), first.id);
        }
    }
    pass(Duration::from_millis(begin + 25_000 - bench.engine.now())).await;
    assert_eq!(bench.lease().await.job.id, first.id);
}

#[tokio::test(start_paused = true)]
async fn what_contradicts_itself_is_refused() {
    let bench = Bench::new().await;
    let with = |debounce| NewJob { on_conflict: OnConflict::Debounce(debounce), ..debounced("x") };
    for (job, field) in [
        (NewJob { key: None, ..debounced("x") }, "key"),
        (NewJob { due: Due::After(Span(1)), ..debounced("x") }, "delay"),
        (with(Debounce::new(Span(0))), "on_conflict.debounce"),
        (with(Debounce::new(Span(9)).at_latest(Span(8))), "on_conflict.at_latest"),
        (with(Debounce::new(Span(9)).at_latest(Span(u64::MAX))), "on_conflict.at_latest"),
    ] {
        match bench.try_push(job).await {
            Err(Error::Invalid(invalid)) => assert_eq!(invalid.what, field),
            pushed => panic!("{pushed:?}"),
        }
    }
}
