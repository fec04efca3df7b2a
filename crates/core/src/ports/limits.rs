//! The limits of a queue.

use crate::clock::Millis;
use crate::invalid::Invalid;
use crate::limits::{RATE_MAX, RATE_MIN};
use serde::{Deserialize, Serialize};

/// The limits of a queue, over all callers that reserve from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Whether nothing is handed out.
    pub paused: bool,
    /// The maximum number of jobs that run at once.
    pub max_running: Option<u32>,
    /// The maximum rate.
    pub rate: Option<Rate>,
}

/// This many per second in the long run, and at most `burst` at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Rate {
    /// Jobs a second, 0.001 to 1,000,000.
    #[cfg_attr(feature = "openapi", schema(minimum = 0.001, maximum = 1_000_000))]
    pub per_second: f64,
    /// Jobs at once; by default those of a tenth of a second, and at least 1.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

impl Rate {
    /// So many jobs a second, 0.001 to 1,000,000, with the default burst.
    pub fn per_second(jobs: impl Into<f64>) -> Self {
        Self { per_second: jobs.into(), burst: None }
    }

    /// Sets how many jobs may be handed out at once; by default those of a tenth of a second, and at least 1.
    #[must_use]
    pub fn with_burst(self, jobs: u32) -> Self {
        Self { burst: Some(jobs), ..self }
    }

    /// Whether it keeps its limits.
    ///
    /// # Errors
    /// [`Invalid`].
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), Invalid> {
        if !(RATE_MIN..=RATE_MAX).contains(&self.per_second) {
            let expected = format!("between {RATE_MIN} and {RATE_MAX}");
            return Err(Invalid::new("rate.per_second", expected, self.per_second));
        }
        if self.burst == Some(0) {
            return Err(Invalid::new("rate.burst", "1 or more", 0));
        }
        Ok(())
    }

    /// Microseconds from one job to the next.
    #[doc(hidden)]
    pub fn period(&self) -> f64 {
        1_000_000.0 / self.per_second
    }

    /// The burst.
    pub fn burst(&self) -> u32 {
        self.burst.unwrap_or((self.per_second / 10.0) as u32).max(1)
    }
}

/// Sums of fractions are a little too high or too low: by less than this part of a period.
const ROUNDING: f64 = 1e-3;

/// The state of a [`Rate`] limiter: the generic cell rate algorithm (ITU-T I.371), in microseconds. One number: the instant
/// at which all jobs that have passed would have done so, had they come evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GcraLimiter(f64);

impl GcraLimiter {
    /// How many may pass at this instant, and when the next one may, in milliseconds.
    pub fn room(&mut self, rate: &Rate, now: Millis) -> (usize, Millis) {
        let (now, period, burst) = (now as f64 * 1_000.0, rate.period(), f64::from(rate.burst()));
        let ahead = self.ahead(rate, now) / period;
        let room = (burst - ahead + ROUNDING).floor();
        let next = now + period * (ahead + room + 1.0 - burst);
        (room as usize, (next / 1_000.0).ceil() as Millis)
    }

    /// Counts this many that pass.
    pub fn pass(&mut self, count: usize, rate: &Rate, now: Millis) {
        let now = now as f64 * 1_000.0;
        self.0 = now + self.ahead(rate, now) + rate.period() * count as f64;
    }

    /// How far it is ahead of the clock: at most a whole burst. It is further ahead if the clock was set back, or if the rate
    /// was a slower one. Then it begins again here, with its burst used up. Each look must remember that: nothing passes until
    /// some time has gone by since.
    fn ahead(&mut self, rate: &Rate, now: f64) -> f64 {
        let (period, burst) = (rate.period(), f64::from(rate.burst()));
        if self.0 - now > period * (burst + 2.0 * ROUNDING) {
            self.0 = now + period * burst;
        }
        (self.0 - now).clamp(0.0, period * burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 100.0, burst: Some(3) };

    #[test]
    fn a_burst_passes_and_then_one_a_period() {
        let mut limiter = GcraLimiter::default();
        assert_eq!(limiter.room(&RATE, 1_000).0, 3);
        limiter.pass(3, &RATE, 1_000);
        assert_eq!(limiter.room(&RATE, 1_000), (0, 1_010));
        assert_eq!(limiter.room(&RATE, 1_009), (0, 1_010));
        assert_eq!(limiter.room(&RATE, 1_010), (1, 1_020));
        limiter.pass(1, &RATE, 1_010);
        assert_eq!(limiter.room(&RATE, 1_010), (0, 1_020));
        assert_eq!(limiter.room(&RATE, 1_030).0, 2);
        assert_eq!(limiter.room(&RATE, 9_000).0, 3);
    }

    #[test]
    fn a_clock_set_back_holds_nothing_up() {
        let mut limiter = GcraLimiter::default();
        limiter.pass(3, &RATE, 1_000_000);
        assert_eq!(limiter.room(&RATE, 5_000), (0, 5_010));
        assert_eq!(limiter.room(&RATE, 5_009), (0, 5_010));
        assert_eq!(limiter.room(&RATE, 5_010), (1, 5_020));
        assert_eq!(limiter.room(&RATE, 5_030).0, 3);
    }

    #[test]
    fn a_faster_rate_holds_nothing_up() {
        let mut limiter = GcraLimiter::default();
        let slow = Rate { per_second: 0.001, burst: Some(3) };
        limiter.pass(3, &slow, 5_000);
        assert_eq!(limiter.room(&RATE, 5_000), (0, 5_010));
        assert_eq!(limiter.room(&RATE, 5_030).0, 3);
    }

    #[test]
    fn what_rounding_lets_pass_early_does_not_add_up() {
        for per_second in [0.003, 0.7] {
            let rate = Rate { per_second, burst: Some(1) };
            let (mut limiter, mut passed) = (GcraLimiter::default(), 0);
            let mut now = 1_000_000_000;
            let end = now + (10_000.0 * rate.period() / 1_000.0) as Millis;
            while now < end {
                let (room, next) = limiter.room(&rate, now);
                limiter.pass(room, &rate, now);
                passed += room;
                now = next.saturating_sub((rate.period() * 0.9 * ROUNDING / 1_000.0) as Millis).max(now + 1);
            }
            assert!((9_999..=10_001).contains(&passed), "{rate:?}: {passed}");
        }
    }

    #[test]
    fn the_rate_holds_in_the_long_run() {
        for (per_second, burst) in [(100.0, None), (0.5, None), (3.0, Some(1)), (7_777.0, Some(50)), (250_000.0, None)]
        {
            let rate = Rate { per_second, burst };
            rate.check().unwrap();
            let (mut limiter, mut passed) = (GcraLimiter::default(), 0);
            let mut now = 1_000_000;
            while now < 1_060_000 {
                let (room, next) = limiter.room(&rate, now);
                limiter.pass(room, &rate, now);
                passed += room;
                assert!(next >= now, "{rate:?}");
                now = next.max(now + 1);
            }
            let expected = per_second * 60.0 + f64::from(rate.burst());
            assert!((passed as f64 - expected).abs() <= expected * 0.01 + 1.0, "{rate:?}: {passed}, not {expected}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for rate in [
            Rate { per_second: 0.0, burst: None },
            Rate { per_second: f64::NAN, burst: None },
            Rate { per_second: 2e6, burst: None },
            Rate { per_second: 1.0, burst: Some(0) },
        ] {
            assert!(rate.check().is_err(), "{rate:?}");
        }
    }
}
