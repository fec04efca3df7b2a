//! The data that is kept about locks, and for how long.

use super::{LOCK, TTL_MS, acquire, ask, connect, granted, release};
use duetime_core::limits::{DAY_MS, LOCK_TICKET_MS};
use duetime_core::ports::{Acquired, Locks};
use duetime_core::testing::ManualClock;
use duetime_store::testing::RedisServer;
use std::sync::Arc;

const HOUR_MS: i64 = 3_600_000;

#[tokio::test]
async fn nothing_is_kept_of_locks_that_nobody_uses() {
    let server = RedisServer::start();
    let clock = Arc::new(ManualClock::new());
    let node = connect(&server.url(), Some(clock.clone())).await;
    for n in 0..250 {
        let name = format!("lock-{n}");
        let Acquired::Granted { grant, .. } = ask(&node, &name, "a", false).await else { panic!("it is free") };
        for waiter in ["b", "c"] {
            ask(&node, &name, waiter, true).await;
        }
        if n % 2 == 0 {
            node.release(&name.as_str().into(), &"a".into(), grant.fence).await.unwrap();
        }
    }
    clock.advance(DAY_MS);
    for _ in 0..2 {
        node.sweep().await.unwrap();
        clock.advance(DAY_MS);
    }
    let keys = server.command(&["KEYS", "*:lock:*"]);
    let kept: Vec<&str> = keys.lines().filter(|key| !key.ends_with(":lock:fence")).collect();
    // These go by themselves.
    assert!(kept.iter().all(|key| key.contains(":lock:request:")), "{kept:?}");
    assert_eq!(kept.len(), 1, "one at a time");
    assert_ne!(server.command(&["PTTL", kept[0]]), "-1");
}

#[tokio::test]
async fn what_was_released_leaves_nothing() {
    let server = RedisServer::start();
    let node = connect(&server.url(), None).await;
    for n in 0..100 {
        let owner = format!("owner-{n}");
        let fence = acquire(&node, &owner).await.fence;
        assert!(release(&node, &owner, fence).await);
    }
    let keys = server.command(&["KEYS", "*:lock:*"]);
    assert_eq!(keys.lines().count(), 2, "the fence and a request: {keys}");
}

/// Neither the grant nor a ticket.
#[tokio::test]
async fn a_clock_that_is_set_back_keeps_nothing_longer() {
    let clock = Arc::new(ManualClock::new());
    let node = connect(&super::place(), Some(clock.clone())).await;
    acquire(&node, "a").await;
    ask(&node, LOCK, "dead", true).await;
    clock.step(-HOUR_MS);
    let held = ask(&node, LOCK, "b", true).await;
    assert!(matches!(held, Acquired::Held { expires_in_ms: TTL_MS, .. }), "{held:?}");
    clock.advance(LOCK_TICKET_MS - 1);
    ask(&node, LOCK, "b", true).await;
    clock.advance(TTL_MS - LOCK_TICKET_MS);
    assert_eq!(granted(&node, "other").await, None, "it is held for a millisecond yet");
    clock.advance(1);
    acquire(&node, "c").await;
}
