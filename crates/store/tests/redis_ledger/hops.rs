//! The cost of a failed attempt: its job is read once, without the payload, and written once.

use super::many_queues::calls;
use duetime_core::api::Span;
use duetime_core::engine::{Engine, Options as EngineOptions, Outcome, ReserveRequest, Source};
use duetime_core::model::retry::{Retry, WhenExhausted};
use duetime_core::rules::Failure;
use duetime_core::{JobOptions, NewJob, State};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::RedisServer;

const PAYLOAD_BYTES: usize = 1 << 20;

/// The number of bytes that Redis has sent so far.
fn answered(server: &RedisServer) -> usize {
    let info = server.command(&["INFO", "stats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).expect("Redis says how much it answered")
}

fn reserve(queue: &str) -> ReserveRequest {
    let from = Source::Queues(vec![queue.into()]);
    ReserveRequest::new(from).limit(1).wait(Span(5_000))
}

#[tokio::test]
async fn a_failed_attempt_does_not_read_the_payload() {
    let server = RedisServer::start();
    let redis = Redis::connect(&server.url(), Options::default()).await.unwrap();
    let engine = Engine::start(redis.stores(), EngineOptions::default()).await.unwrap();
    let payload = vec![b'x'; PAYLOAD_BYTES];
    let moves = Retry { when_exhausted: Some(WhenExhausted::Move("dead".into())), ..Retry::default() };
    let new = NewJob {
        queue: "q".into(),
        options: JobOptions { retry: moves, ..JobOptions::default() },
        ..NewJob::new(payload.clone())
    };
    engine.push(vec![new]).await.unwrap().remove(0).unwrap();
    let release = Outcome::release(Span(0));
    let fail = Outcome::Fail(Failure { retry_after: Some(Span(0)), ..Failure::default() });
    for outcome in [release, fail] {
        let lease = engine.reserve(reserve("q")).await.unwrap().leases.remove(0);
        let (bytes, scripts) = (answered(&server), calls(&server, "evalsha"));
        let settled = engine.settle(vec![(lease.job.receipt(), outcome)]).await.remove(0).unwrap();
        assert_eq!(settled.state, State::Ready);
        // Background tasks look for leases that are over, and ask for figures.
        let (bytes, scripts) = (answered(&server) - bytes, calls(&server, "evalsha") - scripts);
        assert!(bytes < PAYLOAD_BYTES / 10, "{bytes} bytes");
        assert!((2..=4).contains(&scripts), "{scripts} scripts");
    }
    // Only a copy needs it.
    let lease = engine.reserve(reserve("q")).await.unwrap().leases.remove(0);
    let fail = Outcome::Fail(Failure { is_final: true, ..Failure::default() });
    engine.settle(vec![(lease.job.receipt(), fail)]).await.remove(0).unwrap();
    let copy = engine.reserve(reserve("dead")).await.unwrap().leases.remove(0).job;
    assert_eq!(*copy.payload, *payload);
    engine.stop().await.unwrap();
}

/// Live jobs and totals come from one reading.
#[tokio::test]
async fn what_is_in_a_queue_is_asked_once() {
    let server = RedisServer::start();
    let redis = Redis::connect(&server.url(), Options::default()).await.unwrap();
    let engine = Engine::start(redis.stores(), EngineOptions::default()).await.unwrap();
    engine.push(vec![NewJob { queue: "q".into(), ..NewJob::new(*b"{}") }]).await.unwrap().remove(0).unwrap();
    let mut costs = Vec::new();
    // Background tasks ask something now and then, too.
    for _ in 0..10 {
        let before = calls(&server, "evalsha");
        let status = engine.queue("q").await.unwrap();
        costs.push(calls(&server, "evalsha") - before);
        assert_eq!((status.counts.ready, status.tally.pending, status.tally.totals.pushed), (1, 1, 1));
    }
    assert_eq!(costs.iter().min(), Some(&1), "{costs:?}");
    engine.stop().await.unwrap();
}
