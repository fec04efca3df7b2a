//! Failed attempts, crashes, releases and exhausted jobs.

use super::fixture::{Bench, job, pass, request};
use duetime_core::api::Span;
use duetime_core::engine::{Outcome, QueueSettings, ReserveRequest, Source};
use duetime_core::limits::{HOUR_MS, MOVES_MAX};
use duetime_core::rules::{Failure, Park};
use duetime_core::{
    Backoff, Due, Error, Job, JobOptions, NewJob, Retry, Schedule, Stage, State, Timing, WhenExhausted,
};
use std::sync::Arc;
use std::time::Duration;

fn fail(message: &str) -> Outcome {
    Outcome::Fail(Failure { message: message.into(), ..Failure::default() })
}

#[tokio::test(start_paused = true)]
async fn a_failed_job_runs_again_by_its_steps_and_then_is_a_dead_letter() {
    let bench = Bench::new().await;
    let backoff = Some(Backoff::Steps(vec![Span(15_000), Span(30_000)]));
    let retry = Retry { backoff, jitter: Some(0.0), ..Retry::default() };
    let pushed = bench.push(NewJob { options: retry.into(), ..job() }).await;
    for (attempt, wait) in [(1, 15), (2, 30)] {
        let lease = bench.lease().await;
        assert_eq!(lease.job.attempt, attempt);
        assert_eq!(bench.settle(&lease, fail("busy")).await.unwrap(), State::Scheduled);
        pass(Duration::from_millis(wait * 1_000 - 1)).await;
        assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
        pass(Duration::from_millis(1)).await;
    }
    let lease = bench.lease().await;
    assert_eq!(bench.settle(&lease, fail("still busy")).await.unwrap(), State::Failed);
    let job = bench.engine.job(pushed.id).await.unwrap();
    assert_eq!(job.message.as_deref(), Some("still busy"));
    let attempts: Vec<(u32, &str)> = job.errors.iter().map(|error| (error.attempt, &*error.message)).collect();
    assert_eq!(attempts, [(1, "busy"), (2, "busy"), (3, "still busy")]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_is_a_crash_and_its_receipt_is_stale() {
    let bench = Bench::new().await;
    let pushed = bench.push(NewJob { lease: Some(Span(1_000)), ..job() }).await;
    let first = bench.lease().await;
    pass(Duration::from_millis(1_600)).await;
    let second = bench.lease().await;
    assert_eq!((second.job.id, second.job.attempt, second.job.crashes), (pushed.id, 2, 1));
    assert!(second.job.epoch > first.job.epoch);
    assert_eq!(bench.complete(&first).await.unwrap_err(), Error::LeaseLost(first.job.receipt()));
    assert_eq!(bench.complete(&second).await.unwrap(), State::Succeeded);
    assert_eq!(bench.complete(&second).await.unwrap(), State::Succeeded, "the reply may have been lost");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_takes_its_workers_down_is_given_up_at_the_fifth_crash() {
    let bench = Bench::new().await;
    let pushed = bench.push(NewJob { lease: Some(Span(1_000)), ..job() }).await;
    for _ in 0..5 {
        bench.lease().await;
        pass(Duration::from_millis(1_600)).await;
    }
    assert_eq!(bench.state(pushed.id).await, State::Failed);
    assert!(bench.engine.job(pushed.id).await.unwrap().errors.iter().all(|error| error.crashed));
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_count() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    let lease = bench.lease().await;
    assert_eq!(bench.settle(&lease, Outcome::release(Span(0))).await.unwrap(), State::Ready);
    let lease = bench.lease().await;
    assert_eq!(lease.job.attempt, 1);
    assert_eq!(bench.settle(&lease, Outcome::release(Span(5_000))).await.unwrap(), State::Scheduled);
    pass(Duration::from_secs(5)).await;
    assert_eq!(bench.lease().await.job.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_put_off_again_and_again_ends_at_its_age() {
    let bench = Bench::new().await;
    let when_exhausted = Some(WhenExhausted::Move("old".into()));
    let retry = Retry { max_age: Some(Span(12_000)), when_exhausted, ..Retry::default() };
    let id = bench.push(NewJob { options: retry.into(), ..job() }).await.id;
    let put_off = || async { bench.settle(&bench.lease().await, Outcome::release(Span(5_000))).await.unwrap() };
    for _ in 0..2 {
        assert_eq!(put_off().await, State::Scheduled);
        pass(Duration::from_secs(5)).await;
    }
    assert_eq!(put_off().await, State::Failed);
    let errors = bench.engine.job(id).await.unwrap().errors;
    assert!(errors[0].message.contains("`max_age`"), "{errors:?}");
    assert_eq!(bench.queue("old").await.counts.ready, 1);
}

/// As fast as a worker that does nothing else, or one that stops.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_released_at_once_again_and_again_ends_at_its_age() {
    let bench = Bench::new().await;
    let retry = Retry { max_age: Some(Span(12_000)), ..Retry::default() };
    let id = bench.push(NewJob { options: retry.into(), ..job() }).await.id;
    for releases in 1..=12 {
        let state = bench.settle(&bench.lease().await, Outcome::release(Span(0))).await.unwrap();
        let job = bench.engine.job(id).await.unwrap();
        assert_eq!((state, job.releases(), job.attempt), (State::Ready, releases, 0));
        pass(Duration::from_secs(1)).await;
    }
    pass(Duration::from_millis(1)).await;
    drop(bench.engine.reserve_unclaimed(request(1, Duration::ZERO)).await.unwrap());
    pass(Duration::from_millis(1)).await;
    assert_eq!(bench.engine.job(id).await.unwrap().releases(), 12, "nobody has had it");
    assert_eq!(bench.settle(&bench.lease().await, Outcome::release(Span(0))).await.unwrap(), State::Failed);
    let errors = bench.engine.job(id).await.unwrap().errors;
    assert!(errors[0].message.contains("`max_age`"), "{errors:?}");
}

#[tokio::test(start_paused = true)]
async fn exhausted_jobs_are_dropped_moved_or_start_over() {
    let bench = Bench::new().await;
    let with = |when_exhausted| {
        let retry = Retry { max_attempts: Some(1), when_exhausted: Some(when_exhausted), ..Retry::default() };
        NewJob { options: retry.into(), tags: vec!["t".into()], ..job() }
    };
    let dropped = bench.push(with(WhenExhausted::Drop)).await;
    bench.settle(&bench.lease().await, fail("no")).await.unwrap();
    assert_eq!(bench.engine.job(dropped.id).await.unwrap_err(), Error::NotFound(dropped.id));

    let moved = bench.push(with(WhenExhausted::Move("dead".into()))).await;
    bench.settle(&bench.lease().await, fail("no")).await.unwrap();
    assert_eq!(bench.state(moved.id).await, State::Failed);
    let copies = bench.ledger.jobs().into_iter().filter(|job| &*job.queue == "dead").collect::<Vec<_>>();
    assert_eq!((copies.len(), copies[0].payload.clone()), (1, moved.payload));
    assert_eq!(bench.queue("dead").await.counts.ready, 1);

    let restarted = bench.push(with(WhenExhausted::Restart)).await;
    bench.settle(&bench.lease().await, fail("no")).await.unwrap();
    let job = bench.engine.job(restarted.id).await.unwrap();
    assert_eq!((job.state(bench.engine.now()), job.attempt), (State::Scheduled, 0));
}

/// The error says so, even if some of the moves were made by targets.
#[tokio::test(start_paused = true)]
async fn a_circle_of_queues_ends() {
    let bench = Bench::new().await;
    for (queue, next) in [("a", "b"), ("b", "c"), ("c", "a")] {
        let when_exhausted = Some(WhenExhausted::Move(next.into()));
        let retry = Retry { max_attempts: Some(1), when_exhausted, ..Retry::default() };
        bench.engine.configure(queue, QueueSettings::default().with_rule(retry)).await.unwrap();
    }
    bench.push(NewJob { queue: "a".into(), ..job() }).await;
    let queues = ["a", "b", "c"].map(Arc::from);
    let mut failures = 0;
    loop {
        let request = ReserveRequest { from: Source::Queues(queues.to_vec()), ..request(9, Duration::ZERO) };
        let Some(lease) = bench.engine.reserve(request).await.unwrap().leases.pop() else { break };
        assert_eq!(lease.job.options().moves, failures);
        failures += 1;
        bench.settle(&lease, fail("no")).await.unwrap();
    }
    assert_eq!(failures, MOVES_MAX + 1);
    let jobs = bench.ledger.jobs();
    assert!(jobs.iter().all(|job| job.stage == Stage::Failed));
    let last = jobs.iter().max_by_key(|job| job.options().moves).unwrap();
    assert!(last.message.as_ref().unwrap().contains("form a circle"), "{:?}", last.message);
    assert_eq!(&*last.errors[0].message, "no");
}

/// It would spin as fast as its jobs fail.
#[tokio::test(start_paused = true)]
async fn no_rule_moves_jobs_to_their_own_queue() {
    let bench = Bench::new().await;
    let retry = Retry { when_exhausted: Some(WhenExhausted::Move("default".into())), ..Retry::default() };
    let wrong = NewJob { options: retry.clone().into(), ..job() };
    let pushed = bench.push(job()).await;
    let imported = Job { options: JobOptions::from(retry.clone()).shared(), ..pushed };
    let every = Schedule::new(Timing::Every(Span(10_000)), wrong.clone());
    let settings = QueueSettings::default().with_rule(retry.clone());
    let refused = [
        bench.try_push(wrong).await.map(drop),
        bench.engine.set_schedule("s", every).await.map(drop),
        bench.engine.import(vec![imported]).await.unwrap().remove(0).map(drop),
        bench.engine.configure("default", settings.clone()).await.map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(&error, Error::Invalid(invalid) if invalid.what == "when_exhausted.move"), "{error}");
    }
    bench.engine.configure("other", settings).await.unwrap();
    bench.push(NewJob { queue: "other".into(), options: retry.into(), ..job() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_not_started_in_time_fails_and_is_not_handed_out() {
    let bench = Bench::new().await;
    let pushed = bench.push(NewJob { due: Due::After(Span(1_000)), expires: Some(Span(500)), ..job() }).await;
    pass(Duration::from_millis(1_501)).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    pass(Duration::from_secs(1)).await;
    let job = bench.engine.job(pushed.id).await.unwrap();
    assert_eq!(job.state(0), State::Failed);
    assert!(job.message.unwrap().starts_with("expired"));
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_is_away_refuses_pushes_and_keeps_outcomes_until_it_is_back() {
    let bench = Bench::new().await;
    let pushed = bench.push(job()).await;
    let waiting = bench.push(NewJob { due: Due::After(Span(1_000)), ..job() }).await;
    let lease = bench.lease().await;
    bench.ledger.set_away(true);
    assert_eq!(bench.engine.push(vec![job()]).await.unwrap_err().code(), "store_unavailable");
    let settlement = bench.engine.settle(vec![(lease.job.receipt(), Outcome::complete(None))]).await;
    assert_eq!(settlement[0].as_ref().unwrap_err().code(), "store_unavailable", "it is in memory only");
    assert_eq!(bench.state(pushed.id).await, State::Succeeded);
    assert_eq!(bench.engine.health().backlog, 1);
    assert!(!bench.engine.health().degraded.is_empty());
    let cancel = bench.engine.cancel(vec![waiting.id.into()]).await.pop().unwrap();
    assert_eq!(cancel.unwrap_err().code(), "store_unavailable", "it could come back after a crash");

    bench.ledger.set_away(false);
    pass(Duration::from_secs(3)).await;
    pass(Duration::from_secs(3)).await;
    assert_eq!(bench.engine.health().backlog, 0);
    let rows = bench.ledger.jobs();
    assert!(rows.iter().any(|row| row.id == pushed.id && row.state(0) == State::Succeeded));
}

/// The outcomes count, but a process that died now would forget them.
#[tokio::test(start_paused = true)]
async fn an_outcome_is_answered_once_it_is_recorded() {
    let outcomes = [
        (Outcome::complete(None), State::Succeeded),
        (Outcome::Fail(Failure { is_final: true, ..Failure::default() }), State::Failed),
        (Outcome::Fail(Failure::default()), State::Scheduled),
        (Outcome::release(Span(HOUR_MS)), State::Scheduled),
        (Outcome::Park(Park::default()), State::Failed),
    ];
    for is_drained in [true, false] {
        for (outcome, state) in outcomes.clone() {
            let bench = Bench::new().await;
            let id = bench.push(job()).await.id;
            let lease = bench.lease().await;
            bench.ledger.set_away(true);
            for _ in 0..3 {
                assert_eq!(bench.settle(&lease, outcome.clone()).await.unwrap_err().code(), "store_unavailable");
            }
            assert_eq!(bench.state(id).await, state, "it is kept");
            bench.ledger.set_away(false);
            if is_drained {
                pass(Duration::from_secs(5)).await;
                assert_eq!(bench.engine.health().backlog, 0);
            }
            for _ in 0..2 {
                assert_eq!(bench.settle(&lease, outcome.clone()).await.unwrap(), state, "{outcome:?}");
            }
            let (rows, stage) = (bench.ledger.jobs(), bench.engine.job(id).await.unwrap().stage);
            assert_eq!((rows[0].stage, rows[0].epoch), (stage, lease.job.epoch), "{outcome:?}");
            let other = Outcome::release(Span(0));
            if !matches!(outcome, Outcome::Release(_)) {
                assert!(matches!(bench.settle(&lease, other).await, Err(Error::LeaseLost(_))));
            }
        }
    }
}
