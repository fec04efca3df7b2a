//! How long finished jobs are kept.

use super::fixture::{Bench, job, pass};
use duetime_core::api::Span;
use duetime_core::engine::{Outcome, QueueRetention, QueueSettings, ReserveRequest, Source};
use duetime_core::{JobId, NewJob};
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

async fn keep(bench: &Bench, queue: &str, succeeded: Option<Duration>, failed: Option<Duration>) {
    let ms = |span: Option<Duration>| span.map(|span| u64::try_from(span.as_millis()).unwrap());
    let retention = QueueRetention { succeeded: ms(succeeded).map(Span), failed: ms(failed).map(Span) };
    bench.engine.configure(queue, QueueSettings { retention, ..QueueSettings::default() }).await.unwrap();
}

/// A job of this queue that has ended so.
async fn ended(bench: &Bench, queue: &str, outcome: Outcome) -> JobId {
    let queue: Arc<str> = Arc::from(queue);
    let id = bench.push(NewJob { queue: queue.clone(), ..job() }).await.id;
    let from = Source::Queues(vec![queue]);
    let request = ReserveRequest::new(from).limit(1);
    let lease = bench.engine.reserve(request).await.unwrap().leases.remove(0);
    bench.settle(&lease, outcome).await.unwrap();
    id
}

async fn is_kept(bench: &Bench, id: JobId) -> bool {
    bench.engine.job(id).await.is_ok()
}

fn success() -> Outcome {
    Outcome::complete(None)
}

fn failure() -> Outcome {
    Outcome::Fail(duetime_core::rules::Failure { is_final: true, ..Default::default() })
}

#[tokio::test(start_paused = true)]
async fn each_queue_keeps_its_jobs_for_its_own_time() {
    let bench = Bench::new().await;
    keep(&bench, "short", Some(HOUR), None).await;
    keep(&bench, "long", Some(48 * HOUR), Some(HOUR)).await;
    let mut ids = Vec::new();
    for queue in ["short", "usual", "long"] {
        ids.push(ended(&bench, queue, success()).await);
        ids.push(ended(&bench, queue, failure()).await);
    }
    let kept = async || {
        let mut kept = Vec::new();
        for &id in &ids {
            kept.push(is_kept(&bench, id).await);
        }
        kept
    };
    pass(HOUR - Duration::from_secs(20)).await;
    assert_eq!(kept().await, [true; 6]);
    pass(Duration::from_secs(40)).await;
    assert_eq!(kept().await, [false, true, true, true, true, false]);
    pass(24 * HOUR).await;
    assert_eq!(kept().await, [false, true, false, true, true, false]);
    pass(24 * HOUR).await;
    assert_eq!(kept().await, [false, true, false, true, false, false]);
    pass(30 * 24 * HOUR).await;
    assert_eq!(kept().await, [false; 6]);
}

/// A job that was pushed early and ended late does not block the removal of others, and a retried job is kept.
#[tokio::test(start_paused = true)]
async fn what_ended_late_does_not_hide_others() {
    let bench = Bench::new().await;
    keep(&bench, "short", Some(HOUR), Some(HOUR)).await;
    let again = ended(&bench, "short", failure()).await;
    let late = bench.push(NewJob { queue: "short".into(), ..job() }).await.id;
    let early = bench.push(NewJob { queue: "short".into(), priority: 0, ..job() }).await.id;
    let request = |limit| ReserveRequest {
        from: Source::Queues(vec!["short".into()]),
        limit,
        free: None,
        lease: Some(Span(2 * 3_600_000)),
        wait: Span(0),
        request_id: None,
        worker: None,
    };
    let leases = bench.engine.reserve(request(2)).await.unwrap().leases;
    assert_eq!(leases[0].job.id, early);
    bench.complete(&leases[0]).await.unwrap();
    bench.engine.retry(vec![again.into()]).await.remove(0).unwrap();
    pass(HOUR / 2).await;
    bench.complete(&leases[1]).await.unwrap();
    pass(HOUR / 2 + Duration::from_secs(20)).await;
    assert!(!is_kept(&bench, early).await && is_kept(&bench, late).await && is_kept(&bench, again).await);
    pass(HOUR / 2).await;
    assert!(!is_kept(&bench, late).await && is_kept(&bench, again).await);
}
