//! Events of jobs reach other processes.

use duetime_core::api::Span;
use duetime_core::engine::events::{Event, Filter, Subscription, Transition};
use duetime_core::engine::{Engine, Options as EngineOptions, Outcome, ReserveRequest, Source};
use duetime_core::{JobId, NewJob, State};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::{RedisCluster, RedisServer};
use std::sync::Arc;
use std::time::Duration;

/// Time limit for expected events.
const WAIT_MAX: Duration = Duration::from_secs(30);

async fn engine(url: &str) -> Engine {
    let redis = Redis::connect(url, Options::default()).await.unwrap();
    Engine::start(redis.stores(), EngineOptions::default()).await.unwrap()
}

async fn next(listener: &mut Subscription) -> Arc<Transition> {
    match tokio::time::timeout(WAIT_MAX, listener.next()).await.expect("something is told") {
        Some(Event::Transition(transition)) => transition,
        other => panic!("{other:?}"),
    }
}

/// A job's life, in the kind `k` of the queue `q`.
async fn live(engine: &Engine) -> JobId {
    let new = NewJob { queue: "q".into(), kind: "k".into(), tags: vec!["t".into()], ..NewJob::new(*b"{}") };
    let id = engine.push(vec![new]).await.unwrap().remove(0).unwrap().job.id;
    let from = Source::Queues(vec!["q".into()]);
    let request = ReserveRequest::new(from).limit(1).wait(Span(5_000));
    let lease = engine.reserve(request).await.unwrap().leases.remove(0);
    engine.settle(vec![(lease.job.receipt(), Outcome::complete(None))]).await.remove(0).unwrap();
    id
}

/// All events until this job has succeeded.
async fn story(listener: &mut Subscription, of: JobId) -> Vec<Arc<Transition>> {
    let mut told: Vec<Arc<Transition>> = Vec::new();
    while told.last().is_none_or(|last| (last.id, last.state) != (of, State::Succeeded)) {
        told.push(next(listener).await);
    }
    told
}

/// Waits until it is heard there what happens here: others learn only now and then that somebody listens.
async fn is_heard(by: &mut Subscription, from: &Engine) {
    loop {
        let id = live(from).await;
        if tokio::time::timeout(Duration::from_secs(2), story(by, id)).await.is_ok() {
            return;
        }
    }
}

/// Checks that the events of a job arrive completely, in order, and once; `last` is a job that ended after it.
async fn hears(listener: &mut Subscription, of: JobId, last: JobId) {
    let story = story(listener, last).await;
    let told = story.iter().filter(|told| told.id == of).map(|told| (told.what.word(), told.state, told.attempt));
    let expected = [("pushed", State::Ready, 0), ("started", State::Running, 1), ("succeeded", State::Succeeded, 1)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert!(story.iter().all(|told| (&*told.queue, &*told.kind) == ("q", "k")));
}

async fn hear_each_other(url: &str) {
    let (a, b, idle) = (engine(url).await, engine(url).await, engine(url).await);
    let mut at_a = a.subscribe(Filter::default()).await.unwrap();
    is_heard(&mut at_a, &b).await;
    let mut at_b = b.subscribe(Filter::default()).await.unwrap();
    for (listener, others) in [(&mut at_a, [&b, &idle]), (&mut at_b, [&a, &idle])] {
        for other in others {
            is_heard(listener, other).await;
        }
    }
    for engine in [&a, &b, &idle] {
        let (id, last) = (live(engine).await, live(engine).await);
        hears(&mut at_a, id, last).await;
        hears(&mut at_b, id, last).await;
    }
}

#[tokio::test]
async fn processes_hear_each_other() {
    let server = RedisServer::start();
    hear_each_other(&server.url()).await;
}

#[tokio::test]
async fn processes_hear_each_other_on_a_cluster() {
    let cluster = RedisCluster::masters_only();
    hear_each_other(&cluster.url()).await;
}

/// How often something was published on the channel, by the server's count.
fn published(server: &RedisServer) -> u64 {
    let info = server.command(&["INFO", "commandstats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_publish:calls="));
    line.and_then(|line| line.split(',').next()).map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn nothing_is_published_where_nobody_listens() {
    let server = RedisServer::start();
    let (a, b) = (engine(&server.url()).await, engine(&server.url()).await);
    let mut listener = a.subscribe(Filter::default()).await.unwrap();
    is_heard(&mut listener, &b).await;
    drop(listener);
    let is_over = async {
        loop {
            let before = published(&server);
            live(&b).await;
            let is_gone = server.command(&["EXISTS", "{duetime:default}:listening"]).contains('0');
            // A push into an empty queue wakes waiters, and has no other event.
            if is_gone && published(&server) - before <= 1 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_MAX, is_over).await.expect("it ends");
}
