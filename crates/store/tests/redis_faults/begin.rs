//! An empty broker starts beside a ledger: flushed, on another server, or in a part of a Cluster. No number is given twice,
//! limits hold from the first job on, and a process that uses the namespace otherwise cannot join.

use crate::redis_faults::subject::until;
use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::{LockRequest, Options as EngineOptions, QueueSettings, ReserveRequest, Source};
use duetime_core::model::id;
use duetime_core::ports::{Broker, Locks};
use duetime_core::testing::fixtures::{FixedHost, reserve};
use duetime_core::testing::{ManualClock, ModelLedger};
use duetime_core::{Due, Engine, Error, Job, NewJob, Receipt};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::{RedisCluster, RedisServer};
use std::collections::BTreeSet;
use std::sync::Arc;

const QUEUE: &str = "orders";

struct Node {
    engine: Engine,
    redis: Arc<Redis>,
}

impl Node {
    async fn start(url: &str, ledger: &ModelLedger, clock: Option<Arc<ManualClock>>) -> Self {
        let clock = clock.map(|clock| clock as Arc<dyn duetime_core::Clock>);
        let options = Options { beside: Some("test".into()), clock, ..Options::default() };
        let redis = Arc::new(Redis::connect(url, options).await.unwrap());
        let ledger = Arc::new(ledger.clone());
        let stores = Redis::clone(&redis).stores().beside(ledger);
        Self { engine: Engine::start(stores, EngineOptions::default()).await.unwrap(), redis }
    }

    async fn push(&self, count: usize) {
        let due = Due::At(Timestamp(self.engine.now() - 3_600_000));
        let new = || NewJob { queue: QUEUE.into(), due, ..NewJob::new(*b"payload") };
        let pushed = self.engine.push(std::iter::repeat_with(new).take(count).collect()).await.unwrap();
        assert!(pushed.iter().all(Result::is_ok), "{pushed:?}");
    }

    async fn reserve(&self, limit: usize) -> Result<Vec<Job>, Error> {
        let from = Source::Queues(vec![QUEUE.into()]);
        let request = ReserveRequest::new(from).limit(limit).lease(Span(3_600_000));
        Ok(self.engine.reserve(request).await?.leases.into_iter().map(|lease| lease.job).collect())
    }

    /// This many jobs, in order of arrival.
    async fn jobs(&self, count: usize) -> Vec<Job> {
        let mut jobs = Vec::new();
        while jobs.len() < count {
            jobs.extend(self.reserve(count - jobs.len()).await.unwrap());
            tokio::task::yield_now().await;
        }
        jobs
    }

    async fn fence(&self, name: &str) -> u64 {
        let request = LockRequest {
            name: name.into(),
            owner: "test".into(),
            ttl: Span(3_600_000),
            wait: Span(10_000),
            keep_place: false,
        };
        self.engine.acquire(request).await.unwrap().fence
    }
}

/// The numbers that were given, and the generation that gave each.
#[derive(Default)]
struct Numbers {
    receipts: BTreeSet<Receipt>,
    least: u64,
}

impl Numbers {
    fn add(&mut self, jobs: &[Job]) {
        for job in jobs {
            assert!(self.receipts.insert(job.receipt()), "{} twice", job.receipt());
            assert!(job.epoch >= self.least && job.version >= self.least, "{job:?}");
        }
        let last = jobs.iter().map(|job| job.epoch.max(job.version)).max().unwrap_or(0);
        self.least = id::floor(id::generation_above(last));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_given_once_though_redis_is_emptied_and_its_clock_falls_back() {
    let (server, ledger, clock) = (RedisServer::start(), ModelLedger::default(), Arc::new(ManualClock::new()));
    let node = Node::start(&server.url(), &ledger, Some(clock.clone())).await;
    node.push(20).await;
    let mut given = Numbers::default();
    let mut fence = 0;
    for round in 0..4 {
        given.add(&node.jobs(20).await);
        let next = node.fence("stock").await;
        assert!(next > fence, "{next} after {fence}");
        fence = next;
        if round == 2 {
            // Another process begins the next memory.
            let other = Node::start(&server.url(), &ledger, Some(clock.clone())).await;
            server.command(&["FLUSHALL"]);
            given.add(&other.jobs(20).await);
        }
        server.command(&["FLUSHALL"]);
        clock.step(-20_000);
        clock.advance(10);
    }
}

/// It is unknown what a promoted replica lacks; its incarnation is the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_given_once_over_a_failover() {
    let (server, ledger) = (RedisServer::start(), ModelLedger::default());
    let node = Node::start(&server.url(), &ledger, None).await;
    node.push(3).await;
    let mut given = Numbers::default();
    given.add(&node.jobs(1).await);
    let fence = node.fence("a").await;
    // It keeps its data, connections and run id, like a promoted replica; only the replication id differs.
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    server.command(&["REPLICAOF", "NO", "ONE"]);
    given.add(&node.jobs(1).await);
    let next = node.fence("b").await;
    assert!(id::floor(id::generation_above(fence)) <= next, "{next} after {fence}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_from_the_first_job_after_a_flush() {
    let (server, ledger) = (RedisServer::start(), ModelLedger::default());
    let node = Node::start(&server.url(), &ledger, None).await;
    let other = Node::start(&server.url(), &ledger, None).await;
    let paused = QueueSettings { paused: true, ..QueueSettings::default() };
    node.engine.configure(QUEUE, paused).await.unwrap();
    for _ in 0..20 {
        server.command(&["FLUSHALL"]);
        other.push(2).await;
        assert_eq!(other.reserve(10).await.unwrap(), []);
        assert_eq!(node.reserve(10).await.unwrap(), []);
    }
    let two = QueueSettings { max_running: Some(2), ..QueueSettings::default() };
    node.engine.configure(QUEUE, two).await.unwrap();
    for _ in 0..20 {
        server.command(&["FLUSHALL"]);
        node.push(1).await;
        let (one, two) = tokio::join!(node.reserve(10), other.reserve(10));
        assert!(one.unwrap().len() + two.unwrap().len() <= 2);
    }
}

/// The other masters continue unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_where_one_master_of_a_cluster_lost_its_memory() {
    let (cluster, ledger) = (RedisCluster::masters_only(), ModelLedger::default());
    let node = Node::start(&cluster.url(), &ledger, None).await;
    let paused = QueueSettings { paused: true, ..QueueSettings::default() };
    node.engine.configure(QUEUE, paused).await.unwrap();
    for server in cluster.nodes() {
        server.command(&["FLUSHALL"]);
        node.push(2).await;
        assert_eq!(node.reserve(10).await.unwrap(), []);
    }
    node.engine.configure(QUEUE, QueueSettings::default()).await.unwrap();
    let mut given = Numbers::default();
    given.add(&node.jobs(6).await);
    cluster.nodes().iter().for_each(|server| drop(server.command(&["FLUSHALL"])));
    given.add(&node.jobs(6).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_given_once_where_a_replica_of_a_cluster_takes_over() {
    let (mut cluster, ledger) = (RedisCluster::start(), ModelLedger::default());
    let node = Node::start(&cluster.url(), &ledger, None).await;
    node.push(3).await;
    let mut given = Numbers::default();
    given.add(&node.jobs(1).await);
    for index in 0..3 {
        cluster.kill_master(index);
        cluster.wait_for_failover(index);
    }
    given.add(&node.jobs(1).await);
}

/// However it came to be there first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_joins_after_a_flush_who_uses_the_namespace_otherwise() {
    let (server, ledger) = (RedisServer::start(), ModelLedger::default());
    let beside = Node::start(&server.url(), &ledger, None).await;
    beside.push(1).await;
    let is_refused = |answer: Result<Vec<Job>, Error>| matches!(answer, Err(Error::Unusable(_)));
    let alone = loop {
        server.command(&["FLUSHALL"]);
        let Ok(alone) = Redis::connect(&server.url(), Options::default()).await else { continue };
        if alone.begin(Arc::new(FixedHost::default())).await.is_ok() {
            break alone;
        }
    };
    assert!(is_refused(beside.reserve(1).await), "its jobs are not for us");
    let lock = duetime_core::ports::Acquire { name: "l".into(), owner: "o".into(), ttl_ms: 1_000, waiting: false };
    alone.acquire(lock.clone()).await.unwrap();
    assert!(matches!(beside.redis.acquire(lock).await, Err(Error::Unusable(_))));
    until("that to be said", || !beside.engine.health().degraded.is_empty()).await;

    // And the other way round.
    server.command(&["FLUSHALL"]);
    beside.reserve(1).await.unwrap();
    let error = alone.reserve(reserve(QUEUE, 1)).await.map(drop).unwrap_err();
    assert!(matches!(error, Error::Unusable(_)), "{error}");
    assert!(Redis::connect(&server.url(), Options::default()).await.is_err());
}

/// A `?partitions=` that was fixed when the namespace was made stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_partitions_stays_over_a_flush() {
    let server = RedisServer::start();
    let connect = |partitions: u16| {
        let url = format!("{}?partitions={partitions}", server.url());
        async move { Redis::connect(&url, Options::default()).await }
    };
    let four = connect(4).await.unwrap();
    four.begin(Arc::new(FixedHost::default())).await.unwrap();
    server.command(&["FLUSHALL"]);
    let two = connect(2).await.unwrap();
    two.begin(Arc::new(FixedHost::default())).await.unwrap();
    let error = four.reserve(reserve(QUEUE, 1)).await.map(drop).unwrap_err().to_string();
    assert!(error.contains("2 partitions instead of 4"), "{error}");
}
