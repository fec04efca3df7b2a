//! What the library tells the recorder of the program that uses it.

use crate::cases::{Remind, queue};
use duetime::job::OnConflict;
use duetime::{Client, Context, JobError, Worker};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Values by name and labels: sums of counters and gauges, and how often a histogram was told something.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<BTreeMap<String, f64>>>);

/// One of them.
struct Cell(Recorded, String);

impl Recorded {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Cell(self.clone(), format!("{}{{{}}}", key.name(), labels.join(","))))
    }

    fn get(&self, series: &str) -> Option<f64> {
        self.0.lock().unwrap().get(series).copied()
    }
}

impl Cell {
    fn add(&self, value: f64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }
}

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }
    fn absolute(&self, _: u64) {
        unreachable!("counters count");
    }
}

impl GaugeFn for Cell {
    fn increment(&self, value: f64) {
        self.add(value);
    }
    fn decrement(&self, value: f64) {
        self.add(-value);
    }
    fn set(&self, _: f64) {
        unreachable!("gauges of several workers add up");
    }
}

impl HistogramFn for Cell {
    fn record(&self, value: f64) {
        assert!((0.0..60.0).contains(&value), "{value}");
        self.add(1.0);
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.cell(key))
    }
}

/// The test's runtime has one thread, on which handlers run, too.
#[tokio::test]
async fn pushes_and_handlers_are_counted() {
    let recorded = Recorded::default();
    let _until_the_end = metrics::set_default_local_recorder(&recorded);
    let (client, queue) = (Client::memory().await.unwrap(), queue());
    let push = |user| client.push(Remind { user }).queue(queue.clone());
    for user in 1..=4 {
        push(user).key(format!("user-{user}")).await.unwrap();
    }
    push(9).key("user-1").await.unwrap();
    push(9).key("user-1").on_conflict(OnConflict::Reject).await.unwrap_err();
    let running = format!("duetime_worker_running{{queue={queue},kind=remind}}");
    let seen = (recorded.clone(), running.clone());
    let worker = Worker::new(&client).queue(queue.clone()).concurrency(1).handle(move |job: Remind| {
        assert_eq!(seen.0.get(&seen.1), Some(1.0));
        async move {
            match job.user {
                1 => Ok(()),
                2 => Err(JobError::fatal("no")),
                3 => Err(JobError::release(Duration::from_secs(3_600))),
                _ => panic!("a panic that a test asked for"),
            }
        }
    });
    worker.drain().await.unwrap();
    for (name, labels, value) in [
        ("duetime_client_pushes_total", ",outcome=created", 4.0),
        ("duetime_client_pushes_total", ",outcome=kept", 1.0),
        ("duetime_client_pushes_total", ",outcome=failed", 1.0),
        ("duetime_worker_attempts_total", ",outcome=succeeded", 1.0),
        ("duetime_worker_attempts_total", ",outcome=failed", 2.0),
        ("duetime_worker_attempts_total", ",outcome=released", 1.0),
        ("duetime_worker_attempt_seconds", "", 4.0),
        ("duetime_worker_lateness_seconds", "", 4.0),
        ("duetime_worker_running", "", 0.0),
    ] {
        let series = format!("{name}{{queue={queue},kind=remind{labels}}}");
        assert_eq!(recorded.get(&series), Some(value), "{series}: {:?}", recorded.0.lock().unwrap());
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_handler_that_is_aborted_is_counted() {
    let recorded = Recorded::default();
    let _until_the_end = metrics::set_default_local_recorder(&recorded);
    let (client, queue) = (Client::memory().await.unwrap(), queue());
    client.push(Remind { user: 1 }).queue(queue.clone()).await.unwrap();
    let worker =
        Worker::new(&client).queue(queue.clone()).handle(|_: Remind| std::future::pending::<Result<(), JobError>>());
    let running = format!("duetime_worker_running{{queue={queue},kind=remind}}");
    {
        let mut run = Box::pin(worker.run_one());
        while recorded.get(&running) != Some(1.0) {
            tokio::select! {
                biased;
                _ = &mut run => unreachable!("the handler never ends"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    assert_eq!(recorded.get(&running), Some(0.0));
    let series = format!("duetime_worker_attempts_total{{queue={queue},kind=remind,outcome=aborted}}");
    assert_eq!(recorded.get(&series), Some(1.0));
}

/// The handler gives its job back, so its outcome comes too late. The worker notices that on another thread, which has no local
/// recorder. Other tests in this process may lose leases, too.
#[tokio::test]
async fn an_outcome_of_a_lost_lease_is_counted() {
    let recorded = Recorded::default();
    metrics::set_global_recorder(recorded.clone()).expect("no other test sets it");
    let (client, queue) = (Client::memory().await.unwrap(), queue());
    client.push(Remind { user: 1 }).queue(queue.clone()).await.unwrap();
    let worker = Worker::new(&client).queue(queue).handle(|_: Remind, context: Context| async move {
        let leases = context.client().leases();
        leases.release(context.receipt(), Duration::from_secs(3_600)).await.map(drop)
    });
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.succeeded, summary.lost), (0, 1));
    let lost = recorded.get("duetime_worker_lost_total{}");
    assert!(lost.is_some_and(|lost| lost >= 1.0), "{lost:?}");
    client.close().await.unwrap();
}
