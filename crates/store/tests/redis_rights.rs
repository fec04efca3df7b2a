//! A Redis user with the rights of `packaging/redis-acl`, and no others: all that an engine asks of Redis is among
//! them, and all of them are asked for.

use duetime_core::api::Span;
use duetime_core::engine::Pause;
use duetime_core::engine::events::Filter;
use duetime_core::engine::{
    BulkAction, LockRequest, Options as EngineOptions, Outcome, Patch, Query, QueueSettings, ReserveRequest, Source,
    TakeRequest,
};
use duetime_core::ports::{Broker, BrokerClock, EventBus, Ledger, Locks, Retention, Room};
use duetime_core::rules::Failure;
use duetime_core::{Due, Engine, Error, JobId, NewJob, OnConflict, Retry, WhenExhausted};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::{RedisCluster, RedisSentinel, RedisServer};
use std::collections::BTreeSet;
use std::sync::Arc;

const QUEUE: &str = "orders";
const LOCK: &str = "stock-42";
/// The scripts.
const LUA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/lua");
/// Words in scripts that are no commands.
const NO_COMMANDS: [&str; 9] = ["COUNT", "LIMIT", "OOM", "PLAIN", "PX", "REV", "INCARNATION", "WITHSCORES", "XX"];
/// Asked for only after five idle seconds.
const IDLE: &str = "ping";
/// Optional commands: they may be refused.
const OPTIONAL: [&str; 3] = ["client|setinfo", "config|get", "role"];

/// The user's rules, as an administrator has them.
fn rules() -> Vec<&'static str> {
    let file = include_str!("../../../packaging/redis-acl");
    let line = file.lines().find_map(|line| line.strip_prefix("user duetime ")).expect("the line for redis.conf");
    line.split_whitespace().collect()
}

/// The commands that the rules allow.
fn commands() -> BTreeSet<&'static str> {
    rules().into_iter().filter_map(|rule| rule.strip_prefix('+')).collect()
}

/// Adds the user, and more rights if necessary.
fn confine(server: &RedisServer, more: &[&str]) {
    server.command(&[&["ACL", "SETUSER", "duetime"], rules().as_slice(), more].concat());
}

fn as_user(url: &str) -> String {
    url.replacen("://", "://duetime:secret@", 1)
}

/// The commands that a server has carried out, or with `refused` those that it has refused, by name.
fn commands_of(server: &RedisServer, refused: bool) -> BTreeSet<String> {
    let field = if refused { "rejected_calls=" } else { "calls=" };
    let info = server.command(&["INFO", "commandstats"]);
    let used = info.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let count = rest.split(',').find_map(|part| part.strip_prefix(field))?;
        (count.trim() != "0").then(|| name.to_owned())
    });
    used.collect()
}

async fn connect(url: &str) -> Redis {
    Redis::connect(url, Options::default()).await.expect("connected")
}

fn job() -> NewJob {
    NewJob { queue: QUEUE.into(), ..NewJob::new(*b"payload") }
}

async fn push(engine: &Engine, job: NewJob) -> JobId {
    engine.push(vec![job]).await.unwrap().remove(0).unwrap().job.id
}

async fn reserve(engine: &Engine, queue: &str) -> duetime_core::Receipt {
    let from = Source::Queues(vec![queue.into()]);
    let request = ReserveRequest::new(from).limit(1).wait(Span(5_000)).request_id("r");
    engine.reserve(request).await.unwrap().leases.remove(0).job.receipt()
}

/// Jobs that succeed, fail, are moved, retried, taken, changed, cancelled, found and forgotten.
async fn life_of_jobs(redis: &Redis, engine: &Engine) {
    engine.configure(QUEUE, QueueSettings { lease: Some(Span(30_000)), ..QueueSettings::default() }).await.unwrap();
    engine.pause(QUEUE, Pause::UntilResumed).await.unwrap();
    engine.resume(QUEUE).await.unwrap();

    let id = push(engine, job()).await;
    let known = engine.job(id).await.unwrap();
    redis.put(vec![known], redis.reading(), Room::Within(Some(1))).await.unwrap();
    let receipt = reserve(engine, QUEUE).await;
    assert_eq!(reserve(engine, QUEUE).await, receipt, "a repeat");
    engine.extend(vec![(receipt, None)]).await.remove(0).unwrap();
    let done = Outcome::complete(Some(Arc::from(*b"1")));
    engine.settle(vec![(receipt, done)]).await.remove(0).unwrap();

    let retry = Retry { when_exhausted: Some(WhenExhausted::Move("elsewhere".into())), ..Retry::default() };
    let urgent = NewJob {
        key: Some("key".into()),
        tags: vec!["tag".into()],
        priority: 5,
        expires: Some(Span(60_000)),
        options: retry.into(),
        queue: "urgent".into(),
        ..job()
    };
    let id = push(engine, urgent.clone()).await;
    assert_eq!(push(engine, urgent.clone()).await, id);
    push(engine, NewJob { on_conflict: OnConflict::Replace, ..urgent.clone() }).await;
    let receipt = reserve(engine, "urgent").await;
    let failure = Failure { message: "no".into(), is_final: true, ..Failure::default() };
    engine.settle(vec![(receipt, Outcome::Fail(failure))]).await.remove(0).unwrap();
    engine.retry(vec![id.into()]).await.remove(0).unwrap();
    let from = Source::Queues(vec!["elsewhere".into()]);
    let take = TakeRequest { from, limit: 1, due_from: None, due_to: None, request_id: None };
    // The copy is due once the clock of Redis has certainly reached its instant.
    while engine.take(take.clone()).await.unwrap().leases.is_empty() {}

    let later = NewJob { due: Due::After(Span(3_600_000)), tags: vec!["tag".into()], ..job() };
    let ids = [push(engine, later.clone()).await, push(engine, later).await];
    engine.update(ids[0].into(), Patch { due: Some(Due::After(Span(7_200_000))), ..Patch::default() }).await.unwrap();
    let by_queue = Query { queue: Some(QUEUE.into()), ..Query::default() };
    let by_key = Query { queue: Some("urgent".into()), key: Some("key".into()), ..Query::default() };
    let by_tag = Query { tag: Some("tag".into()), ..Query::default() };
    for (query, count) in [(by_queue, 3), (by_key, 1), (by_tag.clone(), 4)] {
        let (mut found, mut cursor) = (0, None);
        loop {
            let page = engine.find(&query, cursor.as_deref(), 1).await.unwrap();
            found += page.jobs.len();
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, count, "{query:?}");
    }
    engine.bulk(&by_tag, BulkAction::Cancel).await.unwrap();
    engine.delete(vec![ids[0].into()]).await.remove(0).unwrap();
    assert_eq!(engine.queues().await.unwrap().len(), 3);
    let all = Retention { succeeded: Span(0), failed: Span(0) };
    // A job that has just ended is not pruned.
    assert_eq!(redis.prune(all, engine.now() + 1, 1_000).await.unwrap(), 0);
}

/// A lock that two wait for, and that is passed on.
async fn life_of_a_lock(redis: &Redis, engine: &Engine) {
    let ask = |owner: &str, wait_ms, ttl_ms| LockRequest {
        name: LOCK.into(),
        owner: owner.into(),
        ttl: Span(ttl_ms),
        wait: Span(wait_ms),
        keep_place: true,
    };
    // It ends soon, so the owners ahead in line matter.
    let grant = engine.acquire(ask("a", 0, 900)).await.unwrap();
    for owner in ["b", "c"] {
        assert!(matches!(engine.acquire(ask(owner, 1, 60_000)).await, Err(Error::LockHeld { .. })));
    }
    let grant = engine.renew(LOCK, "a", grant.fence, Span(60_000)).await.unwrap();
    assert_eq!(engine.inspect(LOCK).await.unwrap().unwrap().grant.fence, grant.fence);
    assert_eq!(engine.list_locks(None, 10).await.unwrap().locks.len(), 1);
    engine.release_lock(LOCK, "a", grant.fence).await.unwrap();
    let next = engine.acquire(ask("b", 5_000, 60_000)).await.unwrap();
    assert!(next.fence > grant.fence);
    assert_eq!(engine.release_all("b").await.unwrap().released, 1);
    redis.sweep().await.unwrap();
}

async fn life(url: &str) {
    let redis = connect(url).await;
    let engine = Engine::start(redis.clone().stores(), EngineOptions::default()).await.unwrap();
    let (sink, mut received) = tokio::sync::mpsc::unbounded_channel();
    let other = connect(url).await;
    other.subscribe(Arc::new(move |event| drop(sink.send(event))));
    other.announce(true).await.unwrap();
    // After this it knows the other process, too.
    let _subscription = engine.subscribe(Filter::default()).await.unwrap();
    life_of_jobs(&redis, &engine).await;
    received.recv().await.expect("the other one is notified");
    life_of_a_lock(&redis, &engine).await;
    assert!(engine.health().degraded.is_empty());
    engine.stop().await.unwrap();
}

#[tokio::test]
async fn the_rights_of_the_docs_are_enough_and_none_is_idle() {
    let server = RedisServer::start();
    confine(&server, &[]);
    life(&as_user(&server.url())).await;
    let refused = commands_of(&server, true);
    assert!(refused.iter().all(|name| OPTIONAL.contains(&name.as_str())), "{refused:?}");
    let used = commands_of(&server, false);
    let idle: Vec<_> = commands().into_iter().filter(|name| !used.contains(*name) && *name != IDLE).collect();
    assert_eq!(idle, [""; 0], "granted, and not used");
}

#[tokio::test]
async fn redis_takes_the_file_as_it_stands() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/redis-acl");
    let server = RedisServer::with(&["--aclfile", file]);
    life(&as_user(&server.url())).await;
}

#[tokio::test]
async fn another_namespace_is_out_of_reach() {
    let server = RedisServer::start();
    confine(&server, &[]);
    for namespace in ["other", "default2"] {
        let url = format!("{}?namespace={namespace}", as_user(&server.url()));
        let error = Redis::connect(&url, Options::default()).await.map(drop).unwrap_err();
        assert!(matches!(error, Error::Unusable(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_cluster_takes_one_right_more() {
    let cluster = RedisCluster::masters_only();
    cluster.nodes().iter().for_each(|node| confine(node, &["+cluster|slots"]));
    life(&as_user(&cluster.url())).await;
}

#[tokio::test]
async fn servers_under_sentinel_take_no_more() {
    let watched = RedisSentinel::patient();
    watched.servers().iter().for_each(|server| confine(server, &[]));
    life(&as_user(&watched.url())).await;
    let refused: BTreeSet<String> = watched.servers().iter().flat_map(|server| commands_of(server, true)).collect();
    assert!(refused.iter().all(|name| OPTIONAL.contains(&name.as_str())), "{refused:?}");
}

/// Also in what no test comes by.
#[test]
fn scripts_call_only_what_is_granted() {
    let granted = commands();
    let mut seen = BTreeSet::new();
    for file in std::fs::read_dir(LUA).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        // Every other part is in quotes.
        for word in
            text.lines().filter_map(|line| line.split("--").next()).flat_map(|line| line.split('\'').skip(1).step_by(2))
        {
            let is_upper = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
            if is_upper && !NO_COMMANDS.contains(&word) {
                assert!(granted.contains(word.to_ascii_lowercase().as_str()), "{word} is called and not granted");
                seen.insert(word.to_owned());
            }
        }
    }
    assert!(seen.contains("ZMSCORE") && seen.contains("SREM"), "{seen:?}");
}
