//! Jobs that are set aside, or given back with another priority; and rules of kinds.

use super::fixture::{Bench, job};
use duetime_core::api::Span;
use duetime_core::engine::{Ending, Options, Outcome};
use duetime_core::limits::DAY_MS;
use duetime_core::model::marks::Marks;
use duetime_core::ports::{Change, Update};
use duetime_core::rules::{Failure, Park, Release};
use duetime_core::testing::{ModelLedger, TokioClock};
use duetime_core::{Due, Error, JobRef, NewJob, Retry, State};
use std::sync::Arc;
use std::time::Duration;

fn park(message: &str) -> Outcome {
    Outcome::Park(Park { message: message.into(), priority: Some(3) })
}

#[tokio::test(start_paused = true)]
async fn a_parked_job_is_kept_until_somebody_retries_it() {
    let bench = Bench::new().await;
    let id = bench.push(job()).await.id;
    let lease = bench.lease().await;
    for _ in 0..2 {
        assert_eq!(bench.settle(&lease, park("no stamps")).await, Ok(State::Failed), "also if it is repeated");
    }
    let parked = bench.engine.job(id).await.unwrap();
    assert_eq!((parked.message.as_deref(), parked.finished_at, parked.priority), (Some("no stamps"), None, 3));
    assert_eq!((parked.attempt, parked.errors.len()), (1, 0));
    // Beyond the retention of failed jobs.
    super::fixture::pass(Duration::from_millis(400 * DAY_MS)).await;
    assert_eq!(bench.state(id).await, State::Failed);
    let retried = bench.engine.retry(vec![id.into()]).await.remove(0).unwrap();
    assert_eq!((retried.state(bench.engine.now()), retried.attempt), (State::Ready, 0));
    assert_eq!(bench.lease().await.job.priority, 3);
}

#[tokio::test(start_paused = true)]
async fn a_release_may_change_the_priority() {
    let bench = Bench::new().await;
    let urgent = bench.push(NewJob { priority: 5, ..job() }).await.id;
    let other = bench.push(job()).await.id;
    let lease = bench.lease_first().await;
    assert_eq!(lease.job.id, urgent);
    let release = Outcome::Release(Release { delay: Span(0), priority: Some(u32::MAX) });
    assert_eq!(bench.settle(&lease, release).await, Ok(State::Ready));
    assert_eq!(bench.lease_first().await.job.id, other);
    let last = bench.lease().await.job;
    assert_eq!((last.id, last.priority, last.attempt, last.releases()), (urgent, u32::MAX, 1, 1));
    assert_eq!(&*last.payload, b"payload");
}

#[tokio::test(start_paused = true)]
async fn a_reason_has_a_length() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    let lease = bench.lease().await;
    let error = bench.settle(&lease, park(&"m".repeat((64 << 10) + 1))).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains("message"), "{error}");
    assert_eq!(bench.settle(&lease, park(&"m".repeat(64 << 10))).await, Ok(State::Failed));
}

/// With a release or a park of a port, and with each change that it makes.
#[tokio::test(start_paused = true)]
async fn a_port_keeps_numbers_with_a_job() {
    let bench = Bench::new().await;
    let marks = |n: u64| Marks::from_iter([("parks", n)]).shared();
    let id = bench.push(NewJob { due: Due::After(Span(60_000)), ..job() }).await.id;
    let of = async || bench.engine.job(id).await.unwrap();
    let change = async |change| {
        let target = JobRef { id, version: Some(of().await.version) };
        bench.engine.change_each(vec![(target, change)]).await.remove(0).unwrap()
    };
    let now = Update { due_at: Some(bench.engine.now()), marks: marks(1), ..Update::default() };
    let started = change(Change::Update(now)).await;
    assert_eq!((started.state(bench.engine.now()), started.options().marks.clone()), (State::Ready, marks(1)));
    let end = async |ending: Ending| {
        let receipt = bench.lease().await.job.receipt();
        bench.engine.end_leases(vec![(receipt, ending)]).await.remove(0).unwrap().state
    };
    assert_eq!(end(Ending::Return(Release::default(), marks(2))).await, State::Ready);
    assert_eq!((of().await.options().marks.clone(), of().await.attempt), (marks(2), 1), "the attempt counts");
    assert_eq!(end(Ending::Abandoned).await, State::Ready);
    assert_eq!((of().await.options().marks.clone(), of().await.releases()), (marks(2), 1));
    assert_eq!(end(Ending::Park(Park::default(), marks(3))).await, State::Failed);
    assert_eq!((of().await.options().marks.clone(), of().await.message.as_deref()), (marks(3), Some("parked")));
    let retried = change(Change::Retry { after: Span(0), keeps_attempts: true, marks: marks(4) }).await;
    assert_eq!((retried.attempt, retried.releases(), retried.options().marks.clone()), (3, 1, marks(4)));
    assert_eq!(end(Ending::Outcome(Outcome::release(Span(0)))).await, State::Ready);
    assert_eq!(of().await.options().marks, marks(4), "a worker leaves them");
}

/// Below the rules of the job and of its queue.
#[tokio::test(start_paused = true)]
async fn a_kind_has_a_rule_of_its_own() {
    static RULES: [(&str, Retry); 1] = [("tireless", Retry { max_attempts: Some(0), ..Retry::INHERITED })];
    let options = Options { kind_rules: &RULES, ..Options::default() };
    let bench = Bench::over_with(ModelLedger::default(), Arc::new(TokioClock::new()), options).await;
    let limited = Retry { max_attempts: Some(2), ..Retry::default() };
    let attempts = async |kind: &str, retry: Retry| {
        let id = bench.push(NewJob { kind: kind.into(), options: retry.into(), ..job() }).await.id;
        for attempt in 1..=20 {
            let at_once = Outcome::Fail(Failure { retry_after: Some(Span(0)), ..Failure::default() });
            if bench.settle(&bench.lease().await, at_once).await == Ok(State::Failed) {
                return attempt;
            }
        }
        bench.engine.delete(vec![id.into()]).await.remove(0).unwrap();
        0
    };
    assert_eq!(attempts("default", Retry::INHERITED).await, 16);
    assert_eq!(attempts("tireless", Retry::INHERITED).await, 0, "no limit");
    assert_eq!(attempts("tireless", limited.clone()).await, 2);
    let settings = duetime_core::engine::QueueSettings { max_attempts: Some(3), ..Default::default() };
    bench.engine.configure("default", settings).await.unwrap();
    assert_eq!(attempts("tireless", Retry::INHERITED).await, 3);
}
