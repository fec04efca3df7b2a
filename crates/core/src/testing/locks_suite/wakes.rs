//! Wakes of waiters. Only the first in line is woken, to avoid a thundering herd.

use super::{LOCK, Subject, TTL_MS, granted};

fn told_to(told: &[(String, String)]) -> Vec<&str> {
    told.iter().map(|(_, owner)| owner.as_str()).collect()
}

/// To the first in line.
pub async fn a_release_is_told(s: Subject) {
    let grant = s.acquire("a").await;
    s.wait("b").await;
    s.wait("c").await;
    s.release("a", grant.fence).await;
    assert!(!told_to(&s.told(LOCK, "b").await).contains(&"c"));
    granted(s.ask("b", true).await);
}

/// Whether the lock is free or held: its end concerns another one now.
pub async fn an_abandoned_place_is_told_to_the_next(s: Subject) {
    let grant = s.acquire("a").await;
    for owner in ["b", "c", "d"] {
        s.wait(owner).await;
    }
    s.abandon("b").await;
    s.told(LOCK, "c").await;
    s.release("a", grant.fence).await;
    s.told(LOCK, "c").await;
    s.abandon("c").await;
    assert!(!told_to(&s.told(LOCK, "d").await).contains(&"b"));
    granted(s.ask("d", true).await);
}

/// It is first now, and may learn when the lock ends.
pub async fn a_grant_is_told_to_the_next(s: Subject) {
    s.acquire("a").await;
    s.pass(TTL_MS - 10);
    s.wait("b").await;
    s.wait("c").await;
    s.pass(10);
    granted(s.ask_for(LOCK, "b", 100, true).await);
    s.told(LOCK, "c").await;
    assert_eq!(s.wait("c").await.1, 100);
}

/// For each of the locks.
pub async fn releasing_all_is_told(s: Subject) {
    for name in ["x", "y"] {
        granted(s.ask_for(name, "a", TTL_MS, false).await);
        s.ask_for(name, &format!("waits for {name}"), TTL_MS, true).await;
    }
    s.release_all("a").await;
    s.told("x", "waits for x").await;
    granted(s.ask_for("y", "waits for y", TTL_MS, true).await);
}

/// It would look too late.
pub async fn an_end_that_comes_nearer_is_told(s: Subject) {
    let grant = s.acquire("a").await;
    s.wait("b").await;
    s.renew("a", grant.fence, 100).await.expect("it is held");
    s.told(LOCK, "b").await;
    assert_eq!(s.wait("b").await, (100, 100));
}
