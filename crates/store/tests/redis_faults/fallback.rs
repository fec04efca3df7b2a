//! Redis beside PostgreSQL starts again with an older file. Jobs that ended since are handed out to nobody, while two servers ask for
//! jobs all the time. While a partition is compared, the others serve.

use super::subject::until;
use async_trait::async_trait;
use duetime_core::api::Span;
use duetime_core::engine::{Options as EngineOptions, Outcome, ReserveRequest, Source};
use duetime_core::ports::{Beginning, Broker, BrokerClock, Host, Pick, Put, Reserve, Room};
use duetime_core::testing::fixtures::due;
use duetime_core::{Engine, Error, Job, JobId, NewJob};
use duetime_store::redis::{Options, Redis};
use duetime_store::sql;
use duetime_store::testing::{PostgresServer, RedisCluster, RedisServer};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

const QUEUE: &str = "orders";
/// How long the servers go on asking.
const ASKS_FOR: Duration = Duration::from_secs(3);
/// How long something may take to come about.
const LIMIT: Duration = Duration::from_secs(120);

async fn start(redis: &RedisServer, database: &PostgresServer) -> Engine {
    let options = Options { beside: Some("test".into()), ..Options::default() };
    let stores = Redis::connect(&redis.url(), options).await.unwrap().stores();
    let ledger = Arc::new(
        sql::connect(&database.url(), sql::Options { may_lose: true, ..sql::Options::default() }).await.unwrap(),
    );
    let options = EngineOptions { settles_recorded: true, ..EngineOptions::default() };
    Engine::start(stores.beside(ledger), options).await.unwrap()
}

async fn push(engine: &Engine, count: usize, bytes: usize) -> BTreeSet<JobId> {
    let mut ids = BTreeSet::new();
    for part in vec![NewJob { queue: QUEUE.into(), ..NewJob::new(vec![b'x'; bytes]) }; count].chunks(1_000) {
        let pushed = engine.push(part.to_vec()).await.unwrap();
        ids.extend(pushed.into_iter().map(|pushed| pushed.unwrap().job.id));
    }
    ids
}

/// Leases due jobs, completes them, and returns how many.
async fn work(engine: &Engine, limit: usize) -> Vec<JobId> {
    let request = ReserveRequest::new(Source::Queues(vec![QUEUE.into()])).limit(limit).wait(Span(200));
    let Ok(reservation) = engine.reserve(request).await else { return Vec::new() };
    let leases = reservation.leases;
    let ends = leases.iter().map(|lease| (lease.job.receipt(), Outcome::complete(None))).collect();
    drop(engine.settle(ends).await);
    leases.into_iter().map(|lease| lease.job.id).collect()
}

async fn complete(engine: &Engine, count: usize) {
    let (mut done, end) = (0, Instant::now() + LIMIT);
    while done < count {
        assert!(Instant::now() < end, "{done} of {count}");
        done += work(engine, (count - done).min(1_000)).await.len();
    }
}

async fn restart(redis: RedisServer) -> RedisServer {
    let again = move || {
        let mut redis = redis;
        redis.kill();
        redis.start_again();
        redis
    };
    tokio::task::spawn_blocking(again).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_ended_is_not_handed_out_after_a_restart_with_an_older_file() {
    for (count, bytes) in [(40, 100_000), (3_000, 100)] {
        let (redis, database) = (RedisServer::start(), PostgresServer::start());
        let (leader, other) = (start(&redis, &database).await, start(&redis, &database).await);
        push(&leader, count, bytes).await;
        redis.command(&["SAVE"]);
        complete(&leader, count).await;
        let (ends_at, got) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(Vec::new())));
        let asks = |engine: Engine| {
            let (ends_at, got) = (ends_at.clone(), got.clone());
            async move {
                while ends_at.get().is_none_or(|&at| Instant::now() < at) {
                    let ids = work(&engine, 5).await;
                    got.lock().unwrap().extend(ids);
                    tokio::task::yield_now().await;
                }
            }
        };
        let engines = [leader.clone(), leader.clone(), other.clone(), other.clone()];
        let tasks = engines.map(|engine| tokio::spawn(asks(engine)));
        let redis = restart(redis).await;
        let new = push(&other, 10, bytes).await;
        until("the new jobs to be handed out", || new.iter().all(|id| got.lock().unwrap().contains(id))).await;
        ends_at.set(Instant::now() + ASKS_FOR).unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        let got = got.lock().unwrap();
        let again = got.iter().filter(|id| !new.contains(id)).count();
        assert_eq!((again, got.len()), (0, new.len()), "of {count} jobs that had ended");
        drop(redis);
    }
}

/// From the restart of Redis with as many jobs to the first one that is handed out. `DUETIME_FALLBACK_JOBS` says how many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_ends_and_what_waits_is_handed_out() {
    let text = std::env::var("DUETIME_FALLBACK_JOBS").unwrap_or_else(|_| "2500".into());
    let count: usize = text.parse().expect("a number");
    let (redis, database) = (RedisServer::start(), PostgresServer::start());
    let (leader, other) = (start(&redis, &database).await, start(&redis, &database).await);
    let ids = push(&leader, count, 200).await;
    redis.command(&["SAVE"]);
    let redis = restart(redis).await;
    let begin = Instant::now();
    let first = loop {
        let got = work(&other, 1).await;
        if let [id] = got[..] {
            break id;
        }
        assert!(begin.elapsed() < LIMIT);
    };
    println!("{count} jobs: the first is handed out {} ms after the restart", begin.elapsed().as_millis());
    assert!(ids.contains(&first));
    drop((leader, redis));
}

/// A host that has not compared one partition.
struct Compares {
    all_but: u16,
}

#[async_trait]
impl Host for Compares {
    async fn beginning(&self) -> Result<Beginning, Error> {
        Ok(Beginning { generation: 1, limits: Vec::new() })
    }

    async fn compare(&self, partition: u16, _: &str) -> Result<(), Error> {
        let is_compared = partition != self.all_but;
        is_compared.then_some(()).ok_or_else(|| Error::Unavailable("it takes long".into()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_compared_holds_up_no_other() {
    let cluster = RedisCluster::masters_only();
    let options = Options { beside: Some("test".into()), ..Options::default() };
    let redis = Redis::connect(&format!("{}?partitions=4", cluster.url()), options).await.unwrap();
    let queue_in = |partition: u16| -> Arc<str> {
        (0..).map(|n| Arc::from(format!("q{n}"))).find(|queue| redis.partition(queue) == partition).unwrap()
    };
    let (waits, serves) = (queue_in(1), queue_in(2));
    redis.begin(Arc::new(Compares { all_but: 1 })).await.unwrap();
    let now = redis.now();
    let job = |n, queue: &Arc<str>| {
        let id = JobId::in_partition(n, redis.partition(queue));
        Job { id, queue: queue.clone(), ..due(n, now - 1_000) }
    };
    let jobs = vec![job(1, &waits), job(2, &serves), job(3, &serves), job(4, &serves)];
    assert_eq!(redis.put(jobs.clone(), redis.reading(), Room::Any).await, Ok(vec![Put::Held; 4]));

    for queues in [[&waits, &serves], [&serves, &waits]] {
        let reserve = Reserve::new(Pick::InOrder(queues.map(Arc::clone).to_vec()), 1);
        let reserved = redis.reserve(Reserve { lease_ms: Some(1), ..reserve }).await.unwrap();
        assert!(matches!(&reserved.leases[..], [lease] if lease.job.queue == serves), "{reserved:?}");
        assert!(reserved.next_at.is_some(), "there will be more");
    }
    let end = Instant::now() + LIMIT;
    let mut ended = 0;
    while ended < 2 {
        assert!(Instant::now() < end, "leases end where jobs are handed out");
        ended = redis.expired(10).await.unwrap().crashed.len();
    }
    let alone = Reserve::new(Pick::InOrder(vec![waits]), 1);
    assert_eq!(redis.reserve(alone).await.unwrap().leases.len(), 0);
}
