//! Why a job does not run.

use super::fixture::{Bench, job, pass};
use duetime_core::api::{ReasonCode, Span, Timestamp};
use duetime_core::engine::Pause;
use duetime_core::engine::{JobRef, Options, QueueSettings};
use duetime_core::limits::{HOUR_MS, LEASE_MS_DEFAULT};
use duetime_core::ports::{Ledger, Rate};
use duetime_core::rules::Failure;
use duetime_core::testing::{ModelLedger, TokioClock};
use duetime_core::{Due, JobId, NewJob, State};
use std::sync::Arc;
use std::time::Duration;

impl Bench {
    /// The reasons, and their ends from now on.
    async fn why(&self, id: JobId) -> Vec<(ReasonCode, Option<u64>)> {
        let why = self.engine.why(id).await.unwrap();
        let now = self.engine.now();
        for reason in &why.reasons {
            assert!(reason.detail.ends_with('.'), "{why:?}");
            let has_number = |number: u64| reason.detail.contains(&number.to_string());
            assert!([reason.count, reason.limit].into_iter().flatten().all(has_number), "{why:?}");
            assert_eq!(reason.limit.is_some(), reason.code == ReasonCode::MaxRunning, "{why:?}");
            assert_eq!(reason.since.is_some(), reason.code == ReasonCode::NoWorker, "{why:?}");
        }
        why.reasons.iter().map(|reason| (reason.code, reason.until.map(|Timestamp(at)| at - now))).collect()
    }

    async fn asks(&self) {
        assert!(self.reserve(1, Duration::ZERO).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_runs_and_ends() {
    let bench = Bench::new().await;
    let later = bench.push(NewJob { due: Due::After(Span(HOUR_MS)), ..job() }).await;
    assert_eq!(bench.why(later.id).await, [(ReasonCode::NotDue, Some(HOUR_MS))]);
    bench.asks().await;
    let id = bench.push(job()).await.id;
    assert_eq!(bench.why(id).await, [], "a worker asked a moment ago");
    let lease = bench.lease().await;
    assert_eq!(bench.why(id).await, [(ReasonCode::Running, Some(LEASE_MS_DEFAULT))]);
    bench.engine.cancel(vec![JobRef::from(id)]).await.remove(0).unwrap();
    let why = bench.engine.why(id).await.unwrap();
    assert!(why.reasons[0].detail.contains("asked to stop"), "{why:?}");
    bench.complete(&lease).await.unwrap();
    let why = bench.engine.why(id).await.unwrap();
    assert_eq!((why.id, &*why.queue, why.state), (id, "default", State::Succeeded));
    assert_eq!((why.version, why.reasons[0].code), (bench.engine.job(id).await.unwrap().version, ReasonCode::Finished));
    let unknown = JobId::new(7).unwrap();
    assert_eq!(bench.engine.why(unknown).await.unwrap_err().code(), "not_found");

    let retried = bench.push(job()).await.id;
    let lease = bench.lease().await;
    let fail = duetime_core::engine::Outcome::Fail(Failure { message: "no".into(), ..Failure::default() });
    bench.settle(&lease, fail).await.unwrap();
    let why = bench.engine.why(retried).await.unwrap();
    assert!(why.reasons[0].detail.ends_with("Attempts so far: 1. The last one failed: no."), "{why:?}");
    assert_eq!(why.reasons[0].count, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_queue_with_a_target_that_nobody_delivers_to_is_told() {
    let bench = Bench::new().await;
    let target = Some("https://a.example/x".parse().unwrap());
    bench.engine.configure("default", QueueSettings { target, ..QueueSettings::default() }).await.unwrap();
    let id = bench.push(job()).await.id;
    assert_eq!(bench.why(id).await, [(ReasonCode::NoWorker, None)]);
    let why = bench.engine.why(id).await.unwrap();
    assert!(why.reasons[0].detail.contains("go to a target"), "{why:?}");
    assert_eq!(bench.lease().await.job.id, id);
    let next = bench.push(job()).await.id;
    assert_eq!(bench.why(next).await, [], "a delivery asked a moment ago");
}

#[tokio::test(start_paused = true)]
async fn settings_of_the_queue_hold_jobs_back() {
    let bench = Bench::new().await;
    let engine = &bench.engine;
    bench.asks().await;
    let id = bench.push(job()).await.id;
    let later = bench.push(NewJob { due: Due::After(Span(HOUR_MS)), ..job() }).await.id;
    engine.pause("default", Pause::Until(Timestamp(engine.now() + 5_000))).await.unwrap();
    assert_eq!(bench.why(id).await, [(ReasonCode::Paused, Some(5_000))]);
    assert_eq!(bench.why(later).await, [(ReasonCode::NotDue, Some(HOUR_MS)), (ReasonCode::Paused, Some(5_000))]);
    engine.pause("default", Pause::UntilResumed).await.unwrap();
    assert_eq!(bench.why(id).await, [(ReasonCode::Paused, None)]);
    engine.resume("default").await.unwrap();

    let limited = QueueSettings { max_running: Some(1), ..QueueSettings::default() };
    engine.configure("default", limited).await.unwrap();
    assert_eq!(bench.why(id).await, []);
    let lease = bench.lease().await;
    let behind = bench.push(job()).await.id;
    assert_eq!(bench.why(behind).await, [(ReasonCode::MaxRunning, None)]);
    bench.complete(&lease).await.unwrap();

    let rate = Some(Rate { per_second: 0.5, burst: Some(1) });
    engine.configure("default", QueueSettings { rate, ..QueueSettings::default() }).await.unwrap();
    assert_eq!(bench.why(behind).await, []);
    let lease = bench.lease().await;
    let behind = bench.push(job()).await.id;
    assert_eq!(bench.why(behind).await, [(ReasonCode::Rate, Some(2_000))]);
    // Asking why does not use up the rate.
    pass(Duration::from_millis(2_000)).await;
    assert_eq!(bench.why(behind).await, []);
    bench.complete(&lease).await.unwrap();
    assert_eq!(bench.lease().await.job.id, behind);
}

#[tokio::test(start_paused = true)]
async fn a_queue_may_have_no_worker() {
    let bench = Bench::new().await;
    let since = Timestamp(bench.engine.now());
    let id = bench.push(job()).await.id;
    let why = bench.engine.why(id).await.unwrap();
    assert_eq!(why.reasons[0].code, ReasonCode::NoWorker);
    assert!(why.reasons[0].detail.contains(&since.to_string()), "{why:?}");
    bench.lease().await;
    bench.engine.cancel(vec![JobRef::from(id)]).await.remove(0).unwrap();
    let behind = bench.push(job()).await.id;
    pass(Duration::from_secs(59)).await;
    assert_eq!(bench.why(behind).await, [], "a worker is busy");
    bench.engine.purge("default").await.unwrap();
    let waiter = bench.waiter(Duration::from_secs(60)).await;
    pass(Duration::from_secs(50)).await;
    waiter.abort();
    assert!(waiter.await.is_err());
    // One that took a job asked, too.
    let taken = bench.push(job()).await.id;
    let take = duetime_core::engine::TakeRequest {
        from: duetime_core::engine::Source::Queues(vec!["taken".into()]),
        limit: 1,
        due_from: None,
        due_to: None,
        request_id: None,
    };
    bench.engine.take(take).await.unwrap();
    let elsewhere = bench.push(NewJob { queue: "taken".into(), ..job() }).await.id;
    assert_eq!(bench.why(elsewhere).await, []);
    pass(Duration::from_secs(61)).await;
    for id in [taken, elsewhere] {
        assert_eq!(bench.why(id).await, [(ReasonCode::NoWorker, None)]);
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_outcomes_may_wait_to_be_recorded() {
    let options = Options { backlog_max: 1, ..Options::default() };
    let bench = Bench::over_with(ModelLedger::default(), Arc::new(TokioClock::new()), options).await;
    let [running, waiting] = [bench.push(job()).await, bench.push(job()).await];
    let lease = bench.lease_first().await;
    assert_eq!(lease.job.id, running.id);
    bench.ledger.set_away(true);
    bench.complete(&lease).await.unwrap_err();
    assert_eq!(bench.why(waiting.id).await, [(ReasonCode::Backlog, None)]);
    bench.ledger.set_away(false);
    pass(Duration::from_secs(3)).await;
    pass(Duration::from_secs(3)).await;
    assert_eq!(bench.why(waiting.id).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_job_may_wait_in_the_ledger() {
    let options = Options { memory_max: Some(10_000), ..Options::default() };
    let bench = Bench::over_with(ModelLedger::default(), Arc::new(TokioClock::new()), options).await;
    bench.asks().await;
    let mut last = bench.push(job()).await;
    for _ in 0..100 {
        last = bench.push(job()).await;
    }
    assert_eq!(bench.why(last.id).await, [(ReasonCode::Overflow, None)]);

    let bench = Bench::new().await;
    bench.asks().await;
    let row = duetime_core::Job { id: JobId::new(5).unwrap(), ..bench.push(job()).await };
    bench.ledger.record(vec![row], bench.engine.now() + HOUR_MS).await.unwrap();
    assert_eq!(bench.why(JobId::new(5).unwrap()).await, [(ReasonCode::NotLoaded, None)]);
}
