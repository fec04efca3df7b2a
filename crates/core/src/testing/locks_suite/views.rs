//! Looking at locks.

use super::{LOCK, Subject, TTL_MS, granted};
use crate::json::Timestamp;
use crate::ports::Holding;

/// With its remaining time.
pub async fn a_lock_is_seen_as_it_is(s: Subject) {
    assert_eq!(s.inspect(LOCK).await, None);
    let grant = s.acquire("a").await;
    s.pass(5_001);
    let holding = Holding { name: LOCK.into(), owner: "a".into(), grant, waiting: 0 };
    assert_eq!(s.inspect(LOCK).await, Some(holding.clone()));
    s.wait("b").await;
    s.wait("c").await;
    let waited_for = Holding { waiting: 2, ..holding };
    assert_eq!(s.inspect(LOCK).await, Some(waited_for.clone()));
    assert_eq!(s.list(None, 10).await.locks, [waited_for]);
    s.abandon("c").await;
    assert_eq!(s.inspect(LOCK).await.map(|holding| holding.waiting), Some(1));
    s.release("a", grant.fence).await;
    assert_eq!(s.inspect(LOCK).await, None);
}

async fn hold(s: &Subject, names: &[&str]) {
    for name in names {
        granted(s.ask_for(name, "a", TTL_MS, false).await);
    }
}

async fn names(s: &Subject, limit: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let page = s.list(after.as_deref(), limit).await;
        assert!(page.locks.len() <= limit);
        names.extend(page.locks.iter().map(|holding| holding.name.to_string()));
        match page.next_cursor {
            Some(next) => after = Some(next.to_string()),
            None => return names,
        }
    }
}

/// Byte by byte; locks that are only waited for, or have ended, are left out.
pub async fn a_listing_goes_by_name(s: Subject) {
    hold(&s, &["over"]).await;
    s.pass(TTL_MS);
    hold(&s, &["b", "a", "B", "ä", "a "]).await;
    let page = s.list(None, 1_000).await;
    let names: Vec<&str> = page.locks.iter().map(|holding| &*holding.name).collect();
    assert_eq!((names, page.next_cursor), (vec!["B", "a", "a ", "b", "ä"], None));
    assert!(
        page.locks
            .iter()
            .all(|holding| &*holding.owner == "a" && holding.grant.expires_at == Timestamp(s.now() + TTL_MS))
    );
}

/// In pages of any size.
pub async fn a_listing_is_paged(s: Subject) {
    let all: Vec<String> = (0..25).map(|n| format!("lock-{n:02}")).collect();
    hold(&s, &all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for limit in [1, 7, 25, 26] {
        assert_eq!(names(&s, limit).await, all);
    }
}

/// Locks that are held or waited for stay.
pub async fn a_sweep_changes_nothing_that_counts(s: Subject) {
    hold(&s, &["over"]).await;
    s.pass(TTL_MS);
    let grant = s.acquire("a").await;
    s.wait("b").await;
    s.wait("c").await;
    s.locks.sweep().await.expect("sweep");
    assert_eq!(names(&s, 10).await, [LOCK]);
    s.release("a", grant.fence).await;
    s.locks.sweep().await.expect("sweep");
    s.wait("c").await;
    granted(s.ask("b", true).await);
    granted(s.ask_for("over", "b", TTL_MS, false).await);
}
