//! One queue costs the same beside many others.

use super::fixture::{Bench, job, pass};
use async_trait::async_trait;
use duetime_core::engine::metrics::OTHER_QUEUES;
use duetime_core::engine::{Configured, Options, QueueSettings, Stores};
use duetime_core::json::Span;
use duetime_core::model::retry::{Retry, WhenExhausted};
use duetime_core::ports::{Document, Inbox, PutIf, Registry};
use duetime_core::testing::{ModelLedger, Shared, TokioClock};
use duetime_core::{Engine, Error, Job, JobOptions, JobRef, NewJob};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const QUEUES: usize = 2_000;

fn shared(broker: Arc<Shared>, ledger: Arc<ModelLedger>, registry: Arc<dyn Registry>) -> Stores {
    let locks = broker.clone();
    let inbox = Some(ledger.clone() as Arc<dyn Inbox>);
    let reports = ledger.clone();
    Stores { broker, ledger, reports, leases: None, inbox, registry, locks, events: None }
}

async fn seconds(count: u64) {
    for _ in 0..count * 4 {
        pass(Duration::from_millis(250)).await;
    }
}

/// Counts the documents of queues that are read.
#[derive(Default)]
struct Counting {
    registry: ModelLedger,
    read: AtomicUsize,
}

#[async_trait]
impl Registry for Counting {
    async fn document(&self, kind: &str, name: &str) -> Result<Option<Document>, Error> {
        if kind == "queue" {
            self.read.fetch_add(1, Ordering::Relaxed);
        }
        self.registry.document(kind, name).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error> {
        let documents = self.registry.documents(kind).await?;
        if kind == "queue" {
            self.read.fetch_add(documents.len(), Ordering::Relaxed);
        }
        Ok(documents)
    }

    async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
        self.registry.put_if(kind, name, body, version).await
    }

    async fn remove(&self, kind: &str, name: &str, version: Option<u64>) -> Result<bool, Error> {
        self.registry.remove(kind, name, version).await
    }
}

#[tokio::test(start_paused = true)]
async fn settings_are_read_again_only_where_they_were_changed() {
    let (clock, registry) = (Arc::new(TokioClock::new()), Arc::new(Counting::default()));
    let settings = QueueSettings { lease: Some(Span(7_000)), ..QueueSettings::default() };
    for n in 0..QUEUES {
        let (name, settings) = (format!("q{n}"), settings.clone());
        let body = serde_json::to_string(&Configured::new(name.as_str().into(), settings)).unwrap();
        registry.put_if("queue", &name, &body, 0).await.unwrap();
    }
    let broker = Arc::new(Shared::new(clock));
    let ledger = Arc::new(registry.registry.clone());
    let stores = shared(broker, ledger, registry.clone());
    let engine = Engine::start(stores, Options::default()).await.unwrap();
    seconds(5).await;
    let read = || registry.read.swap(0, Ordering::Relaxed);
    assert!(read() >= QUEUES, "at the start");
    seconds(120).await;
    assert_eq!(read(), 0, "nothing was changed");
    engine.configure("q7", QueueSettings::default()).await.unwrap();
    seconds(120).await;
    let count = read();
    assert!((1..=50).contains(&count), "only what was changed, for half a minute: {count}");
    assert_eq!(engine.queue("q8").await.unwrap().settings.lease, Some(Span(7_000)));
    engine.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn queues_are_listed_in_steps_by_name() {
    let (clock, ledger) = (Arc::new(TokioClock::new()), Arc::new(ModelLedger::default()));
    let broker = Arc::new(Shared::new(clock));
    let stores = shared(broker, ledger.clone(), ledger);
    let engine = Engine::start(stores, Options::default()).await.unwrap();
    let jobs = (0..250).map(|n| duetime_core::NewJob { queue: format!("j{n:03}").into(), ..super::fixture::job() });
    for pushed in engine.push(jobs.collect()).await.unwrap() {
        pushed.unwrap();
    }
    for n in 0..250 {
        engine
            .configure(&format!("s{n:03}"), QueueSettings { paused: true, ..QueueSettings::default() })
            .await
            .unwrap();
    }
    let names: Vec<_> = engine.queues_from("j248", 4).await.unwrap().into_iter().map(|status| status.queue).collect();
    assert_eq!(names, ["j248", "j249", "s000", "s001"].map(Arc::from));
    assert_eq!(engine.queues().await.unwrap().len(), 500);
    let one = engine.queue("j003").await.unwrap();
    assert_eq!((one.counts.ready + one.counts.scheduled, one.tally.pending), (1, 1));

    // Only the first of the many queues are shown by name; all others are counted together.
    assert_eq!(engine.sums().await.unwrap().len(), 200);
    seconds(30).await;
    let sums = engine.sums().await.unwrap();
    let (name, others) = sums.last().unwrap();
    assert_eq!((sums.len(), &**name), (201, OTHER_QUEUES));
    assert_eq!((others.tally.pending, others.tally.totals.pushed, others.paused), (50, 50, 250));
    engine.stop().await.unwrap();
}

/// A caller who may push made 300,000 queues in seconds, and each took memory that nothing counted.
#[tokio::test(start_paused = true)]
async fn names_of_queues_have_a_bound() {
    const MOST: usize = 1_024;
    let options = Options { memory_max: Some(MOST as u64 * 4_096), ..Options::default() };
    let engine = Bench::over_with(ModelLedger::default(), Arc::new(TokioClock::new()), options).await.engine.clone();
    let in_queue = |n: usize| NewJob { queue: format!("q{n}").into(), ..job() };
    let push = async |jobs: Vec<NewJob>| engine.push(jobs).await.unwrap();
    let pushed = push((0..MOST + 1).map(in_queue).collect()).await;
    assert!(pushed[..MOST].iter().all(Result::is_ok));
    assert_eq!(pushed[MOST].as_ref().unwrap_err().code(), "store_full");
    assert!(push(vec![in_queue(7)]).await[0].is_ok(), "those that there are go on");
    let when_exhausted = Some(WhenExhausted::Move("elsewhere".into()));
    let moves = JobOptions::from(Retry { when_exhausted, ..Retry::default() });
    assert!(push(vec![NewJob { options: moves, ..in_queue(7) }]).await[0].is_err(), "nor where they are to be moved");
    let elsewhere = Job { queue: "elsewhere".into(), ..pushed[7].as_ref().unwrap().job.clone() };
    assert_eq!(engine.import(vec![elsewhere]).await.unwrap()[0].as_ref().unwrap_err().code(), "store_full");
    // An empty queue is none once its records are gone.
    let purged = engine.purge("q0").await.unwrap();
    assert_eq!(purged, 1);
    let ids: Vec<_> = pushed[0].iter().map(|pushed| JobRef::from(pushed.job.id)).collect();
    engine.delete(ids).await;
    seconds(70).await;
    assert!(push(vec![in_queue(MOST)]).await[0].is_ok());
    assert!(push(vec![in_queue(MOST + 1)]).await[0].is_err());
}
