//! An engine on a Redis that reaches its `maxmemory`: work continues, the condition is reported, and it ends by itself.

use crate::redis_faults::memory::{fill, make_room};
use crate::redis_faults::subject::until;
use duetime_core::api::Span;
use duetime_core::engine::Pause;
use duetime_core::engine::{Options as EngineOptions, Outcome, QueueSettings, ReserveRequest, Source};
use duetime_core::testing::ModelLedger;
use duetime_core::{Due, Engine, Error, Job, JobId, NewJob};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::RedisServer;
use std::sync::Arc;

const QUEUE: &str = "orders";

async fn beside(server: &RedisServer, ledger: &ModelLedger) -> Engine {
    let options = Options { beside: Some("test".into()), ..Options::default() };
    let redis = Redis::connect(&server.url(), options).await.unwrap();
    let ledger = Arc::new(ledger.clone());
    let stores = redis.stores().beside(ledger);
    Engine::start(stores, EngineOptions::default()).await.unwrap()
}

async fn push(engine: &Engine, due: Due) -> Result<JobId, Error> {
    let job = NewJob { queue: QUEUE.into(), due, ..NewJob::new(*b"payload") };
    Ok(engine.push(vec![job]).await?.remove(0)?.job.id)
}

/// The next job, waiting for one.
async fn next(engine: &Engine, lease_ms: u64) -> Job {
    let from = Source::Queues(vec![QUEUE.into()]);
    let request = ReserveRequest::new(from).limit(1).lease(Span(lease_ms)).wait(Span(20_000));
    engine.reserve(request).await.unwrap().leases.pop().expect("a job is due").job
}

async fn complete(engine: &Engine, job: &Job) {
    engine.settle(vec![(job.receipt(), Outcome::complete(None))]).await.remove(0).unwrap();
}

fn is_said_to_be_full(engine: &Engine) -> bool {
    engine.health().degraded.iter().any(|what| what.detail.contains("has no room for new jobs"))
}

/// The jobs of a worker that died come back, however full Redis is.
async fn work_goes_on(server: &RedisServer, engine: &Engine) -> JobId {
    let settings = QueueSettings { max_running: Some(1), ..QueueSettings::default() };
    engine.configure(QUEUE, settings).await.unwrap();
    let ids = [push(engine, Due::After(Span(0))).await.unwrap(), push(engine, Due::After(Span(0))).await.unwrap()];
    let far = push(engine, Due::After(Span(600_000))).await.unwrap();
    let unsettled = next(engine, 1_000).await;
    fill(server);
    until("that the broker is full to be said", || is_said_to_be_full(engine)).await;
    assert!(engine.health().ready, "jobs are handed out");

    let again = next(engine, 60_000).await;
    assert_eq!((again.id, again.attempt), (unsettled.id, 2));
    engine.extend(vec![(again.receipt(), Some(60_000))]).await.remove(0).unwrap();
    engine.pause(QUEUE, Pause::UntilResumed).await.unwrap();
    engine.resume(QUEUE).await.unwrap();
    complete(engine, &again).await;
    let other = next(engine, 60_000).await;
    assert_eq!(other.id, *ids.iter().find(|id| **id != again.id).unwrap(), "the limit goes on");
    complete(engine, &other).await;
    engine.cancel(vec![far.into()]).await.remove(0).unwrap();
    other.id
}

/// A request that waits for Redis does not hold up the stop of the process: its retries outlast a failover.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_stops_while_its_redis_does_not_answer() {
    let mut server = RedisServer::start();
    for ledger in [None, Some(ModelLedger::default())] {
        let engine = match &ledger {
            Some(ledger) => beside(&server, ledger).await,
            None => {
                let redis =
                    Redis::connect(&format!("{}?namespace=alone", server.url()), Options::default()).await.unwrap();
                Engine::start(redis.stores(), EngineOptions::default()).await.unwrap()
            }
        };
        let id = push(&engine, Due::After(Span(0))).await.unwrap();
        server.freeze();
        let cancelling = tokio::spawn({
            let engine = engine.clone();
            async move { engine.cancel(vec![id.into()]).await.remove(0) }
        });
        let is_away = || engine.health().degraded.iter().any(|what| what.detail.contains("no jobs are handed out"));
        until("its silence to be noticed", is_away).await;
        engine.stop().await.unwrap();
        assert!(!cancelling.is_finished(), "the stop did not wait for it");
        server.thaw();
        // It is made or refused; an engine that stops makes no promise.
        drop(cancelling.await.unwrap());
    }
}

/// Whether it is gone or only unresponsive.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_redis_does_not_answer_is_not_ready() {
    let mut server = RedisServer::start();
    let engine = beside(&server, &ModelLedger::default()).await;
    let is_said = || engine.health().degraded.iter().any(|what| what.detail.contains("no jobs are handed out"));
    let is_away = || !engine.health().ready && is_said();
    assert!(engine.health().ready);
    server.freeze();
    until("its silence to be said", is_away).await;
    server.thaw();
    until("it to be ready again", || engine.health().ready && !is_said()).await;
    server.kill();
    until("its absence to be said", is_away).await;
    server.start_again();
    until("it to be ready again", || engine.health().ready).await;
    engine.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_workers_jobs_come_back_in_a_full_redis() {
    let server = RedisServer::start();
    let redis = Redis::connect(&server.url(), Options::default()).await.unwrap();
    let engine = Engine::start(redis.stores(), EngineOptions::default()).await.unwrap();
    let done = work_goes_on(&server, &engine).await;
    assert_eq!(push(&engine, Due::After(Span(0))).await.unwrap_err().code(), "store_full");

    // Ended jobs make room.
    let body = || server.command(&["HLEN", "{duetime:default:0}:body"]);
    assert_eq!(body(), "3");
    engine.delete(vec![done.into()]).await.remove(0).unwrap();
    assert_eq!(body(), "2");

    make_room(&server);
    until("that there is room to be said", || engine.health().degraded.is_empty()).await;
    push(&engine, Due::After(Span(0))).await.unwrap();
    complete(&engine, &next(&engine, 60_000).await).await;
    engine.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_workers_jobs_come_back_in_a_full_redis_beside_a_ledger() {
    let server = RedisServer::start();
    let ledger = ModelLedger::default();
    let engine = beside(&server, &ledger).await;
    work_goes_on(&server, &engine).await;
    // The ledger has room: new jobs wait there.
    let id = push(&engine, Due::After(Span(0))).await.unwrap();
    until("outcomes to be recorded", || engine.health().backlog == 0).await;

    make_room(&server);
    assert_eq!(next(&engine, 60_000).await.id, id);
    until("that there is room to be said", || engine.health().degraded.is_empty()).await;
    engine.stop().await.unwrap();
}
