//! Named workers, and their leases.

use super::fixture::{Bench, job, pass, request};
use duetime_core::NewJob;
use duetime_core::api::{Span, Timestamp, WorkerStatus};
use duetime_core::engine::{Outcome, ReserveRequest, Source};
use duetime_core::limits::LEASE_MS_DEFAULT;
use std::sync::Arc;
use std::time::Duration;

fn named(name: &str, queue: &str, limit: usize, wait: Duration) -> ReserveRequest {
    let from = Source::Queues(vec![queue.into()]);
    ReserveRequest { from, worker: Some(name.into()), ..request(limit, wait) }
}

impl Bench {
    fn workers(&self) -> Vec<WorkerStatus> {
        self.engine.workers(None, 100, |_| true).workers
    }

    fn worker(&self) -> WorkerStatus {
        self.workers().pop().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_named_worker_waits_and_holds() {
    let bench = Bench::new().await;
    let since = bench.engine.now();
    bench.reserve(1, Duration::ZERO).await;
    assert!(bench.workers().is_empty(), "it has no name");
    let engine = bench.engine.clone();
    let waiter = tokio::spawn(async move { engine.reserve(named("a", "q", 1, Duration::from_secs(60))).await });
    pass(Duration::ZERO).await;
    pass(Duration::from_secs(10)).await;
    let waiting = bench.worker();
    assert_eq!((&*waiting.worker, waiting.waiting, waiting.held), ("a", 1, 0));
    let now = bench.engine.now();
    assert_eq!((waiting.first_seen, waiting.last_seen), (Timestamp(since), Timestamp(now)));
    bench.push(NewJob { queue: "q".into(), ..job() }).await;
    let lease = waiter.await.unwrap().unwrap().leases.remove(0);
    let holding = bench.worker();
    assert_eq!((holding.waiting, holding.held, holding.leases[0].id), (0, 1, lease.job.id));
    assert_eq!(holding.leases[0].lease_until, Timestamp(now + LEASE_MS_DEFAULT));
    let why = bench.engine.why(lease.job.id).await.unwrap();
    assert_eq!(why.reasons[0].worker.as_deref(), Some("a"));
    pass(Duration::from_secs(30)).await;
    let extended = bench.engine.extend(vec![(lease.job.receipt(), None)]).await.remove(0).unwrap();
    let holding = bench.worker();
    assert_eq!(holding.leases[0].lease_until, extended.lease_until);
    assert_eq!(holding.last_seen, Timestamp(bench.engine.now()));
    bench.settle(&lease, Outcome::release(Span(0))).await.unwrap();
    assert_eq!(bench.worker().held, 0);
    // One that crashed holds nothing once its lease has ended.
    bench.engine.reserve(named("a", "q", 1, Duration::ZERO)).await.unwrap();
    assert_eq!(bench.worker().held, 1);
    pass(Duration::from_millis(LEASE_MS_DEFAULT + 1)).await;
    assert_eq!(bench.worker().held, 0);
    pass(Duration::from_secs(3_601)).await;
    assert!(bench.workers().is_empty(), "it is forgotten");
}

/// A cancelled reserve no longer waits, and the jobs it would have got are not held.
#[tokio::test(start_paused = true)]
async fn a_worker_that_goes_away_waits_no_more() {
    let bench = Bench::new().await;
    let engine = bench.engine.clone();
    let waiter = tokio::spawn(async move { engine.reserve(named("a", "q", 1, Duration::from_secs(60))).await });
    pass(Duration::from_millis(1)).await;
    assert_eq!(bench.worker().waiting, 1);
    waiter.abort();
    assert!(waiter.await.is_err());
    assert_eq!(bench.worker().waiting, 0);
    bench.push(NewJob { queue: "q".into(), ..job() }).await;
    drop(bench.engine.reserve_unclaimed(named("a", "q", 1, Duration::ZERO)).await.unwrap());
    pass(Duration::from_millis(1)).await;
    assert_eq!(bench.worker().held, 0);
}

#[tokio::test(start_paused = true)]
async fn a_page_shows_what_the_caller_may_read() {
    let bench = Bench::new().await;
    for (name, queue) in [("a", "mail"), ("b", "orders"), ("c", "mail"), ("c", "orders"), ("d", "mail")] {
        bench.push(NewJob { queue: queue.into(), ..job() }).await;
        bench.engine.reserve(named(name, queue, 1, Duration::ZERO)).await.unwrap();
    }
    let page = |after: Option<&str>, limit| bench.engine.workers(after, limit, |queue| queue == "mail");
    let names = |workers: &[WorkerStatus]| workers.iter().map(|one| one.worker.to_string()).collect::<Vec<_>>();
    let first = page(None, 2);
    assert_eq!(
        (names(&first.workers), first.next_cursor.as_deref()),
        (vec!["a".to_owned(), "c".to_owned()], Some("c"))
    );
    let both = &first.workers[1];
    assert_eq!((&both.queues[..], both.held), (&[Arc::from("mail")][..], 1));
    let last = page(first.next_cursor.as_deref(), 2);
    assert_eq!((names(&last.workers), last.next_cursor), (vec!["d".to_owned()], None));
}
