//! Several nodes on one server.

use super::{LOCK, TTL_MS, acquire, ask, connect, granted, place, release};
use duetime_core::engine::{Engine, Options};
use duetime_core::limits::{LOCK_NAME_BYTES_MAX, LOCK_OWNER_BYTES_MAX};
use duetime_core::ports::{Acquired, Locks};
use duetime_store::redis::Redis;
use duetime_store::testing::RedisCluster;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// An engine that keeps all it has in Redis.
pub(crate) async fn engine(redis: Redis) -> Engine {
    Engine::start(redis.stores(), Options::default()).await.expect("started")
}

#[tokio::test]
async fn nodes_share_their_locks() {
    let url = place();
    let (one, other) = (connect(&url, None).await, connect(&url, None).await);
    let fence = acquire(&one, "a").await.fence;
    assert_eq!(granted(&other, "b").await, None);
    assert_eq!(acquire(&other, "a").await.fence, fence, "an owner is no node");
    assert!(release(&other, "a", fence).await);
    assert!(acquire(&other, "b").await.fence > fence);
    assert!(!release(&one, "a", fence).await);
}

#[tokio::test]
async fn namespaces_share_nothing() {
    let (one, other) = (connect(&place(), None).await, connect(&place(), None).await);
    acquire(&one, "a").await;
    acquire(&other, "b").await;
}

/// Names of locks and owners may be as long as the limits allow.
#[tokio::test]
async fn a_released_lock_wakes_the_waiter_on_the_other_node() {
    let url = place();
    let (one, other) = (connect(&url, None).await, connect(&url, None).await);
    let (sender, mut told) = mpsc::unbounded_channel();
    let tell = move |name: &Arc<str>, owner: &Arc<str>| sender.send((name.clone(), owner.clone())).expect("heard");
    other.start(Arc::new(tell)).await.unwrap();
    let (longest, waiter) = ("ä".repeat(LOCK_NAME_BYTES_MAX / 2), "ö".repeat(LOCK_OWNER_BYTES_MAX / 2));
    for (name, owner) in [(LOCK, "b"), ("\0", "\0"), ("a\0b", "\u{1}c"), ("1", "23"), (&longest, &waiter)] {
        let Acquired::Granted { grant, .. } = ask(&one, name, "a", false).await else { panic!("{name:?} is free") };
        assert!(matches!(ask(&other, name, owner, true).await, Acquired::Held { .. }));
        assert!(one.release(&name.into(), &"a".into(), grant.fence).await.unwrap());
        let turn = tokio::time::timeout(Duration::from_secs(10), told.recv()).await.expect("told").unwrap();
        assert_eq!((&*turn.0, &*turn.1), (name, owner));
        assert!(matches!(ask(&other, name, owner, true).await, Acquired::Granted { .. }));
    }
}

/// All keys are in one slot, and messages published on one server reach the others.
#[tokio::test]
async fn locks_lie_in_one_slot_of_a_cluster() {
    let cluster = RedisCluster::masters_only();
    let (one, other) = (connect(&cluster.url(), None).await, connect(&cluster.url(), None).await);
    let (sender, mut told) = mpsc::unbounded_channel();
    let tell = move |name: &Arc<str>, owner: &Arc<str>| sender.send((name.clone(), owner.clone())).expect("heard");
    other.start(Arc::new(tell)).await.unwrap();
    let fence = acquire(&one, "a").await.fence;
    ask(&other, LOCK, "b", true).await;
    assert!(release(&one, "a", fence).await);
    let turn = tokio::time::timeout(Duration::from_secs(10), told.recv()).await.expect("told").unwrap();
    assert_eq!((&*turn.0, &*turn.1), (LOCK, "b"));
    assert!(matches!(ask(&other, LOCK, "b", true).await, Acquired::Granted { .. }));
    assert_eq!(one.list(None, 10).await.unwrap().locks.len(), 1);
    assert_eq!(other.release_all(&"b".into()).await.unwrap().released, 1);
    one.sweep().await.unwrap();
}

/// All that an engine needs in one.
#[tokio::test]
async fn engines_contend() {
    let url = place();
    let engines = [engine(connect(&url, None).await).await, engine(connect(&url, None).await).await];
    let contend = |engine: Engine, owner: &'static str| async move {
        let mut fences = Vec::new();
        for _ in 0..50 {
            let request = super::stress::request(LOCK, owner.into(), TTL_MS);
            let fence = engine.acquire(request).await.expect("acquired").fence;
            let holding = engine.inspect(LOCK).await.unwrap().expect("it is held");
            assert_eq!((&*holding.owner, holding.grant.fence), (owner, fence));
            engine.release_lock(LOCK, owner, fence).await.expect("released");
            fences.push(fence);
        }
        fences
    };
    let (a, b) = tokio::join!(contend(engines[0].clone(), "a"), contend(engines[1].clone(), "b"));
    assert!(a.is_sorted() && b.is_sorted());
    assert!(a[0] < b[49] && b[0] < a[49], "they take turns");
    for engine in engines {
        engine.stop().await.unwrap();
    }
}
