//! Jobs that begin when another one ends.

use super::fixture::{Bench, job, moves_to, pass, request};
use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::{BulkAction, Outcome, Query, TakeRequest};
use duetime_core::limits::{CHAIN_JOBS_MAX, FOLLOW_UPS_MAX};
use duetime_core::rules::{Failure, Park};
use duetime_core::{Due, Error, FollowUp, Job, JobId, JobOptions, NewJob, Retry, State};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

fn named(kind: &str) -> NewJob {
    NewJob { kind: kind.into(), queue: "next".into(), ..job() }
}

fn list(jobs: &[NewJob]) -> Option<std::sync::Arc<[FollowUp]>> {
    Some(jobs.iter().map(FollowUp::from).collect())
}

/// A job with one attempt, which leads to `then` or to `otherwise`.
fn leading() -> NewJob {
    let options = JobOptions {
        then: list(&[named("then")]),
        otherwise: list(&[named("otherwise")]),
        ..Retry { max_attempts: Some(1), ..Retry::default() }.into()
    };
    NewJob { options, ..job() }
}

/// The kinds of the jobs that have begun so far, oldest first.
async fn begun(bench: &Bench) -> Vec<String> {
    let query = Query { queue: Some("next".into()), ..Query::default() };
    let mut jobs = bench.engine.find(&query, None, 100).await.unwrap().jobs;
    jobs.sort_by_key(|job| job.id);
    jobs.iter().map(|job| job.kind.to_string()).collect()
}

async fn next(bench: &Bench) -> Job {
    let request = duetime_core::engine::ReserveRequest::new("next");
    let mut leases = bench.engine.reserve(request).await.unwrap().leases;
    assert_eq!(leases.len(), 1);
    leases.remove(0).job
}

#[tokio::test(start_paused = true)]
async fn success_begins_what_is_named_for_it_with_its_result() {
    let bench = Bench::new().await;
    let later = NewJob { due: Due::After(Span(60_000)), ..named("later") };
    let then = list(&[named("then"), later]);
    let pushed = bench.push(NewJob { options: JobOptions { then, ..JobOptions::default() }, ..job() }).await;
    pass(HOUR).await;
    let lease = bench.lease().await;
    assert!(begun(&bench).await.is_empty());
    let result = Some(b"{\"paid\": true}"[..].into());
    bench.settle(&lease, Outcome::complete(result)).await.unwrap();
    assert_eq!(begun(&bench).await, ["then", "later"]);
    let first = next(&bench).await;
    let previous = first.options().previous.as_ref().unwrap();
    assert_eq!((previous.id, &*previous.queue, previous.state), (pushed.id, "default", State::Succeeded));
    assert_eq!(previous.result_bytes(), Some(&b"{\"paid\": true}"[..]));
    let query = Query { queue: Some("next".into()), kind: Some("later".into()), ..Query::default() };
    let later = bench.engine.find(&query, None, 1).await.unwrap().jobs.remove(0);
    assert_eq!(later.due_at, Timestamp(bench.engine.now() + 60_000), "its delay begins with the end");
    // A repeat of the end makes none again.
    assert_eq!(bench.settle(&lease, Outcome::complete(None)).await.unwrap(), State::Succeeded);
    assert_eq!(begun(&bench).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_worker_adds_jobs_to_an_end_once() {
    let bench = Bench::new().await;
    let done = |then: &[NewJob]| Outcome::Complete { result: None, then: list(then) };
    bench.push(leading()).await;
    let lease = bench.lease().await;
    // What is refused ends nothing.
    for (then, field) in [
        (vec![NewJob { origin: Some("o".into()), ..named("a") }], "then[0].origin"),
        (vec![named("a"), NewJob { due: Due::After(Span(u64::MAX)), ..named("b") }], "then[1].delay_ms"),
        (vec![named("a"); FOLLOW_UPS_MAX + 1], "then"),
    ] {
        match bench.settle(&lease, done(&then)).await {
            Err(Error::Invalid(invalid)) => assert_eq!(invalid.what, field),
            settled => panic!("{settled:?}"),
        }
    }
    for _ in 0..2 {
        assert_eq!(bench.settle(&lease, done(&[named("added")])).await.unwrap(), State::Succeeded);
    }
    assert_eq!(begun(&bench).await, ["then", "added"]);
    // A job that leads to nothing by itself; the queue is that of the job by default.
    let first = bench.push(job()).await;
    let lease = bench.lease().await;
    let unnamed: FollowUp = serde_json::from_str(r#"{"payload": 1}"#).unwrap();
    bench.settle(&lease, Outcome::Complete { result: None, then: Some([unnamed].into()) }).await.unwrap();
    let added = bench.lease().await.job;
    assert_eq!((&added.queue, added.options().previous.as_ref().unwrap().id), (&first.queue, first.id));
}

/// The job has ended so, and that has begun the other one.
async fn otherwise(bench: &Bench, state: State, id: JobId) {
    assert_eq!((bench.state(id).await, begun(bench).await), (state, vec!["otherwise".to_owned()]));
    let previous = next(bench).await.options().previous.clone().unwrap();
    assert_eq!((previous.id, previous.state), (id, state));
}

#[tokio::test(start_paused = true)]
async fn every_other_end_begins_what_is_named_for_that() {
    // It fails for good.
    let bench = Bench::new().await;
    let id = bench.push(leading()).await.id;
    let lease = bench.lease().await;
    bench.settle(&lease, Outcome::Fail(Failure::new("no"))).await.unwrap();
    let row = bench.engine.job(id).await.unwrap();
    assert_eq!(row.message.as_deref(), Some("no"));
    otherwise(&bench, State::Failed, id).await;
    // It crashes for good.
    let bench = Bench::new().await;
    let id = bench.push(NewJob { lease: Some(Span(1_000)), ..leading() }).await.id;
    bench.lease().await;
    pass(Duration::from_secs(5)).await;
    otherwise(&bench, State::Failed, id).await;
    // It is cancelled while it waits, near or far, or while it runs.
    for due in [Due::Now, Due::After(Span(10 * 3_600_000))] {
        let bench = Bench::new().await;
        let id = bench.push(NewJob { due, ..leading() }).await.id;
        bench.engine.cancel(vec![id.into()]).await.pop().unwrap().unwrap();
        otherwise(&bench, State::Cancelled, id).await;
    }
    let bench = Bench::new().await;
    let id = bench.push(leading()).await.id;
    let lease = bench.lease().await;
    bench.engine.cancel(vec![id.into()]).await.pop().unwrap().unwrap();
    bench.settle(&lease, Outcome::release(Span(0))).await.unwrap();
    otherwise(&bench, State::Cancelled, id).await;
    // It is not started in time.
    let bench = Bench::new().await;
    let id = bench.push(NewJob { expires: Some(Span(1_000)), ..leading() }).await.id;
    pass(Duration::from_secs(3)).await;
    otherwise(&bench, State::Failed, id).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_end_begins_nothing() {
    let bench = Bench::new().await;
    let id = bench.push(leading()).await.id;
    let lease = bench.lease().await;
    bench.settle(&lease, Outcome::release(Span(0))).await.unwrap();
    let lease = bench.lease().await;
    bench.settle(&lease, Outcome::Park(Park::default())).await.unwrap();
    assert_eq!((bench.state(id).await, begun(&bench).await), (State::Failed, vec![]));
    // Retried by hand it ends again, and in another way.
    bench.engine.retry(vec![id.into()]).await.pop().unwrap().unwrap();
    let lease = bench.lease().await;
    bench.settle(&lease, Outcome::Fail(Failure::default())).await.unwrap();
    assert_eq!(begun(&bench).await, ["otherwise"]);
    bench.engine.retry(vec![id.into()]).await.pop().unwrap().unwrap();
    let lease = bench.lease().await;
    bench.complete(&lease).await.unwrap();
    assert_eq!(begun(&bench).await, ["otherwise", "then"]);
    // What is deleted has not ended.
    let id = bench.push(leading()).await.id;
    bench.engine.delete(vec![id.into()]).await.pop().unwrap().unwrap();
    assert_eq!(begun(&bench).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_copy_in_another_queue_leads_to_what_its_original_would_have() {
    let bench = Bench::new().await;
    let moves = moves_to("default");
    let options = JobOptions { then: list(&[named("then")]), otherwise: list(&[named("otherwise")]), ..moves.options };
    bench.push(NewJob { options, ..moves }).await;
    let first = duetime_core::engine::ReserveRequest::new("first");
    let lease = bench.engine.reserve(first).await.unwrap().leases.remove(0);
    bench.settle(&lease, Outcome::Fail(Failure::default())).await.unwrap();
    assert!(begun(&bench).await.is_empty());
    let copy = bench.lease().await;
    bench.complete(&copy).await.unwrap();
    assert_eq!(begun(&bench).await, ["then"]);
}

#[tokio::test(start_paused = true)]
async fn a_take_is_a_success() {
    let bench = Bench::new().await;
    let id = bench.push(leading()).await.id;
    let taken = bench.engine.take(TakeRequest::new("default")).await.unwrap();
    assert_eq!(taken.leases[0].job.id, id);
    assert_eq!((bench.state(id).await, begun(&bench).await), (State::Succeeded, vec!["then".to_owned()]));
    next(&bench).await;
}

#[tokio::test(start_paused = true)]
async fn a_chain_runs_job_by_job() {
    let bench = Bench::new().await;
    let mut chain = NewJob { kind: "31".into(), ..job() };
    for n in (0..CHAIN_JOBS_MAX - 1).rev() {
        let then = list(&[chain]);
        chain = NewJob { kind: n.to_string().into(), options: JobOptions { then, ..JobOptions::default() }, ..job() };
    }
    let too_long = NewJob { options: JobOptions { then: list(&[chain.clone()]), ..JobOptions::default() }, ..job() };
    let refused = bench.try_push(too_long).await.unwrap_err().to_string();
    assert!(refused.contains("a chain of at most 32 jobs"), "{refused}");
    bench.push(chain).await;
    for n in 0..CHAIN_JOBS_MAX {
        let lease = bench.lease().await;
        assert_eq!(*lease.job.kind, *n.to_string());
        bench.complete(&lease).await.unwrap();
    }
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    let chained = bench.engine.reserve(request(1, Duration::ZERO)).await.unwrap();
    assert_eq!(chained.next_due_at, None);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_pushed_is_refused_with_its_place() {
    let bench = Bench::new().await;
    let with = |then| NewJob { options: JobOptions { then, ..JobOptions::default() }, ..job() };
    for (next, said) in [
        (vec![named("a"), NewJob { key: Some("k".into()), ..job() }], "`then[1].key` must be left out"),
        (vec![NewJob { origin: Some("o".into()), ..job() }], "`then[0].origin` must be left out"),
        (vec![NewJob { queue: "a b".into(), ..job() }], "`then[0].queue`"),
        (vec![with(list(&[NewJob { lease: Some(Span(1)), ..job() }]))], "`then[0].then[0].lease`"),
        (vec![job(); FOLLOW_UPS_MAX + 1], "`then` must be at most 16 jobs, got 17"),
        (vec![NewJob::new(vec![b'0'; 200_000]); 2], "`then` must be at most 262144 bytes of JSON in all"),
    ] {
        let refused = bench.try_push(with(list(&next))).await.unwrap_err();
        assert!(matches!(&refused, Error::Invalid(_)) && refused.to_string().contains(said), "{said}: {refused}");
    }
    bench.push(with(list(&vec![job(); FOLLOW_UPS_MAX]))).await;
}

/// The end and the jobs that begin with it are recorded together, or not at all.
#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_recorded_begins_them_later() {
    let bench = Bench::new().await;
    bench.push(leading()).await;
    let lease = bench.lease().await;
    bench.ledger.set_away(true);
    bench.complete(&lease).await.unwrap_err();
    bench.ledger.set_away(false);
    pass(Duration::from_secs(3)).await;
    assert_eq!(begun(&bench).await, ["then"]);
    assert_eq!(bench.complete(&lease).await.unwrap(), State::Succeeded);
    next(&bench).await;
    assert_eq!(begun(&bench).await, ["then"]);
}

/// However many there are, and although these match it, too.
#[tokio::test(start_paused = true)]
async fn a_cancel_of_many_leaves_what_it_begins() {
    let bench = Bench::new().await;
    let next = NewJob { due: Due::After(Span(HOUR.as_millis() as u64)), ..job() };
    let options = JobOptions { otherwise: list(&[next]), ..JobOptions::default() };
    for is_purge in [false, true] {
        bench.engine.push(vec![NewJob { options: options.clone(), ..job() }; 1_200]).await.unwrap();
        pass(Duration::from_millis(5)).await;
        if is_purge {
            assert_eq!(bench.engine.purge("default").await.unwrap(), 2_400);
        } else {
            let query = Query { queue: Some("default".into()), ..Query::default() };
            let counts = bench.engine.bulk(&query, BulkAction::Cancel).await.unwrap();
            assert_eq!(counts.cancelled, 1_200);
        }
        assert_eq!(bench.queue("default").await.counts.scheduled, 1_200);
    }
}
