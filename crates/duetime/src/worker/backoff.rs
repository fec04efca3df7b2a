//! Exponential backoff with jitter between attempts of a failing call.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait.
const MAX: Duration = Duration::from_secs(5);

/// Counts consecutive failures.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Whether the last attempt succeeded.
    pub(crate) fn is_calm(&self) -> bool {
        self.failures == 0
    }

    /// Records a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Records a failure and returns the wait: 50 to 100 percent of 100 ms, 200 ms, 400 ms ... 5 s, so that many workers do
    /// not retry at once.
    pub(crate) fn next(&mut self) -> Duration {
        let wait = FIRST.saturating_mul(1 << self.failures.min(10)).min(MAX);
        self.failures = self.failures.saturating_add(1);
        wait.mul_f64(0.5 + 0.5 * random_fraction())
    }
}

/// A random number from 0 to 1. The hash keys of the standard library are random enough for this.
fn random_fraction() -> f64 {
    (RandomState::new().hash_one(0_u8) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_start_over() {
        let mut backoff = Backoff::default();
        assert!(backoff.next() <= FIRST);
        let late = (0..100).map(|_| backoff.next()).last().unwrap();
        assert!(late >= MAX / 2 && late <= MAX);
        backoff.reset();
        assert!(backoff.is_calm() && backoff.next() <= FIRST);
    }
}
