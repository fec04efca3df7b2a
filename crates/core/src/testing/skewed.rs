//! A clock that is ahead of another, or behind it.

use crate::clock::{Clock, Millis};
use crate::testing::TokioClock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A memory's own clock.
#[derive(Debug)]
pub(super) struct Skewed {
    clock: Arc<TokioClock>,
    pub(super) by_ms: AtomicI64,
}

impl Skewed {
    pub(super) fn new(clock: &Arc<TokioClock>, by_ms: i64) -> Arc<Self> {
        Arc::new(Self { clock: clock.clone(), by_ms: AtomicI64::new(by_ms) })
    }
}

impl Clock for Skewed {
    fn wall(&self) -> Millis {
        self.clock.wall().saturating_add_signed(self.by_ms.load(Ordering::SeqCst))
    }

    fn mono(&self) -> Millis {
        self.clock.mono()
    }
}
