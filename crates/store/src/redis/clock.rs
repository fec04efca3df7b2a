//! The clock of Redis, as it is known here: its last reading and the time since.
//!
//! A reading says between which bounds the difference to our monotonic clock lies: the server read its clock after the
//! request was sent and before the answer came. The difference that is assumed stays as it is until a reading proves it
//! wrong.

use duetime_core::{Clock, Millis};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct RedisClock {
    start: Instant,
    /// The clock of Redis less the time since the start, in microseconds.
    difference: AtomicI64,
    /// What goes in place of it, in tests.
    given: Option<Arc<dyn Clock>>,
}

impl RedisClock {
    pub(super) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        Self { start: Instant::now(), difference: AtomicI64::new(i64::MIN), given }
    }

    /// What scripts are told: nothing where they are to ask Redis.
    pub(super) fn given(&self) -> Option<Millis> {
        self.given.as_ref().map(|clock| clock.wall())
    }

    /// Microseconds since the start.
    pub(super) fn mark(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// Redis read its clock between these marks.
    pub(super) fn read(&self, micros: i64, sent: i64, received: i64) {
        let (least, most) = (micros - received, micros - sent);
        let assumed = self.difference.load(Ordering::Relaxed);
        if assumed == i64::MIN {
            self.difference.store(least + (most - least) / 2, Ordering::Relaxed);
        } else if !(least..=most).contains(&assumed) {
            self.difference.store(assumed.clamp(least, most), Ordering::Relaxed);
        }
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.mark() + self.difference.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(super) fn now(&self) -> Millis {
        self.given().unwrap_or_else(|| self.micros() / 1_000)
    }

    pub(super) fn until(&self, at: Millis) -> Duration {
        match &self.given {
            Some(clock) => clock.until(at),
            None => Duration::from_micros(at.saturating_mul(1_000).saturating_sub(self.micros())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_narrow_the_difference() {
        let clock = RedisClock::new(None);
        let difference = || clock.difference.load(Ordering::Relaxed);
        clock.read(1_000_500, 0, 1_000);
        assert_eq!(difference(), 1_000_000);
        clock.read(1_002_000, 1_000, 3_000);
        assert_eq!(difference(), 1_000_000, "nothing says otherwise");
        clock.read(1_010_000, 9_900, 9_950);
        assert_eq!(difference(), 1_000_050, "it is at least so much");
        clock.read(5_000_000, 20_000, 20_010);
        assert_eq!(difference(), 4_979_990, "the clock of Redis was set forward");
        clock.read(2_000_000, 30_000, 30_010);
        assert_eq!(difference(), 1_970_000, "and back");
    }
}
