//! Request ids, by which a server detects a repeated request.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A unique request id: a random prefix for each process, and a counter.
pub(crate) fn next() -> Arc<str> {
    static PROCESS: LazyLock<(u64, u64)> =
        LazyLock::new(|| (RandomState::new().hash_one(1_u8), RandomState::new().hash_one(2_u8)));
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (high, low) = *PROCESS;
    Arc::from(format!("{high:016x}{low:016x}-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
}
