//! The *watermark*: the instant up to which jobs are in the broker, a horizon ahead of the clock.

use crate::clock::Millis;
use crate::ports::BUCKET_MS;
use std::sync::atomic::{AtomicU64, Ordering};

/// The watermark, and how far it is ahead.
#[derive(Debug)]
pub(super) struct Horizon {
    ms: u64,
    watermark: AtomicU64,
}

impl Horizon {
    pub(super) fn new(ms: u64) -> Self {
        Self { ms, watermark: AtomicU64::default() }
    }

    pub(super) fn watermark(&self) -> Millis {
        self.watermark.load(Ordering::SeqCst)
    }

    /// Moves the watermark on with the clock, to the end of a bucket: by as little as can be if there is no room for all.
    pub(super) fn advance(&self, now: Millis, is_full: bool) {
        let ms = if is_full { self.ms.min(BUCKET_MS) } else { self.ms };
        let next = now.saturating_add(ms).div_ceil(BUCKET_MS).saturating_mul(BUCKET_MS);
        self.watermark.fetch_max(next, Ordering::SeqCst);
    }
}
