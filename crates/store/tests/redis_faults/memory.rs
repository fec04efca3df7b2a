//! A Redis that has reached its `maxmemory`.

use crate::redis_faults::subject::Subject;
use duetime_core::ports::Extended;
use duetime_core::testing::fixtures::{again, finish, success};
use duetime_core::{Error, Stage, State};
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
    assert!(matches!(error, Error::Full(_)), "{error:?}");
    assert_eq!(error.code(), "store_full");

    let jobs = s.reserve(5).await.unwrap();
    let [done, retried, failed, given_back, extended] = jobs.as_slice() else { panic!("{jobs:?}") };
    assert!(matches!(s.extend(extended.receipt()).await.unwrap(), Extended::Until { .. }));
    assert_eq!(s.settle(done.receipt(), success()).await.unwrap(), Some(State::Succeeded));
    let later = again(retried, retried.due_at + 600_000);
    assert_eq!(s.settle(retried.receipt(), later).await.unwrap(), Some(State::Scheduled));
    assert_eq!(s.settle(failed.receipt(), finish(Stage::Failed)).await.unwrap(), Some(State::Failed));
    let at_once = again(given_back, given_back.due_at);
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
    assert!(matches!(s.push([4]).await, Err(Error::Full(_))));
}
