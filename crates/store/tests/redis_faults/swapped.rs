//! A server that is demoted, emptied or replaced under us.

use crate::redis_faults::subject::{Subject, errors, until};
use duetime_core::State;
use duetime_core::ports::Extended;
use duetime_core::testing::fixtures::success;
use duetime_store::testing::{RedisSentinel, RedisServer};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_wait_until_a_demoted_master_is_one_again() {
    let server = RedisServer::start();
    let s = Subject::connect(&server.url()).await;
    s.push(1..=10).await.unwrap();
    let held = s.reserve(5).await.unwrap();
    // It has no master to follow, so it keeps its data.
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let push = tokio::spawn({
        let s = s.clone();
        async move { s.push(11..=20).await }
    });
    let reserve = tokio::spawn({
        let s = s.clone();
        async move { s.reserve(5).await }
    });
    let complete = tokio::spawn({
        let (s, receipt) = (s.clone(), held[0].receipt());
        async move { s.settle(receipt, success()).await }
    });
    until("all calls to be refused, and made again", || errors(&server, "READONLY") >= 6).await;
    assert!(!push.is_finished() && !reserve.is_finished() && !complete.is_finished());
    server.command(&["REPLICAOF", "NO", "ONE"]);
    push.await.unwrap().unwrap();
    assert_eq!(complete.await.unwrap().unwrap(), Some(State::Succeeded));
    assert_eq!(reserve.await.unwrap().unwrap().len(), 5);
    assert_eq!(s.counts().await, (10, 9, 1));
}

#[tokio::test]
async fn a_receipt_from_before_a_flush_is_refused() {
    let server = RedisServer::start();
    let s = Subject::connect(&server.url()).await;
    s.push([1]).await.unwrap();
    let old = s.one().await;
    server.command(&["FLUSHALL"]);
    assert_eq!(s.settle(old.receipt(), success()).await.unwrap(), None);
    assert_eq!(s.extend(old.receipt()).await.unwrap(), Extended::Lost);
    s.push([1]).await.unwrap();
    let new = s.one().await;
    assert_eq!(new.id, old.id);
    assert!(new.epoch > old.epoch, "{} after {}", new.epoch, old.epoch);
    assert_eq!(s.settle(old.receipt(), success()).await.unwrap(), None);
    assert_eq!(s.settle(new.receipt(), success()).await.unwrap(), Some(State::Succeeded));
}

/// The mark of the memory has changed, though the server has all the keys of a new one.
#[tokio::test]
async fn a_server_that_comes_back_empty_is_used_anew() {
    let mut server = RedisServer::start();
    let s = Subject::connect(&server.url()).await;
    s.push(1..=3).await.unwrap();
    let old = s.one().await;
    server.restart();
    assert_eq!(s.settle(old.receipt(), success()).await.unwrap(), None);
    s.push([4]).await.unwrap();
    assert_eq!(s.one().await.id, duetime_core::testing::fixtures::id(4));
    // Another process finds the same.
    let other = Subject::connect(&server.url()).await;
    other.push([5]).await.unwrap();
    assert_eq!(s.counts().await, (1, 1, 0));
}

/// Sentinel cannot always demote a master that it has replaced; nobody closes the connections to it then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_master_that_nobody_demoted_is_left() {
    let watched = RedisSentinel::start();
    let [former, successor, other] = watched.servers() else { panic!("one master and two replicas") };
    let s = Subject::connect(&watched.url()).await;
    s.push([1]).await.unwrap();
    former.wait_for_replicas(2);
    let port = successor.port().to_string();
    let tell = |what: &[&str]| watched.sentinels().iter().for_each(|sentinel| drop(sentinel.command(what)));
    tell(&["SENTINEL", "REMOVE", "mymaster"]);
    successor.command(&["REPLICAOF", "NO", "ONE"]);
    other.command(&["REPLICAOF", "127.0.0.1", &port]);
    tell(&["SENTINEL", "MONITOR", "mymaster", "127.0.0.1", &port, "2"]);
    let pushed = async { while s.push([2]).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(60), pushed).await.expect("the successor is found");
    assert!(errors(former, "NOREPLICAS") > 0, "it refused, and stayed a master");
    assert!(former.command(&["ROLE"]).starts_with("master"));
    assert!(successor.command(&["INFO", "commandstats"]).contains("cmdstat_evalsha"), "the successor is asked");
}
