//! Waiting in line.

use super::{LOCK, Subject, TTL_MS, granted, held};
use crate::limits::{LOCK_REFRESH_MS, LOCK_TICKET_MS, LOCK_TICKETS_MAX};

/// For the caller that asks first once the lock is free.
pub async fn first_come_first_served(s: Subject) {
    let mut grant = s.acquire("a").await;
    for owner in ["b", "c", "d"] {
        s.wait(owner).await;
    }
    let mut holder = "a";
    for next in ["b", "c", "d"] {
        assert!(s.release(holder, grant.fence).await);
        for other in ["d", "c", "b"] {
            if other > next {
                s.wait(other).await;
            }
        }
        grant = granted(s.ask(next, true).await).0;
        holder = next;
    }
}

/// An owner that does not wait does not overtake.
pub async fn a_free_lock_is_kept_for_the_first_in_line(s: Subject) {
    let grant = s.acquire("a").await;
    s.wait("b").await;
    s.release("a", grant.fence).await;
    assert_eq!(held(s.ask("c", false).await).0, LOCK_TICKET_MS);
    held(s.ask("a", false).await);
    assert_eq!(s.holder().await, None);
    granted(s.ask("b", false).await);
}

/// Nor does it block.
pub async fn an_abandoned_ticket_is_not_granted(s: Subject) {
    let grant = s.acquire("a").await;
    s.wait("b").await;
    s.wait("c").await;
    s.abandon("b").await;
    s.abandon("nobody").await;
    s.release("a", grant.fence).await;
    granted(s.ask("c", true).await);
    s.abandon("c").await;
    assert_eq!(s.holder().await.as_deref(), Some("c"), "to abandon is not to release");
}

/// To the millisecond.
pub async fn a_lapsed_ticket_blocks_nobody(s: Subject) {
    let grant = s.acquire("a").await;
    s.wait("dead").await;
    s.pass(1);
    s.wait("b").await;
    s.release("a", grant.fence).await;
    s.pass(LOCK_TICKET_MS - 2);
    s.wait("b").await;
    s.pass(1);
    granted(s.ask("b", true).await);
    held(s.ask("dead", true).await);
}

/// However long it waits.
pub async fn a_refreshed_ticket_keeps_its_place(s: Subject) {
    let grant = s.acquire("a").await;
    s.wait("b").await;
    s.wait("c").await;
    for _ in 0..4 {
        s.pass(LOCK_TICKET_MS - 1);
        s.wait("c").await;
        s.wait("b").await;
    }
    s.release("a", grant.fence).await;
    s.wait("c").await;
    granted(s.ask("b", true).await);
}

/// Asking twice refreshes it.
pub async fn a_ticket_is_taken_once(s: Subject) {
    let grant = s.acquire("a").await;
    for owner in ["b", "b", "c", "b"] {
        s.wait(owner).await;
    }
    s.abandon("b").await;
    s.release("a", grant.fence).await;
    granted(s.ask("c", true).await);
}

/// And its place.
pub async fn who_no_longer_waits_loses_the_ticket(s: Subject) {
    let grant = s.acquire("a").await;
    s.wait("b").await;
    s.wait("c").await;
    held(s.ask("b", false).await);
    s.wait("b").await;
    s.release("a", grant.fence).await;
    s.wait("b").await;
    granted(s.ask("c", true).await);
}

/// Waiters get the time: the store does not report the expiry of a lock.
pub async fn the_end_is_foretold(s: Subject) {
    s.acquire("a").await;
    assert_eq!(s.wait("b").await, (TTL_MS, LOCK_REFRESH_MS));
    for _ in 0..14 {
        s.pass(LOCK_REFRESH_MS);
        s.wait("b").await;
    }
    s.pass(LOCK_REFRESH_MS / 2);
    assert_eq!(s.wait("b").await, (LOCK_REFRESH_MS / 2, LOCK_REFRESH_MS / 2));
    assert_eq!(s.wait("c").await.1, LOCK_REFRESH_MS, "somebody is ahead");
    s.pass(LOCK_REFRESH_MS / 2);
    granted(s.ask("b", true).await);
}

/// When all owners ahead may be dead.
pub async fn the_lapse_is_foretold(s: Subject) {
    let grant = s.acquire("a").await;
    s.wait("dead").await;
    s.pass(500);
    s.wait("b").await;
    s.release("a", grant.fence).await;
    assert_eq!(s.wait("b").await, (LOCK_TICKET_MS - 500, LOCK_REFRESH_MS));
    s.pass(2_000);
    let (expires_in_ms, again_in_ms) = s.wait("b").await;
    assert_eq!((expires_in_ms, again_in_ms), (LOCK_TICKET_MS - 2_500, LOCK_TICKET_MS - 2_500));
    s.pass(again_in_ms);
    granted(s.ask("b", true).await);
}

/// It blocks nobody after the release.
pub async fn a_grant_uses_the_ticket_up(s: Subject) {
    let first = s.acquire("a").await;
    s.wait("b").await;
    s.wait("c").await;
    s.release("a", first.fence).await;
    let (grant, _) = granted(s.ask("b", true).await);
    s.wait("c").await;
    s.release("b", grant.fence).await;
    granted(s.ask("c", true).await);
}

/// Neither on release nor on expiry.
pub async fn nobody_is_granted_who_does_not_ask(s: Subject) {
    let grant = s.acquire("a").await;
    s.wait("b").await;
    s.release("a", grant.fence).await;
    assert_eq!(s.holder().await, None);
    s.pass(LOCK_TICKET_MS);
    s.acquire("c").await;
    s.wait("b").await;
    s.pass(TTL_MS);
    assert_eq!(s.holder().await, None);
}

/// An owner that comes when it is full waits without a place, until there is one.
pub async fn a_line_is_bounded(s: Subject) {
    let grant = s.acquire("a").await;
    for n in 0..LOCK_TICKETS_MAX {
        s.wait(&format!("w{n}")).await;
    }
    assert_eq!(s.wait("late").await, (TTL_MS, LOCK_REFRESH_MS));
    s.abandon("w0").await;
    s.wait("next").await;
    s.wait("late").await;
    for n in 1..LOCK_TICKETS_MAX {
        s.abandon(&format!("w{n}")).await;
    }
    s.release("a", grant.fence).await;
    held(s.ask_for(LOCK, "late", TTL_MS, true).await);
    granted(s.ask("next", true).await);
}
