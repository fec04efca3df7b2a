//! Replies that are lost, connections that are killed, a server that is emptied or full.

use super::proxy::Lossy;
use super::{LOCK, TTL_MS, acquire, ask, connect, granted, release};
use duetime_core::Error;
use duetime_core::ports::{Acquire, Acquired, Locks, Released};
use duetime_core::testing::ManualClock;
use duetime_store::redis::Redis;
use duetime_store::testing::RedisServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A server, a way to it and a node that takes it, which has sent each script before.
async fn shaky() -> (RedisServer, Lossy, Redis) {
    let server = RedisServer::start();
    let proxy = Lossy::to(server.port());
    let node = connect(&proxy.url(), None).await;
    let fence = acquire(&node, "before").await.fence;
    assert!(release(&node, "before", fence).await);
    node.release_all(&"before".into()).await.expect("release all");
    (server, proxy, node)
}

#[tokio::test]
async fn a_grant_whose_reply_is_lost_is_new() {
    let (_server, proxy, node) = shaky().await;
    proxy.lose_a_reply();
    let (grant, is_new) = granted(&node, "a").await.unwrap();
    assert!(is_new && proxy.lost() == 1);
    proxy.lose_a_reply();
    let (again, is_new) = granted(&node, "a").await.unwrap();
    assert_eq!((again.fence, is_new, proxy.lost()), (grant.fence, false, 2));
}

#[tokio::test]
async fn a_release_whose_reply_is_lost_is_true() {
    let (_server, proxy, node) = shaky().await;
    let fence = acquire(&node, "a").await.fence;
    proxy.lose_a_reply();
    assert!(release(&node, "a", fence).await);
    assert_eq!(proxy.lost(), 1);
    assert!(!release(&node, "a", fence).await, "another one");
    acquire(&node, "b").await;
}

#[tokio::test]
async fn a_stale_release_whose_reply_is_lost_is_false() {
    let (_server, proxy, node) = shaky().await;
    let stale = acquire(&node, "a").await.fence;
    assert!(release(&node, "a", stale).await);
    let fence = acquire(&node, "a").await.fence;
    proxy.lose_a_reply();
    assert!(!release(&node, "a", stale).await);
    assert_eq!(proxy.lost(), 1);
    assert!(release(&node, "a", fence).await);
}

#[tokio::test]
async fn releasing_all_counts_once_where_a_reply_is_lost() {
    let (_server, proxy, node) = shaky().await;
    for n in 0..250 {
        ask(&node, &format!("lock-{n}"), "a", false).await;
    }
    proxy.lose_a_reply();
    let all = node.release_all(&"a".into()).await.expect("release all");
    assert_eq!((all, proxy.lost()), (Released { released: 250, lost: 0 }, 1));
}

/// A request that was buffered while it was sent again elsewhere reaches the server after everything is over.
#[tokio::test]
async fn a_question_that_comes_late_grants_nothing() {
    let (_server, proxy, node) = shaky().await;
    proxy.lose_a_reply();
    let fence = acquire(&node, "a").await.fence;
    assert!(proxy.repeat().await.contains(&fence.to_string()), "it is the same one");
    assert!(release(&node, "a", fence).await);
    assert!(!proxy.repeat().await.contains("ERR"));
    assert_eq!(node.inspect(&LOCK.into()).await.unwrap(), None);
    let fence = acquire(&node, "b").await.fence;
    proxy.repeat().await;
    assert_eq!(node.inspect(&LOCK.into()).await.unwrap().unwrap().grant.fence, fence);
    assert!(release(&node, "b", fence).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_do_no_harm() {
    const ROUNDS: usize = 300;
    let server = Arc::new(RedisServer::start());
    let is_over = Arc::new(AtomicBool::new(false));
    let (killed, over) = (server.clone(), is_over.clone());
    let killer = tokio::spawn(async move {
        let mut pause = tokio::time::interval(Duration::from_millis(15));
        while !over.load(Ordering::Relaxed) {
            pause.tick().await;
            killed.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        }
    });
    let nodes = [connect(&server.url(), None).await, connect(&server.url(), None).await];
    let mut last = 0;
    for round in 0..ROUNDS {
        let (node, other) = (&nodes[round % 2], &nodes[(round + 1) % 2]);
        let owner = format!("owner-{round}");
        let (grant, is_new) = granted(node, &owner).await.expect("nobody else holds it");
        assert!(is_new && grant.fence > last);
        assert_eq!(granted(other, "other").await, None);
        assert!(node.renew(&LOCK.into(), &owner.as_str().into(), grant.fence, TTL_MS).await.unwrap().is_some());
        assert!(release(node, &owner, grant.fence).await, "round {round}");
        last = grant.fence;
    }
    is_over.store(true, Ordering::Relaxed);
    killer.await.unwrap();
}

#[tokio::test]
async fn a_flush_ends_all_grants_and_fences_grow_on() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server.url(), None).await, connect(&server.url(), None).await);
    let mut old = 0;
    for round in 0..20 {
        let fence = acquire(if round % 2 == 0 { &other } else { &one }, "a").await.fence;
        assert!(fence > old, "round {round}: also within a millisecond");
        old = fence;
        server.command(&["FLUSHALL"]);
    }
    let new = acquire(&other, "b").await.fence;
    assert!(new > old);
    assert_eq!(one.renew(&LOCK.into(), &"a".into(), old, TTL_MS).await.unwrap(), None);
    assert!(!release(&one, "a", old).await);
    assert_eq!(granted(&one, "a").await, None);
    assert!(release(&other, "b", new).await);
    assert!(acquire(&one, "a").await.fence > new);
}

/// More fences were given than milliseconds have passed, so the process's own knowledge decides.
#[tokio::test]
async fn fences_grow_over_a_flush_faster_than_the_clock() {
    let server = RedisServer::start();
    let node = connect(&server.url(), Some(Arc::new(ManualClock::new()))).await;
    let mut last = 0;
    for round in 0..10 {
        let fence = acquire(&node, "a").await.fence;
        assert!(fence > last);
        last = fence;
        if round % 3 == 0 { drop(server.command(&["FLUSHALL"])) } else { assert!(release(&node, "a", fence).await) }
    }
}

#[tokio::test]
async fn a_lock_is_renewed_and_released_when_memory_is_full() {
    let server = RedisServer::start();
    let node = connect(&server.url(), None).await;
    let fence = acquire(&node, "a").await.fence;
    for name in ["x", "y"] {
        ask(&node, name, "a", false).await;
    }
    assert!(matches!(ask(&node, "x", "b", true).await, Acquired::Held { .. }));
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let asked = Acquire { name: "z".into(), owner: "b".into(), ttl_ms: TTL_MS, waiting: true };
    assert!(matches!(node.acquire(asked).await, Err(Error::Full(_))));
    assert!(node.renew(&LOCK.into(), &"a".into(), fence, TTL_MS).await.unwrap().is_some());
    assert!(release(&node, "a", fence).await);
    assert_eq!(node.release_all(&"a".into()).await.unwrap(), Released { released: 2, lost: 0 });
    node.abandon(&"x".into(), &"b".into()).await.unwrap();
    node.sweep().await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(matches!(ask(&node, "x", "c", false).await, Acquired::Granted { .. }));
}
