//! A Redis that has reached its `maxmemory`.

use crate::redis_faults::subject::{Subject, until};
use duetime_core::ports::{Extended, Ledger, Recorded, Trouble};
use duetime_core::testing::fixtures::{again, finish, id, success};
use duetime_core::{Error, Job, Stage, State};
use duetime_store::testing::RedisServer;

pub(crate) fn fill(server: &RedisServer) {
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
}

pub(crate) fn make_room(server: &RedisServer) {
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
}

#[tokio::test]
async fn a_full_redis_takes_no_job_and_lets_workers_catch_up() {
    let server = RedisServer::start();
    let s = Subject::connect(&server.url()).await;
    s.push(1..=20).await.unwrap();
    fill(&server);
    let error = s.push([21]).await.unwrap_err();
    assert!(matches!(error, Error::LimitReached(_)), "{error:?}");
    assert_eq!(error.code(), "store_full");

    let jobs = s.reserve(5).await.unwrap();
    let [done, retried, failed, given_back, extended] = jobs.as_slice() else { panic!("{jobs:?}") };
    assert!(matches!(s.extend(extended.receipt()).await.unwrap(), Extended::Until { .. }));
    assert_eq!(s.settle(done.receipt(), success()).await.unwrap(), Some(State::Succeeded));
    let later = again(retried, retried.due_at.0 + 600_000);
    assert_eq!(s.settle(retried.receipt(), later).await.unwrap(), Some(State::Scheduled));
    assert_eq!(s.settle(failed.receipt(), finish(Stage::Failed)).await.unwrap(), Some(State::Failed));
    let at_once = again(given_back, given_back.due_at.0);
    assert_eq!(s.settle(given_back.receipt(), at_once).await.unwrap(), Some(State::Ready));
    assert_eq!(s.settle(extended.receipt(), success()).await.unwrap(), Some(State::Succeeded));
    assert_eq!(s.counts().await, (17, 0, 2));

    make_room(&server);
    s.push([21]).await.unwrap();
    assert_eq!(s.reserve(100).await.unwrap().len(), 17);
}

/// A worker that is started while Redis is full could else not help to empty it.
#[tokio::test]
async fn a_full_redis_is_connected_to() {
    let server = RedisServer::start();
    Subject::connect(&server.url()).await.push(1..=3).await.unwrap();
    fill(&server);
    let s = Subject::connect(&server.url()).await;
    for _ in 0..3 {
        let job = s.one().await;
        assert_eq!(s.settle(job.receipt(), success()).await.unwrap(), Some(State::Succeeded));
    }
    assert!(matches!(s.push([4]).await, Err(Error::LimitReached(_))));
}

const MIB: u64 = 1 << 20;

/// A Redis with this `maxmemory` beyond what it needs itself.
async fn with_room(bytes: u64, policy: &str) -> (RedisServer, Subject) {
    let server = RedisServer::start();
    let info = server.command(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a number").trim().to_owned();
    let max = used.parse::<u64>().expect("a number") + bytes;
    server.command(&["CONFIG", "SET", "maxmemory-policy", policy]);
    server.command(&["CONFIG", "SET", "maxmemory", &max.to_string()]);
    let s = Subject::connect(&server.url()).await;
    (server, s)
}

fn large(s: &Subject, n: u64) -> Job {
    Job { payload: vec![b'x'; 100 << 10].into(), ..s.job(n) }
}

fn has(s: &Subject, trouble: Trouble) -> bool {
    s.redis.troubles().iter().any(|(found, _)| *found == trouble)
}

/// From then on all pushes were refused, though nothing waited.
#[tokio::test]
async fn records_of_finished_jobs_give_way_before_a_push_is_refused() {
    let (server, s) = with_room(24 * MIB, "noeviction").await;
    let mut last = None;
    for n in 1..=400 {
        s.redis.record(vec![large(&s, n)], u64::MAX).await.unwrap_or_else(|error| panic!("the {n}th push: {error}"));
        let job = s.one().await;
        assert_eq!(s.settle(job.receipt(), success()).await.unwrap(), Some(State::Succeeded));
        last = Some(job.receipt());
    }
    assert!(has(&s, Trouble::DropsRecords));
    let last = last.expect("the last one");
    assert!(Ledger::get(&s.redis, &[last.id]).await.unwrap()[0].is_some(), "the newest ones are kept");
    let (_, _, kept) = s.counts().await;
    assert!((50..350).contains(&kept), "{kept} are kept");
    assert_eq!(server.command(&["ZCARD", "{duetime:default:0}:ended"]), kept.to_string());
    assert_eq!(server.command(&["HLEN", "{duetime:default:0}:body"]), kept.to_string());
}

/// Its reply was lost, and meanwhile its record gave way.
#[tokio::test]
async fn a_completion_is_answered_again_after_its_record_gave_way() {
    let (_server, s) = with_room(24 * MIB, "noeviction").await;
    s.redis.record(vec![large(&s, 1)], u64::MAX).await.unwrap();
    let first = s.one().await.receipt();
    s.settle(first, success()).await.unwrap();
    let mut n = 1;
    while Ledger::get(&s.redis, &[first.id]).await.unwrap()[0].is_some() {
        n += 1;
        s.redis.record(vec![large(&s, n)], u64::MAX).await.unwrap();
        s.settle(s.one().await.receipt(), success()).await.unwrap();
    }
    assert_eq!(s.settle(first, success()).await.unwrap(), Some(State::Succeeded));
    assert_eq!(s.push([1]).await.unwrap(), [Recorded::Repeat], "a repeated push raises nobody");
}

/// Dead letters give way last, and what waits never does.
#[tokio::test]
async fn failed_jobs_give_way_last_and_waiting_ones_never() {
    let (_server, s) = with_room(24 * MIB, "noeviction").await;
    for n in 1..=40 {
        s.redis.record(vec![large(&s, n)], u64::MAX).await.unwrap();
        let job = s.one().await;
        let end = if n % 2 == 0 { success() } else { finish(Stage::Failed) };
        s.settle(job.receipt(), end).await.unwrap();
    }
    let mut n = 40;
    let error = loop {
        n += 1;
        if let Err(error) = s.redis.record(vec![large(&s, n)], u64::MAX).await {
            break error;
        }
        let failed = Ledger::get(&s.redis, &(1..=40).map(id).collect::<Vec<_>>()).await.unwrap();
        let (failed, succeeded): (Vec<_>, Vec<_>) =
            failed.into_iter().flatten().partition(|job| job.stage == Stage::Failed);
        assert!(failed.len() == 20 || succeeded.is_empty(), "{} and {}", failed.len(), succeeded.len());
    };
    assert_eq!(error.code(), "store_full", "only live jobs are left");
    let (waiting, running, _) = s.counts().await;
    assert_eq!((waiting, running), (n - 41, 0));
    assert!(waiting > 150, "{waiting}");
}

#[tokio::test]
async fn a_redis_that_evicts_is_reported() {
    let (server, s) = with_room(100 * MIB, "allkeys-lru").await;
    assert!(has(&s, Trouble::Evicts));
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    until("that to be noticed", || !has(&s, Trouble::Evicts)).await;
}
