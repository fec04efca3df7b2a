//! Holding a lock.

use super::{LOCK, Subject, TTL_MS, granted, held};
use crate::json::Timestamp;
use crate::limits::{LOCK_NAME_BYTES_MAX, LOCK_OWNER_BYTES_MAX, LOCK_TTL_MS_DEFAULT, LOCK_TTL_MS_MAX, LOCK_TTL_MS_MIN};

/// All other owners are refused.
pub async fn a_lock_has_one_holder(s: Subject) {
    let (grant, is_new) = granted(s.ask("a", false).await);
    assert!(is_new);
    assert_eq!(grant.expires_at, Timestamp(s.now() + TTL_MS));
    s.pass(5_000);
    for owner in ["b", "c", "A", "a "] {
        assert_eq!(held(s.ask(owner, false).await).0, TTL_MS - 5_000);
    }
    assert_eq!(s.holder().await.as_deref(), Some("a"));
    assert!(s.release("a", grant.fence).await);
    s.acquire("b").await;
    held(s.ask("a", false).await);
}

/// Renewed: a lost answer does no harm.
pub async fn an_owner_gets_the_same_fence_again(s: Subject) {
    let first = s.acquire("a").await;
    s.pass(10_000);
    let (again, is_new) = granted(s.ask("a", false).await);
    assert_eq!((again.fence, again.expires_at, is_new), (first.fence, Timestamp(s.now() + TTL_MS), false));
    s.pass(TTL_MS - 1);
    held(s.ask("b", false).await);
    let (longer, _) = granted(s.ask_for(LOCK, "a", 60_000, true).await);
    assert_eq!((longer.fence, longer.expires_at), (first.fence, Timestamp(s.now() + 60_000)));
    s.pass(59_999);
    held(s.ask("b", false).await);
}

/// To the millisecond.
pub async fn a_lock_ends_when_its_time_is_over(s: Subject) {
    let first = s.acquire("a").await;
    s.pass(TTL_MS - 1);
    assert_eq!(held(s.ask("b", false).await).0, 1);
    s.pass(1);
    assert_eq!(s.holder().await, None);
    let (again, is_new) = granted(s.ask("a", false).await);
    assert!(is_new && again.fence > first.fence, "an owner that comes too late starts over");
    s.pass(TTL_MS);
    s.acquire("b").await;
}

/// From now on, earlier or later than before.
pub async fn a_renewal_moves_the_end(s: Subject) {
    let grant = s.acquire("a").await;
    s.pass(14_999);
    let renewed = s.renew("a", grant.fence, TTL_MS).await.unwrap();
    assert_eq!((renewed.fence, renewed.expires_at), (grant.fence, Timestamp(s.now() + TTL_MS)));
    s.pass(14_999);
    assert_eq!(s.renew("a", grant.fence, 1_000).await.unwrap().expires_at, Timestamp(s.now() + 1_000));
    s.pass(999);
    held(s.ask("b", false).await);
    s.pass(1);
    s.acquire("b").await;
}

/// Both.
pub async fn a_renewal_needs_owner_and_fence(s: Subject) {
    let grant = s.acquire("a").await;
    for (owner, fence) in [("b", grant.fence), ("a", grant.fence - 1), ("a", grant.fence + 1), ("a", 0)] {
        assert_eq!(s.renew(owner, fence, 60_000).await, None);
    }
    s.pass(TTL_MS);
    s.acquire("b").await;
}

/// Whether or not another owner has it.
pub async fn a_lock_that_ended_is_not_renewed(s: Subject) {
    let grant = s.acquire("a").await;
    s.pass(TTL_MS);
    assert_eq!(s.renew("a", grant.fence, TTL_MS).await, None);
    let next = s.acquire("b").await;
    assert_eq!(s.renew("a", grant.fence, TTL_MS).await, None);
    assert!(!s.release("a", grant.fence).await);
    assert!(s.renew("b", next.fence, TTL_MS).await.is_some());
    assert_eq!(s.renew("nobody", 1, TTL_MS).await, None);
}

/// Both: a stale holder frees nothing.
pub async fn a_release_needs_owner_and_fence(s: Subject) {
    let stale = s.acquire("a").await;
    s.release("a", stale.fence).await;
    let grant = s.acquire("a").await;
    for (owner, fence) in [("b", grant.fence), ("a", stale.fence), ("a", grant.fence + 1)] {
        assert!(!s.release(owner, fence).await);
    }
    assert_eq!(s.holder().await.as_deref(), Some("a"));
    assert!(s.release("a", grant.fence).await);
}

/// The answer is that it is not held.
pub async fn a_repeated_release_is_told(s: Subject) {
    let grant = s.acquire("a").await;
    assert!(s.release("a", grant.fence).await);
    assert!(!s.release("a", grant.fence).await);
    assert_eq!(s.holder().await, None);
}

/// Up to the longest.
pub async fn names_are_compared_byte_by_byte(s: Subject) {
    let long = "n".repeat(LOCK_NAME_BYTES_MAX);
    let owner = "o".repeat(LOCK_OWNER_BYTES_MAX);
    let names = ["a", "A", "a ", "ä", "a\u{308}", "a\0", "a:b", "{a}", "*", "\n", long.as_str(), &long[1..]];
    for name in names {
        assert!(granted(s.ask_for(name, &owner, TTL_MS, false).await).1, "{name:?}");
    }
    for name in names {
        assert_eq!(*s.inspect(name).await.unwrap().owner, owner);
        assert!(!granted(s.ask_for(name, &owner, TTL_MS, false).await).1);
        held(s.ask_for(name, &owner[1..], TTL_MS, true).await);
    }
    assert_eq!(s.release_all(&owner).await.released, names.len() as u64);
}

/// Neither changes.
pub async fn the_longest_and_the_shortest_life(s: Subject) {
    for ttl_ms in [LOCK_TTL_MS_MIN, LOCK_TTL_MS_DEFAULT, LOCK_TTL_MS_MAX] {
        let (grant, _) = granted(s.ask_for("l", "a", ttl_ms, false).await);
        assert_eq!(grant.expires_at, Timestamp(s.now() + ttl_ms));
        s.pass(ttl_ms - 1);
        assert_eq!(held(s.ask_for("l", "b", ttl_ms, false).await).0, 1);
        s.pass(1);
        assert_eq!(s.inspect("l").await, None);
    }
}

/// Its holder has died, and nobody has asked for it since.
pub async fn a_lock_of_a_clock_that_was_ahead_is_held_no_longer(s: Subject) {
    const AHEAD_MS: i64 = 600_000;
    granted(s.ask_for("before", "dead", 2 * TTL_MS, false).await);
    s.clock.step(AHEAD_MS);
    granted(s.ask_for("ahead", "dead", TTL_MS, false).await);
    s.clock.step(-AHEAD_MS);
    s.locks.sweep().await.expect("sweep");
    s.pass(TTL_MS - 1);
    assert!(s.inspect("ahead").await.is_some(), "nor shorter");
    s.pass(1);
    granted(s.ask_for("ahead", "b", TTL_MS, false).await);
    assert!(s.inspect("before").await.is_some(), "it was given for longer");
    s.pass(TTL_MS);
    granted(s.ask_for("before", "b", TTL_MS, false).await);
}
