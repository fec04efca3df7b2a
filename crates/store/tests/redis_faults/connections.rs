//! Connections that break.

use crate::redis_faults::subject::{Subject, until};
use crate::redis_locks::proxy::Lossy;
use duetime_core::engine::Options as EngineOptions;
use duetime_core::ports::{Beginning, Broker as _, Host, Recorded, Settle};
use duetime_core::testing::fixtures::{QUEUE, id, success, take};
use duetime_core::{Engine, Error, JobId, State};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::{End, Fate, Proxy, RedisServer};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

const TASKS: u64 = 8;
const JOBS: u64 = 5_000;
const BATCH: u64 = 5;
const KILL_EVERY: Duration = Duration::from_millis(20);

/// How often each job was handed out, and how often completed.
#[derive(Default)]
struct Seen {
    leases: Mutex<BTreeMap<JobId, u32>>,
    ends: Mutex<BTreeMap<JobId, u32>>,
    ended: AtomicU64,
}

/// Pushes its share, and completes all available jobs.
async fn work(s: Subject, numbers: std::ops::Range<u64>, seen: Arc<Seen>) -> Result<(), Error> {
    let mut numbers = numbers.step_by(BATCH as usize);
    while seen.ended.load(Ordering::Relaxed) < JOBS {
        if let Some(first) = numbers.next() {
            let recorded = s.push(first..first + BATCH).await?;
            assert_eq!(recorded.len() as u64, BATCH);
            assert!(recorded.iter().all(|recorded| !matches!(recorded, Recorded::KeyHeld(_))));
        }
        let jobs = s.reserve(BATCH as usize).await?;
        for job in &jobs {
            *seen.leases.lock().unwrap().entry(job.id).or_default() += 1;
        }
        let decisions = jobs.iter().map(|job| Settle::new(job.receipt(), success())).collect();
        let states = s.redis.settle(decisions).await?.states;
        for (job, state) in jobs.iter().zip(states) {
            assert_eq!(state, Some(State::Succeeded), "{}", job.receipt());
            *seen.ends.lock().unwrap().entry(job.id).or_default() += 1;
            seen.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_over_lost_connections() {
    let server = RedisServer::start();
    let s = Subject::connect(&server.url()).await;
    let seen = Arc::new(Seen::default());
    let is_over = AtomicBool::new(false);
    let (mut ticks, mut kills) = (tokio::time::interval(KILL_EVERY), 0_u32);
    let killing = async {
        while !is_over.load(Ordering::Relaxed) {
            ticks.tick().await;
            kills += server.command(&["CLIENT", "KILL", "TYPE", "normal"]).parse::<u32>().unwrap();
        }
    };
    let working = async {
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (from, to) = (1 + task * JOBS / TASKS, 1 + (task + 1) * JOBS / TASKS);
            tasks.spawn(work(s.clone(), from..to, seen.clone()));
        }
        while let Some(worked) = tasks.join_next().await {
            worked.unwrap().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    };
    futures_util::future::join(killing, working).await;
    println!("{kills} connections were cut");
    assert!(kills >= 10, "{kills} connections were cut");
    let once: BTreeMap<JobId, u32> = (1..=JOBS).map(|n| (id(n), 1)).collect();
    assert_eq!(*seen.leases.lock().unwrap(), once, "each was handed out once");
    assert_eq!(*seen.ends.lock().unwrap(), once, "each was completed once");
    assert_eq!(s.counts().await, (0, 0, JOBS));
    assert_eq!(server.command(&["ZCARD", "{duetime:default:0}:running"]), "0");
}

/// After the first connection breaks, so many others get no answer.
const HUNG: u64 = 3;
/// How long each command of later connections takes when they are opened, such as over a distance or with TLS: a part of the
/// time that a connection has.
const HANDSHAKE_STEP: Duration = Duration::from_millis(250);

/// Callers that had waited gave a connection only what was left of their own time, and then the next of them began anew: with
/// enough of them none was ever opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_connection_is_opened_however_many_wait_for_it() {
    let server = RedisServer::start();
    let (is_slow, last) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let slow = is_slow.clone();
    let proxy = Proxy::to(server.port(), move |command| {
        let words = |word: &[u8]| command.bytes.windows(word.len()).any(|bytes| bytes == word);
        if !slow.load(Ordering::SeqCst) {
            last.fetch_max(command.connection, Ordering::SeqCst);
            return Fate::default();
        }
        let held = match command.connection.checked_sub(last.load(Ordering::SeqCst) + 1) {
            None if command.connection == 0 => return Fate { end: End::Dropped, ..Fate::default() },
            Some(new) if new < HUNG => Duration::from_secs(60),
            Some(_) if words(b"HELLO") || words(b"SETINFO") => HANDSHAKE_STEP,
            _ => Duration::ZERO,
        };
        Fate { held, ..Fate::default() }
    });
    let s = Subject::connect(&proxy.url()).await;
    let mut callers = JoinSet::new();
    is_slow.store(true, Ordering::SeqCst);
    for n in 0..200_u64 {
        let s = s.clone();
        callers.spawn(async move {
            // They come one after the other.
            tokio::time::timeout(Duration::from_millis(n * 30), std::future::pending::<()>()).await.unwrap_err();
            s.push([n + 1]).await
        });
    }
    while let Some(pushed) = callers.join_next().await {
        pushed.unwrap().unwrap();
    }
    assert_eq!(s.counts().await, (200, 0, 0));
}

/// How often this queue was announced, and all queues.
#[derive(Default)]
struct Woken {
    told: AtomicU64,
    all: AtomicU64,
}

#[async_trait::async_trait]
impl Host for Woken {
    async fn beginning(&self) -> Result<Beginning, Error> {
        Ok(Beginning::default())
    }

    fn wake(&self, queue: Option<&Arc<str>>) {
        let count = if queue.is_some_and(|queue| **queue == *QUEUE) { &self.told } else { &self.all };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_subscription_is_made_anew() {
    let server = RedisServer::start();
    let woken = Arc::new(Woken::default());
    let s = Subject::connect_for(&server.url(), woken.clone()).await.unwrap();
    let other = Subject::connect(&server.url()).await;
    let Woken { told, all } = &*woken;
    for n in 1..=3 {
        let before = (told.load(Ordering::Relaxed), all.load(Ordering::Relaxed));
        assert_ne!(server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]), "0");
        until("everybody to look again", || all.load(Ordering::Relaxed) > before.1).await;
        other.push([n]).await.unwrap();
        until("to be told of the queue", || told.load(Ordering::Relaxed) > before.0).await;
        assert_eq!(s.reserve(10).await.unwrap().len(), 1);
    }
}

/// It was in a buffer while it was sent again, and was answered: by then there was nothing to take.
#[tokio::test]
async fn a_take_that_comes_late_takes_nothing() {
    let server = RedisServer::start();
    let proxy = Lossy::to(server.port());
    let s = Subject::connect(&proxy.url()).await;
    s.push([1]).await.unwrap();
    let take = || s.redis.take(take(QUEUE, 10));
    assert_eq!(take().await.unwrap().reserved.leases.len(), 1);
    proxy.lose_a_reply();
    assert!(take().await.unwrap().reserved.leases.is_empty());
    assert_eq!(proxy.lost(), 1);
    s.push([2]).await.unwrap();
    proxy.repeat().await;
    assert_eq!(take().await.unwrap().reserved.leases.len(), 1, "the late one took it for nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_gone_is_noticed_before_calls_give_up() {
    let mut server = RedisServer::start();
    let s = Subject::connect(&server.url()).await;
    assert_eq!(s.redis.unreached().map(|error| error.to_string()), None);
    server.kill();
    let asked = tokio::spawn({
        let redis = s.redis.clone();
        async move { redis.incarnation().await }
    });
    until("the loss to be noticed", || s.redis.unreached().is_some()).await;
    assert!(!asked.is_finished(), "the call is still repeated");
    server.start_again();
    asked.await.unwrap().unwrap();
    assert_eq!(s.redis.unreached().map(|error| error.to_string()), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_is_not_ready_soon_after_its_broker_has_gone() {
    let mut server = RedisServer::start();
    let redis = Redis::connect(&server.url(), Options::default()).await.unwrap();
    let engine = Engine::start(redis.stores(), EngineOptions::default()).await.unwrap();
    assert!(engine.health().ready);
    server.kill();
    until("the loss to be noticed", || !engine.health().ready).await;
    // The reaper says something else once it has waited for 3 s.
    let health = engine.health();
    let error = health.degraded[0].error.as_deref().unwrap();
    assert!(error.contains("the connection is lost, and no new one can be had"), "{error}");
    server.start_again();
    until("the broker to be back", || engine.health().ready).await;
    engine.stop().await.unwrap();
}
