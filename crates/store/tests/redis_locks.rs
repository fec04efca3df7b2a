//! The store of locks in Redis: the conformance suite, and cases that only Redis or several processes have.

mod faults;
mod nodes;
pub(crate) mod proxy;
mod stress;
mod upkeep;

use duetime_core::Clock;
use duetime_core::ports::{Acquire, Acquired, Grant, Locks};
use duetime_core::testing::ManualClock;
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::shared_redis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const LOCK: &str = "stock-42";
const TTL_MS: u64 = 15_000;

async fn connect(url: &str, clock: Option<Arc<dyn Clock>>) -> Redis {
    Redis::connect(url, Options { clock, ..Options::default() }).await.expect("connected")
}

/// Its own namespace on the server that all share.
fn place() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("{}?namespace=t{}", shared_redis().url(), LAST.fetch_add(1, Ordering::Relaxed))
}

async fn locks(clock: Arc<ManualClock>) -> Arc<dyn Locks> {
    Arc::new(connect(&place(), Some(clock)).await)
}

duetime_core::locks_suite!(locks);

async fn ask(node: &Redis, name: &str, owner: &str, waiting: bool) -> Acquired {
    let acquire = Acquire { name: name.into(), owner: owner.into(), ttl_ms: TTL_MS, waiting };
    node.acquire(acquire).await.expect("acquire")
}

/// The grant of [`LOCK`], and whether it is new; `None` if it is held.
async fn granted(node: &Redis, owner: &str) -> Option<(Grant, bool)> {
    match ask(node, LOCK, owner, false).await {
        Acquired::Granted { grant, is_new } => Some((grant, is_new)),
        Acquired::Held { .. } => None,
    }
}

async fn acquire(node: &Redis, owner: &str) -> Grant {
    granted(node, owner).await.expect("it is free").0
}

async fn release(node: &Redis, owner: &str, fence: u64) -> bool {
    node.release(&LOCK.into(), &owner.into(), fence).await.expect("release")
}
