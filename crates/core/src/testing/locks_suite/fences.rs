//! Fences.

use super::{LOCK, Subject, TTL_MS, granted};
use crate::ports::Acquire;

/// Even if the clock stands still.
pub async fn a_fence_grows_with_each_grant(s: Subject) {
    let mut last = 0;
    for owner in ["a", "b", "a", "c"] {
        let grant = s.acquire(owner).await;
        assert!(grant.fence > last);
        last = grant.fence;
        assert!(s.release(owner, grant.fence).await);
    }
    s.acquire("a").await;
    s.pass(TTL_MS);
    assert!(s.acquire("b").await.fence > last + 1, "by taking over, too");
}

/// So that no fence is lost with its lock.
pub async fn fences_grow_over_all_locks(s: Subject) {
    let mut last = 0;
    for name in ["z", "a", "m"] {
        let (grant, _) = granted(s.ask_for(name, "o", TTL_MS, false).await);
        assert!(grant.fence > last);
        last = grant.fence;
    }
}

/// By the clock.
pub async fn fences_grow_over_a_lost_memory(s: Subject) {
    let before = s.acquire("a").await.fence;
    s.pass(1);
    let again = Acquire { name: LOCK.into(), owner: "b".into(), ttl_ms: TTL_MS, waiting: false };
    assert!(granted(s.fresh.acquire(again).await.expect("acquire")).0.fence > before);
}

/// By the last one.
pub async fn fences_grow_under_a_clock_set_back(s: Subject) {
    let first = s.acquire("a").await.fence;
    s.release("a", first).await;
    s.clock.step(-3_600_000);
    assert!(s.acquire("b").await.fence > first);
}
