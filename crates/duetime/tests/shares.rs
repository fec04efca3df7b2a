//! Queues with weights, and types of jobs with a limit of their own.

use duetime::job::Query;
use duetime::worker::{Handled, QueueShare};
use duetime::{CancellationToken, prelude::*, testing};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// For what would otherwise never end.
const LONG: Duration = Duration::from_secs(30);

async fn fill(client: &Client, queue: &str, count: usize) {
    for _ in 0..count {
        client.push_raw("step", *b"1").queue(queue).await.unwrap();
    }
}

/// The queues of so many jobs that a worker runs one by one.
async fn run(worker: &Worker, count: usize) -> Vec<Arc<str>> {
    let mut queues = Vec::new();
    for _ in 0..count {
        queues.push(worker.run_one().await.unwrap().expect("a job is due").queue);
    }
    queues
}

fn counts(queues: &[Arc<str>]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    queues.iter().for_each(|queue| *counts.entry(&**queue).or_default() += 1);
    counts
}

fn worker<Q: Into<QueueShare>, const N: usize>(client: &Client, queues: [Q; N]) -> Worker {
    Worker::new(client).queues(queues).fallback(async || Handled::Ok(()))
}

#[tokio::test]
async fn queues_are_served_by_their_weights() {
    let (client, clock) = testing::client().await;
    for queue in ["low", "mail", "urgent"] {
        fill(&client, queue, 20).await;
    }
    clock.advance(Duration::from_secs(1)).await;
    let shared = worker(&client, [("low", 1), ("urgent", 6), ("mail", 3)]);
    for ten in run(&shared, 20).await.chunks(10) {
        assert_eq!(counts(ten), BTreeMap::from([("low", 1), ("mail", 3), ("urgent", 6)]));
    }
    let strict = worker(&client, ["mail", "urgent", "low"]);
    assert_eq!(counts(&run(&strict, 10).await), BTreeMap::from([("mail", 10)]));
}

#[tokio::test]
async fn a_queue_that_was_quiet_has_its_share_and_no_more() {
    let (client, _clock) = testing::client().await;
    let shared = worker(&client, [("low", 1), ("urgent", 3)]);
    fill(&client, "urgent", 60).await;
    run(&shared, 40).await;
    fill(&client, "low", 20).await;
    let lows = counts(&run(&shared, 8).await)["low"];
    assert!((2..=3).contains(&lows), "{lows}");
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "urgent", queue = "urgent")]
struct Urgent;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "mail", queue = "mail")]
struct Mail;

/// Each urgent job is followed by another one, so in strict order the mail would never come.
#[tokio::test]
async fn no_queue_starves() {
    let (client, _clock) = testing::client().await;
    client.push_all((0..200).map(|_| Urgent)).await.unwrap();
    client.push(Mail).await.unwrap();
    let arrived = CancellationToken::new();
    let worker = Worker::new(&client)
        .state(arrived.clone())
        .handle(async |_: Urgent, context: Context| context.push(Urgent).await.map(drop))
        .handle(async |_: Mail, State(arrived): State<CancellationToken>| {
            arrived.cancel();
            Handled::Ok(())
        })
        .queues([("urgent", 6), ("mail", 1)]);
    timeout(LONG, worker.run_until(arrived.cancelled())).await.expect("the mail has its turn").unwrap();
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "big", was = "huge", concurrency = 2)]
struct Big;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "small")]
struct Small;

#[derive(Default)]
struct Seen {
    running: AtomicUsize,
    most: AtomicUsize,
    small: AtomicUsize,
}

/// Big jobs end only after all small ones have run beside them.
#[tokio::test]
async fn a_type_has_its_own_limit_and_holds_up_no_other() {
    const SMALL: usize = 6;
    let (client, _clock) = testing::client().await;
    for kind in ["big", "huge", "big", "big", "big"] {
        client.push_raw(kind, *b"null").await.unwrap();
    }
    for _ in 0..SMALL {
        client.push(Small).await.unwrap();
    }
    let (seen, gate) = (Arc::new(Seen::default()), Arc::new(Semaphore::new(0)));
    let open = gate.clone();
    let worker = Worker::new(&client)
        .state(seen.clone())
        .handle(move |_: Big, State(seen): State<Arc<Seen>>| {
            let gate = gate.clone();
            async move {
                seen.most.fetch_max(seen.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                gate.acquire().await?.forget();
                seen.running.fetch_sub(1, Ordering::SeqCst);
                Handled::Ok(())
            }
        })
        .handle(move |_: Small, State(seen): State<Arc<Seen>>| {
            if seen.small.fetch_add(1, Ordering::SeqCst) + 1 == SMALL {
                open.add_permits(SMALL);
            }
            async { Handled::Ok(()) }
        });
    let summary = timeout(LONG, worker.drain()).await.expect("small jobs run beside big ones").unwrap();
    assert_eq!((summary.succeeded, summary.failed), (11, 0));
    assert_eq!(seen.most.load(Ordering::SeqCst), 2);
    let jobs = client.jobs().find(Query::default()).take(20).await.unwrap();
    assert!(jobs.iter().all(|job| job.attempt == 1), "a job that is given back has not been tried");
}
