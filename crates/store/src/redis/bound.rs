//! How many bytes a reply may have. It shrinks if replies are lost, and grows back.

use super::call::CALL_BYTES_MAX;
use std::time::Duration;
use tokio::time::Instant;

/// The least bound.
const BYTES_MIN: usize = 64 << 10;
/// After this time without a loss it is doubled.
const RESTS: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Bound {
    bytes: usize,
    changed: Instant,
}

impl Bound {
    pub(super) fn new(now: Instant) -> Self {
        Self { bytes: CALL_BYTES_MAX, changed: now }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// After replies were lost.
    pub(super) fn shrink(&mut self, now: Instant) {
        (self.bytes, self.changed) = ((self.bytes / 2).max(BYTES_MIN), now);
    }

    /// After a reply.
    pub(super) fn grow(&mut self, now: Instant) {
        if self.bytes < CALL_BYTES_MAX && now - self.changed > RESTS {
            (self.bytes, self.changed) = (self.bytes * 2, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_shrinks_at_once_and_grows_back_slowly() {
        let now = Instant::now();
        let mut bound = Bound::new(now);
        for _ in 0..3 {
            bound.shrink(now);
        }
        assert_eq!(bound.bytes(), CALL_BYTES_MAX / 8);
        bound.grow(now + RESTS / 2);
        assert_eq!(bound.bytes(), CALL_BYTES_MAX / 8);
        for step in 1..10 {
            bound.grow(now + RESTS * 2 * step);
        }
        assert_eq!(bound.bytes(), CALL_BYTES_MAX);
        for _ in 0..30 {
            bound.shrink(now);
        }
        assert_eq!(bound.bytes(), BYTES_MIN);
    }
}
