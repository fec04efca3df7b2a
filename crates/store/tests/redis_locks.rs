//! The store of locks in Redis: the conformance suite, and what only several processes can see.

use duetime_core::Clock;
use duetime_core::ports::Locks;
use duetime_core::testing::ManualClock;
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::shared_redis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

static LAST: AtomicU32 = AtomicU32::new(0);

async fn connect(url: &str, clock: Option<Arc<dyn Clock>>) -> Redis {
    Redis::connect(url, Options { clock, ..Options::default() }).await.expect("connected")
}

/// A namespace of its own on the server that all share.
fn namespace() -> String {
    format!("{}?namespace=t{}", shared_redis().url(), LAST.fetch_add(1, Ordering::Relaxed))
}

async fn locks(clock: Arc<ManualClock>) -> Arc<dyn Locks> {
    Arc::new(connect(&namespace(), Some(clock)).await)
}

duetime_core::locks_suite!(locks);
