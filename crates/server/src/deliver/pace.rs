//! Limits the concurrent deliveries to a target: fewer while it cannot keep up, none while it asks for a pause or is
//! unavailable, and a gradual increase afterwards.
//!
//! The limit stays between one and the maximum. A delivery that began before the last cut causes no further cut, so a burst
//! of failures cuts once. The caller passes in the time; nothing is sent or waited for here.

use super::result::Sign;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// After this many failures to connect, or cuts because it did not answer in time, in a row the target counts as unavailable.
const AWAY_AFTER: u32 = 5;
/// Pauses before an unavailable target is probed with one delivery: the first, and the longest. They double.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// It may double so often while it is far below what worked before.
const STEP: Duration = Duration::from_secs(1);
/// Near to that it grows by this part of the maximum in each step.
const GENTLE_PART: usize = 32;

/// A pace that deliveries, and what begins them, have in common; a cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct SharedPace(Arc<Mutex<Pace>>);

impl SharedPace {
    /// At first there is no limit but the maximum, 1 or more.
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(Mutex::new(Pace::new(max, Instant::now()))))
    }

    /// How many may be under way at `now`.
    ///
    /// # Errors
    /// Until when none may.
    pub(crate) fn room(&self, now: Instant) -> Result<usize, Instant> {
        let pace = self.pace();
        pace.held_until(now).map_or_else(|| Ok(pace.room(now)), Err)
    }

    /// A delivery that was begun at `began` has ended.
    pub(crate) fn ended(&self, sign: Sign, began: Instant) {
        self.pace().ended(sign, began, Instant::now());
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much may be under way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pace {
    max: usize,
    allowed: usize,
    /// Up to here it may double.
    known_good: usize,
    /// The limit that this step may reach, and when the step began.
    step: (usize, Instant),
    cut_at: Option<Instant>,
    failures: u32,
    held_until: Option<Instant>,
}

impl Pace {
    /// At first there is no limit but the maximum, 1 or more.
    fn new(max: usize, now: Instant) -> Self {
        let max = max.max(1);
        Self { max, allowed: max, known_good: max, step: (max, now), cut_at: None, failures: 0, held_until: None }
    }

    /// How many may be under way at `now`.
    fn room(&self, now: Instant) -> usize {
        if self.held_until(now).is_some() { 0 } else { self.allowed }
    }

    /// The end of the pause, if it is after `now`.
    fn held_until(&self, now: Instant) -> Option<Instant> {
        self.held_until.filter(|&until| until > now)
    }

    /// A delivery that was begun at `began` has ended at `now`.
    fn ended(&mut self, sign: Sign, began: Instant, now: Instant) {
        match sign {
            Sign::None => {}
            Sign::Well => {
                self.failures = 0;
                self.grow(now);
            }
            Sign::Answered => self.failures = 0,
            Sign::Overloaded { hold_ms } => {
                self.failures = 0;
                if self.is_news(began) {
                    self.cut(self.allowed / 2, now);
                }
                if let Some(hold_ms) = hold_ms {
                    self.hold(now + Duration::from_millis(hold_ms));
                }
            }
            Sign::Away | Sign::Silent if self.is_news(began) => {
                self.failures = self.failures.saturating_add(1);
                if self.failures >= AWAY_AFTER {
                    self.cut(1, now);
                    let doubled = PAUSE.0.saturating_mul(1 << (self.failures - AWAY_AFTER).min(16));
                    self.hold(now + doubled.min(PAUSE.1));
                } else if sign == Sign::Silent {
                    self.cut(self.allowed / 2, now);
                }
            }
            Sign::Away | Sign::Silent => {}
        }
    }

    fn is_news(&self, began: Instant) -> bool {
        self.cut_at.is_none_or(|cut_at| began > cut_at)
    }

    fn cut(&mut self, to: usize, now: Instant) {
        if self.allowed > 1 {
            self.known_good = (self.allowed / 2).max(1);
        }
        self.allowed = to.max(1);
        self.step = (self.allowed, now);
        self.cut_at = Some(now);
    }

    fn hold(&mut self, until: Instant) {
        self.held_until = self.held_until.max(Some(until));
    }

    fn grow(&mut self, now: Instant) {
        let (top, since) = self.step;
        if now.duration_since(since) >= STEP && self.allowed < self.max {
            let top = if self.allowed < self.known_good {
                (self.allowed * 2).min(self.known_good)
            } else {
                (self.allowed + (self.max / GENTLE_PART).max(1)).min(self.allowed * 2)
            };
            self.step = (top.min(self.max), now);
        } else if self.allowed >= top {
            return;
        }
        self.allowed = (self.allowed + 1).min(self.step.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);
    const OVERLOADED: Sign = Sign::Overloaded { hold_ms: None };

    /// So many successes at this time.
    fn succeed(pace: &mut Pace, count: usize, now: Instant) {
        (0..count).for_each(|_| pace.ended(Sign::Well, now, now));
    }

    #[test]
    fn a_burst_of_refusals_cuts_once() {
        let start = Instant::now();
        let mut pace = Pace::new(256, start);
        for millis in 0..100 {
            pace.ended(OVERLOADED, start, start + Duration::from_millis(1 + millis));
        }
        assert_eq!(pace.room(start + SECOND), 128);
        let later = start + SECOND;
        pace.ended(OVERLOADED, later, later);
        assert_eq!(pace.room(later), 64);
        for second in 2..20 {
            let now = start + SECOND * second;
            pace.ended(OVERLOADED, now, now);
        }
        assert_eq!(pace.room(start + SECOND * 20), 1);
    }

    #[test]
    fn it_holds_as_long_as_it_is_asked_to() {
        let start = Instant::now();
        let mut pace = Pace::new(8, start);
        pace.ended(Sign::Overloaded { hold_ms: Some(5_000) }, start, start);
        pace.ended(Sign::Overloaded { hold_ms: Some(2_000) }, start, start);
        pace.ended(Sign::Well, start, start);
        let end = start + SECOND * 5;
        assert_eq!((pace.room(end - Duration::from_millis(1)), pace.held_until(start)), (0, Some(end)));
        assert_eq!((pace.room(end), pace.held_until(end)), (4, None));
    }

    #[test]
    fn what_is_away_is_tried_with_one_after_ever_longer_pauses() {
        let mut now = Instant::now();
        let mut pace = Pace::new(100, now);
        (0..4).for_each(|_| pace.ended(Sign::Away, now, now));
        assert_eq!(pace.room(now), 100, "four may have other causes");
        // A crowd of them is one outage.
        (0..60).for_each(|_| pace.ended(Sign::Away, now - SECOND, now));
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            let end = now + SECOND * pause;
            assert_eq!(pace.held_until(now), Some(end), "{pause}");
            assert_eq!(pace.room(end), 1);
            now = end;
            pace.ended(Sign::Away, now, now);
        }
    }

    #[test]
    fn what_never_answers_in_time_is_overloaded_and_then_away() {
        let (start, mut rooms) = (Instant::now(), Vec::new());
        let mut pace = Pace::new(100, start);
        let mut now = start;
        for _ in 0..7 {
            // Those that began together are one sign.
            (0..60).for_each(|_| pace.ended(Sign::Silent, now, now + SECOND));
            now += SECOND * 2;
            rooms.push((pace.allowed, pace.held_until.map(|until| until - now + SECOND)));
            now += pace.held_until(now).map_or(Duration::ZERO, |until| until - now);
        }
        let held = |seconds| Some(SECOND * seconds);
        assert_eq!(rooms, [(50, None), (25, None), (12, None), (6, None), (1, held(1)), (1, held(2)), (1, held(4))]);
        pace.ended(OVERLOADED, now, now);
        pace.ended(Sign::Silent, now + SECOND, now + SECOND);
        assert_eq!(pace.held_until(now + SECOND), None, "it has answered meanwhile");
    }

    #[test]
    fn it_grows_gently_after_an_outage() {
        let mut now = Instant::now();
        let mut pace = Pace::new(64, now);
        (0..5).for_each(|_| pace.ended(Sign::Away, now, now));
        let mut rooms = Vec::new();
        for _ in 0..9 {
            now += SECOND;
            succeed(&mut pace, 1_000, now);
            rooms.push(pace.room(now));
        }
        assert_eq!(rooms, [2, 4, 8, 16, 32, 34, 36, 38, 40]);
        for _ in 0..20 {
            now += SECOND;
            succeed(&mut pace, 1_000, now);
        }
        assert_eq!(pace.room(now), 64);
    }

    #[test]
    fn an_answer_ends_a_row_of_failures() {
        let now = Instant::now();
        let mut pace = Pace::new(10, now);
        for _ in 0..10 {
            (0..4).for_each(|_| pace.ended(Sign::Away, now, now));
            pace.ended(Sign::Answered, now, now);
        }
        assert_eq!((pace.room(now), pace.held_until(now)), (10, None));
    }

    fn sign() -> impl Strategy<Value = Sign> {
        prop_oneof![
            4 => Just(Sign::Well),
            1 => Just(Sign::Answered),
            1 => Just(Sign::None),
            2 => Just(Sign::Away),
            1 => Just(Sign::Silent),
            1 => Just(OVERLOADED),
            1 => (0_u64..10_000).prop_map(|hold_ms| Sign::Overloaded { hold_ms: Some(hold_ms) }),
        ]
    }

    proptest! {
        /// For any events the limit stays between one and the maximum and at most doubles in a second. Once all is well it
        /// reaches the maximum again.
        #[test]
        fn it_keeps_its_bounds(max in 1_usize..500, events in prop::collection::vec((sign(), 0_u64..700, 0_u64..2_000), 0..200)) {
            let start = Instant::now();
            let (mut now, mut pace) = (start, Pace::new(max, start));
            for (sign, after_ms, took_ms) in events {
                now += Duration::from_millis(after_ms);
                let (before, was_held) = (pace.allowed, pace.held_until(now));
                pace.ended(sign, now.checked_sub(Duration::from_millis(took_ms)).unwrap_or(start), now);
                prop_assert!((1..=max).contains(&pace.allowed));
                prop_assert!(pace.allowed <= before + 1);
                prop_assert!(pace.held_until(now) >= was_held, "a hold is never cut short");
                prop_assert!(pace.room(now) == 0 || pace.held_until(now).is_none());
            }
            for _ in 0..300 {
                now += SECOND;
                let before = pace.allowed;
                succeed(&mut pace, max, now);
                prop_assert!(pace.allowed <= before * 2);
            }
            prop_assert_eq!(pace.room(now), max);
        }
    }
}
