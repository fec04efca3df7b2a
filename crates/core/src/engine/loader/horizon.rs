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

#[cfg(test)]
mod tests {
    use super::*;

    /// Before the last bucket begins, its jobs are loaded.
    #[test]
    fn the_watermark_is_the_end_of_a_bucket_a_horizon_ahead() {
        let horizon = Horizon::new(3 * BUCKET_MS);
        for (now, watermark) in [(0, 3), (1, 4), (BUCKET_MS, 4), (BUCKET_MS + 1, 5)] {
            horizon.advance(now, false);
            assert_eq!(horizon.watermark(), watermark * BUCKET_MS, "at {now}");
        }
    }

    #[test]
    fn without_room_it_is_a_bucket_ahead_and_it_never_goes_back() {
        let horizon = Horizon::new(3 * BUCKET_MS);
        horizon.advance(BUCKET_MS, true);
        assert_eq!(horizon.watermark(), 2 * BUCKET_MS);
        horizon.advance(BUCKET_MS, false);
        // There is no room any more, or the clock was set back.
        for (now, is_full) in [(BUCKET_MS, true), (0, false)] {
            horizon.advance(now, is_full);
            assert_eq!(horizon.watermark(), 4 * BUCKET_MS);
        }
    }
}
