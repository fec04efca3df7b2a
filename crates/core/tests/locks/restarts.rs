//! The state that a new process restores, and clocks that are set.

use duetime_core::Error;
use duetime_core::json::Timestamp;
use duetime_core::memory;
use duetime_core::ports::{Acquire, Acquired, Grant, Locks, Registry};
use duetime_core::testing::{ManualClock, ModelLedger};
use std::sync::Arc;

struct Store {
    clock: Arc<ManualClock>,
    registry: ModelLedger,
}

impl Store {
    fn new() -> Self {
        Self { clock: Arc::new(ManualClock::new()), registry: ModelLedger::default() }
    }

    /// A process begins over what an earlier one recorded.
    async fn start(&self) -> memory::Locks {
        let locks = memory::Locks::new(self.clock.clone(), Arc::new(self.registry.clone()));
        locks.start(Arc::new(|_, _| {})).await.unwrap();
        locks
    }

    async fn recorded(&self) -> Vec<String> {
        self.registry.documents("lock").await.unwrap().into_iter().map(|document| document.name).collect()
    }
}

async fn ask(locks: &memory::Locks, name: &str, owner: &str, ttl_ms: u64) -> Acquired {
    let acquire = Acquire { name: name.into(), owner: owner.into(), ttl_ms, waiting: false };
    locks.acquire(acquire).await.unwrap()
}

async fn acquire(locks: &memory::Locks, name: &str, owner: &str) -> Grant {
    match ask(locks, name, owner, 10_000).await {
        Acquired::Granted { grant, .. } => grant,
        held => panic!("{held:?}"),
    }
}

#[tokio::test]
async fn a_holder_gets_a_full_time_to_live_after_a_restart() {
    let store = Store::new();
    let grant = acquire(&store.start().await, "l", "a").await;
    store.clock.advance(9_999);
    let locks = store.start().await;
    assert_eq!(ask(&locks, "l", "b", 100).await, Acquired::Held { expires_in_ms: 10_000, again_in_ms: 1_000 });
    store.clock.advance(9_999);
    assert!(locks.renew(&"l".into(), &"a".into(), grant.fence, 10_000).await.unwrap().is_some());
    assert!(locks.release(&"l".into(), &"a".into(), grant.fence).await.unwrap());
    assert!(store.recorded().await.is_empty());
}

#[tokio::test]
async fn what_was_released_or_swept_does_not_come_back() {
    let store = Store::new();
    let locks = store.start().await;
    let grant = acquire(&locks, "released", "a").await;
    acquire(&locks, "over", "a").await;
    locks.release(&"released".into(), &"a".into(), grant.fence).await.unwrap();
    store.clock.advance(10_000);
    acquire(&locks, "held", "a").await;
    locks.sweep().await.unwrap();
    assert_eq!(store.recorded().await, ["held"]);
    let locks = store.start().await;
    assert_eq!(locks.list(None, 10).await.unwrap().locks.len(), 1);
}

#[tokio::test]
async fn fences_grow_over_a_restart_with_the_clock_set_back() {
    let store = Store::new();
    let mut last = 0;
    for _ in 0..3 {
        let locks = store.start().await;
        for _ in 0..3 {
            let grant = acquire(&locks, "l", "a").await;
            assert!(grant.fence > last);
            last = grant.fence;
            locks.release(&"l".into(), &"a".into(), grant.fence).await.unwrap();
        }
        store.clock.step(-3_600_000);
    }
}

#[tokio::test]
async fn a_stepped_clock_ends_no_lock_and_stretches_none() {
    let store = Store::new();
    let locks = store.start().await;
    acquire(&locks, "l", "a").await;
    store.clock.step(3_600_000);
    assert!(matches!(ask(&locks, "l", "b", 100).await, Acquired::Held { expires_in_ms: 10_000, .. }));
    store.clock.step(-7_200_000);
    store.clock.advance(10_000);
    acquire(&locks, "l", "b").await;
}

#[tokio::test]
async fn a_change_of_the_time_to_live_is_recorded() {
    let store = Store::new();
    let locks = store.start().await;
    let grant = acquire(&locks, "l", "a").await;
    locks.renew(&"l".into(), &"a".into(), grant.fence, 60_000).await.unwrap().unwrap();
    let locks = store.start().await;
    assert!(matches!(ask(&locks, "l", "b", 100).await, Acquired::Held { expires_in_ms: 60_000, .. }));
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_granted() {
    let store = Store::new();
    let locks = store.start().await;
    let held = acquire(&locks, "held", "a").await;
    store.registry.set_away(true);
    let question = Acquire { name: "l".into(), owner: "a".into(), ttl_ms: 1_000, waiting: true };
    assert!(matches!(locks.acquire(question).await, Err(Error::Unavailable(_))));
    assert_eq!(locks.inspect(&"l".into()).await.unwrap(), None);
    assert!(locks.release(&"held".into(), &"a".into(), held.fence).await.is_err());
    assert!(locks.renew(&"held".into(), &"a".into(), held.fence, 10_000).await.unwrap().is_some(), "it is still held");
    store.registry.set_away(false);
    acquire(&locks, "l", "b").await;
}

#[tokio::test]
async fn the_end_is_shown_by_the_wall_clock_as_it_stands() {
    let store = Store::new();
    let locks = store.start().await;
    let grant = acquire(&locks, "l", "a").await;
    let shown = async || locks.inspect(&"l".into()).await.unwrap().unwrap().grant.expires_at;
    store.clock.advance(5_000);
    store.clock.step(1);
    assert_eq!(shown().await, grant.expires_at, "each clock is read to the millisecond only");
    store.clock.step(3_600_000);
    assert_eq!(shown().await, Timestamp(grant.expires_at.0 + 3_600_001));
}
