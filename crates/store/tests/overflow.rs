//! Engines on real stores with far more jobs than there is memory for.

use duetime_core::api::Span;
use duetime_core::engine::{Options, Outcome, ReserveRequest, Source, Stores};
use duetime_core::ports::{Broker, Queues};
use duetime_core::{Engine, Error, Job, JobId, Memory, NewJob, SystemClock};
use duetime_store::pair::Pair;
use duetime_store::redis::{self, Redis};
use duetime_store::sql;
use duetime_store::sqlite::{self, Sqlite};
use duetime_store::testing::{PostgresServer, RedisServer};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAYLOAD: usize = 1_000;
const MIB: u64 = 1 << 20;
/// How long something may take to come about.
const LIMIT: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(5);

async fn push(engine: &Engine, queue: &str, priority: u32, count: usize) -> Vec<JobId> {
    let job = NewJob { queue: queue.into(), priority, ..NewJob::new(vec![b'x'; PAYLOAD]) };
    let mut ids = Vec::new();
    for part in vec![job; count].chunks(500) {
        let pushed = engine.push(part.to_vec()).await.expect("pushed");
        ids.extend(pushed.into_iter().map(|pushed| pushed.expect("each is pushed").job.id));
    }
    ids
}

/// Works until this many jobs have been handed out.
async fn run_all(engine: &Engine, queue: &str, count: usize) -> Vec<Job> {
    let mut done = Vec::new();
    let end = Instant::now() + LIMIT;
    while done.len() < count {
        assert!(Instant::now() < end, "expected {count} jobs of {queue} within {LIMIT:?}, got {}", done.len());
        let from = Source::Queues(vec![queue.into()]);
        let request = ReserveRequest::new(from).limit(200).wait(Span(2_000));
        let leases = engine.reserve(request).await.expect("reserved").leases;
        let ends = leases.iter().map(|lease| (lease.job.receipt(), Outcome::complete(None)));
        for settled in engine.settle(ends.collect()).await {
            settled.expect("settled");
        }
        done.extend(leases.into_iter().map(|lease| lease.job));
    }
    done
}

fn same(done: &[Job], pushed: &[JobId]) -> bool {
    let sorted = |mut ids: Vec<JobId>| {
        ids.sort();
        ids
    };
    sorted(done.iter().map(|job| job.id).collect()) == sorted(pushed.to_vec())
}

async fn until<F: Future<Output = bool>>(expected: &str, mut look: impl FnMut() -> F) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let end = Instant::now() + LIMIT;
    while !look().await {
        assert!(Instant::now() < end, "expected {expected} within {LIMIT:?}");
        looks.tick().await;
    }
}

/// An engine on a file, with its broker.
async fn open(path: &Path, memory_max: u64) -> (Engine, Arc<Memory>) {
    let sqlite = Arc::new(Sqlite::open(path, sqlite::Options::default()).expect("opened"));
    let clock = Arc::new(SystemClock::new());
    let broker = Arc::new(Memory::new(clock.clone()));
    let stores = Stores { broker: broker.clone(), ..Stores::one_process(clock, sqlite) };
    let options = Options { memory_max: Some(memory_max), ..Options::default() };
    (Engine::start(stores, options).await.expect("started"), broker)
}

async fn held(broker: &Memory) -> u64 {
    let counts = broker.counts(Queues::first()).await.expect("counted");
    counts.iter().map(|(_, counts, _)| counts.scheduled + counts.ready + counts.running).sum()
}

#[tokio::test]
async fn a_file_holds_what_there_is_no_memory_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("duetime.db");
    let (engine, broker) = open(&path, MIB).await;
    let dead = push(&engine, "dead", 1_024, 10_000).await;
    let live = push(&engine, "live", 1_024, 3_000).await;
    assert!(held(&broker).await < 1_500, "{}", held(&broker).await);
    let ready = engine.queue("dead").await.expect("counted").counts.ready;
    assert_eq!(ready, 10_000);
    assert!(same(&run_all(&engine, "live", live.len()).await, &live), "all of it, though the other queue is dead");
    engine.stop().await.expect("stopped");

    let (engine, broker) = open(&path, MIB).await;
    until("all to be loaded", || async { engine.health().is_loaded }).await;
    assert!(held(&broker).await < 1_500, "{}", held(&broker).await);
    let urgent = push(&engine, "dead", 0, 10).await;
    let done = run_all(&engine, "dead", dead.len() + urgent.len()).await;
    let last = done.iter().rposition(|job| job.priority == 0).expect("they are there");
    assert!(last < 2_000, "{last}");
    assert!(same(&done, &[dead, urgent].concat()));
    engine.stop().await.expect("stopped");
}

fn used_memory(server: &RedisServer) -> u64 {
    let info = server.command(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.and_then(|used| used.trim().parse().ok()).expect("a number")
}

#[tokio::test]
async fn a_database_holds_what_redis_has_no_memory_for() {
    let (server, database) = (RedisServer::start(), PostgresServer::start());
    let bound = used_memory(&server) + 4 * MIB;
    let options = Options { memory_max: Some(bound), ..Options::default() };
    let (redis, postgres) = (server.url(), database.url());
    let node = async || {
        let durable_enough = sql::Options { may_lose: true, ..sql::Options::default() };
        let pair = Pair::connect(&redis, &postgres, durable_enough).await.expect("connected");
        Engine::start(pair.stores(), options).await.expect("started")
    };
    let (one, two) = (node().await, node().await);
    let dead = push(&one, "dead", 1_024, 8_000).await;
    let live = push(&two, "live", 1_024, 3_000).await;
    // The margin covers jobs that arrived in the second before memory usage was read.
    assert!(used_memory(&server) < bound + 16 * MIB, "{} of {bound}", used_memory(&server));
    assert!(same(&run_all(&one, "live", live.len()).await, &live), "all of it, though the other queue is dead");

    server.command(&["FLUSHALL"]);
    // The one that does not load may learn of it only when all is loaded again.
    let loaded = || [&one, &two].map(|engine| engine.health().is_loaded);
    until("the emptied Redis to be noticed", || async { loaded() != [true, true] }).await;
    until("all to be loaded", || async { loaded() == [true, true] }).await;
    assert!(used_memory(&server) < bound + 16 * MIB, "{} of {bound}", used_memory(&server));
    assert!(same(&run_all(&two, "dead", dead.len()).await, &dead));
    one.stop().await.expect("stopped");
    two.stop().await.expect("stopped");
}

#[tokio::test]
async fn redis_alone_refuses_new_jobs_before_it_is_full() {
    let server = RedisServer::start();
    let memory_max = Some(used_memory(&server) + 4 * MIB);
    let options = redis::Options { memory_max, ..redis::Options::default() };
    let redis = Redis::connect(&server.url(), options).await.expect("connected");
    let engine = Engine::start(redis.stores(), Options::default()).await.expect("started");
    let job = NewJob { queue: "live".into(), ..NewJob::new(vec![b'x'; PAYLOAD]) };
    let mut pushed = 0;
    let refused = loop {
        match engine.push(vec![job.clone(); 10]).await {
            Ok(answers) => pushed += answers.into_iter().filter(Result::is_ok).count(),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code(), "store_full");
    assert!(matches!(refused, Error::LimitReached(_)));
    let is_said =
        || async { engine.health().degraded.iter().any(|what| what.detail.contains("has no room for new jobs")) };
    until("it to be said", is_said).await;
    assert_eq!(run_all(&engine, "live", pushed).await.len(), pushed, "what is there is worked off");
    engine.stop().await.expect("stopped");
}
