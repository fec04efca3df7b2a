//! All locks of an owner.

use super::{LOCK, Subject, TTL_MS, granted, held};
use crate::limits::LOCK_LOST_KEPT_MS;
use crate::ports::Released;

async fn acquire_named(s: &Subject, name: &str, owner: &str) -> u64 {
    granted(s.ask_for(name, owner, TTL_MS, false).await).0.fence
}

/// And no others.
pub async fn all_locks_of_an_owner_are_released(s: Subject) {
    for name in ["x", "y", "z"] {
        acquire_named(&s, name, "a").await;
    }
    let fence = acquire_named(&s, "given back", "a").await;
    s.locks.release(&"given back".into(), &"a".into(), fence).await.expect("release");
    assert_eq!(s.release_all("a").await, Released { released: 3, lost: 0 });
    for name in ["x", "y", "z"] {
        acquire_named(&s, name, "b").await;
    }
    assert_eq!(s.release_all("a").await, Released::default());
    assert_eq!(s.release_all("nobody").await, Released::default());
}

/// Whether or not another owner holds them now.
pub async fn lost_locks_are_counted_once(s: Subject) {
    for name in ["x", "y"] {
        acquire_named(&s, name, "a").await;
    }
    s.pass(TTL_MS);
    acquire_named(&s, "y", "b").await;
    acquire_named(&s, "z", "a").await;
    assert_eq!(s.release_all("a").await, Released { released: 1, lost: 2 });
    assert_eq!(s.release_all("a").await, Released::default());
    assert_eq!(&*s.inspect("y").await.unwrap().owner, "b");
}

/// Once it was swept.
pub async fn what_was_lost_long_ago_is_forgotten(s: Subject) {
    acquire_named(&s, "x", "a").await;
    s.pass(TTL_MS + LOCK_LOST_KEPT_MS - 1);
    s.locks.sweep().await.expect("sweep");
    acquire_named(&s, "y", "a").await;
    s.pass(TTL_MS);
    s.locks.sweep().await.expect("sweep");
    s.locks.sweep().await.expect("sweep");
    assert_eq!(s.release_all("a").await, Released { released: 0, lost: 1 });
}

/// Also those with a common prefix.
pub async fn others_keep_theirs(s: Subject) {
    for owner in ["a", "a\0", "a0", "A", ""] {
        if !owner.is_empty() {
            acquire_named(&s, &format!("of {owner}"), owner).await;
        }
    }
    assert_eq!(s.release_all("a").await, Released { released: 1, lost: 0 });
    for owner in ["a\0", "a0", "A"] {
        assert_eq!(s.release_all(owner).await, Released { released: 1, lost: 0 });
    }
}

/// In steps.
pub async fn many_locks_are_released(s: Subject) {
    for n in 0..1_500 {
        acquire_named(&s, &format!("{LOCK}-{n}"), "a").await;
    }
    assert_eq!(s.release_all("a").await, Released { released: 1_500, lost: 0 });
    held_by_nobody(&s).await;
}

async fn held_by_nobody(s: &Subject) {
    let page = s.list(None, 1_000).await;
    assert_eq!(page.locks, []);
    acquire_named(s, LOCK, "b").await;
    held(s.ask("a", false).await);
}
