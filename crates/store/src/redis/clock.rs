//! The clock of Redis, as an interval that certainly contains it.
//!
//! Each reading bounds the difference to our monotonic clock: the server read its clock after the request was sent and
//! before the answer arrived. How the round trip divides between the two is unknown, so nothing in between is assumed.
//! [`RedisClock::now`] has certainly passed, and a delay that begins at [`RedisClock::now_at_most`] is never shortened.
//!
//! For each partition the tightest bounds of the last second or two are used. They widen with age, because clocks drift. A
//! reading that contradicts them shows that a clock was set; from then on it is used alone. A step that is smaller than the
//! round trip takes effect once earlier readings are forgotten. The masters of a Cluster have their own clocks, so the
//! outermost bounds are used.
//!
//! A clock that is set back leaves leases and grants of locks behind that end too late, by as much. So a process remembers that
//! it has seen this, or may have missed it because it had no earlier reading, until it has shortened them.

use duetime_core::{Clock, Millis, SystemClock};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Maximum drift between clocks: the system's limit for adjusting them.
const DRIFT_PER_MILLION: i64 = 500;
/// Readings are forgotten once they are older than this, and at the latest after twice this time, in microseconds.
const KEPT_MICROS: i64 = 1_000_000;
/// A clock that is set back by less has no consequences, in microseconds.
const BACK_MICROS: i64 = 1_000_000;
/// A partition that was silent for this long is ignored, in microseconds.
const SILENT_MICROS: i64 = 10_000_000;

#[derive(Debug)]
pub(super) struct RedisClock {
    start: Instant,
    known: Mutex<BTreeMap<u16, Readings>>,
    /// Replaces it in tests.
    given: Option<Arc<dyn Clock>>,
}

/// What a clock that was ahead leaves behind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Late {
    Leases,
    Locks,
}

/// The readings of one partition.
#[derive(Clone, Copy, Debug)]
struct Readings {
    earlier: Option<Bounds>,
    latest: Bounds,
    heard_at: i64,
    /// The clock may have been set back since each [`Late`] last asked for this.
    is_set_back: [bool; 2],
}

/// Bounds of the clock of Redis minus the time since our start, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    since: i64,
    least: Bound,
    most: Bound,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    difference: i64,
    /// When it was measured.
    at: i64,
}

impl Bounds {
    fn least(&self, mark: i64) -> i64 {
        self.least.difference - drift(mark - self.least.at)
    }

    fn most(&self, mark: i64) -> i64 {
        self.most.difference + drift(mark - self.most.at)
    }

    /// Narrows these bounds by others, since both hold.
    fn narrow(&mut self, by: &Self, mark: i64) {
        if by.least(mark) > self.least(mark) {
            self.least = by.least;
        }
        if by.most(mark) < self.most(mark) {
            self.most = by.most;
        }
    }
}

impl Readings {
    fn bounds(&self, mark: i64) -> Bounds {
        let mut bounds = self.latest;
        self.earlier.iter().for_each(|earlier| bounds.narrow(earlier, mark));
        bounds
    }

    fn read(&mut self, reading: Bounds, mark: i64) {
        let bounds = self.bounds(mark);
        let is_possible = reading.least(mark) <= bounds.most(mark) && bounds.least(mark) <= reading.most(mark);
        if reading.most(mark) + BACK_MICROS < bounds.least(mark) {
            self.is_set_back = [true; 2];
        }
        if !is_possible {
            *self = Self { earlier: None, latest: reading, heard_at: mark, ..*self };
        } else if mark - self.latest.since > KEPT_MICROS {
            *self = Self { earlier: Some(self.latest), latest: reading, heard_at: mark, ..*self };
        } else {
            self.latest.narrow(&reading, mark);
            self.heard_at = mark;
        }
        if self.earlier.is_some_and(|earlier| mark - earlier.since > 2 * KEPT_MICROS) {
            self.earlier = None;
        }
    }
}

fn drift(age: i64) -> i64 {
    age * DRIFT_PER_MILLION / 1_000_000
}

impl RedisClock {
    pub(super) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        Self { start: Instant::now(), known: Mutex::default(), given }
    }

    /// The clock argument of scripts; empty if they should ask Redis.
    pub(super) fn given(&self) -> Option<Millis> {
        self.given.as_ref().map(|clock| clock.wall())
    }

    /// Microseconds since the start.
    pub(super) fn mark(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// Adds a reading: the server of this partition read its clock between these marks.
    pub(super) fn read(&self, partition: u16, micros: i64, sent: i64, received: i64) {
        let least = Bound { difference: micros - received, at: received };
        let most = Bound { difference: micros - sent, at: sent };
        let reading = Bounds { since: received, least, most };
        let mut known = self.known();
        let first = Readings { earlier: None, latest: reading, heard_at: received, is_set_back: [true; 2] };
        known.entry(partition).and_modify(|known| known.read(reading, received)).or_insert(first);
        known.retain(|_, known| received - known.heard_at <= SILENT_MICROS);
    }

    /// Whether the clock of this partition may have been set back since this was last asked for the same.
    pub(super) fn was_set_back(&self, partition: u16, late: Late) -> bool {
        let mut known = self.known();
        known.get_mut(&partition).is_some_and(|known| std::mem::take(&mut known.is_set_back[late as usize]))
    }

    /// It is to be asked again.
    pub(super) fn is_set_back(&self, partition: u16, late: Late) {
        self.known().entry(partition).and_modify(|known| known.is_set_back[late as usize] = true);
    }

    /// The lowest and highest possible reading of the clocks at this mark, in microseconds.
    fn between(&self, mark: i64) -> (u64, u64) {
        let known = self.known();
        let bounds = || known.values().map(|known| known.bounds(mark));
        let least = bounds().map(|bounds| bounds.least(mark)).min().unwrap_or(0);
        let most = bounds().map(|bounds| bounds.most(mark)).max().unwrap_or(0);
        let at = |difference: i64| u64::try_from(mark + difference).unwrap_or(0);
        (at(least), at(most))
    }

    /// An instant that has certainly passed.
    pub(super) fn now(&self) -> Millis {
        self.given().unwrap_or_else(|| self.between(self.mark()).0 / 1_000)
    }

    /// An instant that has not passed, whatever the exact time is.
    pub(super) fn now_at_most(&self) -> Millis {
        self.given().unwrap_or_else(|| self.between(self.mark()).1.div_ceil(1_000))
    }

    /// How far the clock of this machine is from what is known of the clock of Redis, in milliseconds.
    pub(super) fn apart_ms(&self) -> u64 {
        if self.given.is_some() || self.known().is_empty() {
            return 0;
        }
        let (least, most) = self.between(self.mark());
        let (ours, least, most) = (SystemClock::default().wall(), least / 1_000, most / 1_000);
        least.saturating_sub(ours).max(ours.saturating_sub(most))
    }

    /// How long until this instant has certainly passed.
    pub(super) fn until(&self, at: Millis) -> Duration {
        match &self.given {
            Some(clock) => clock.until(at),
            None => Duration::from_micros(at.saturating_mul(1_000).saturating_sub(self.between(self.mark()).0)),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u16, Readings>> {
        self.known.lock().expect("no panic under this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    /// The bounds of a clock whose difference is `difference(mark)`, after readings whose requests and replies take this
    /// long, one every 100 ms.
    fn after(readings: i64, difference: impl Fn(i64) -> i64, (request, reply): (i64, i64)) -> (i64, i64) {
        let clock = RedisClock::new(None);
        let mut mark = SECOND;
        for _ in 0..readings {
            let read = mark + request;
            clock.read(0, read + difference(read), mark, read + reply);
            let now = read + reply;
            let truth = now + difference(now);
            let (least, most) = clock.between(now);
            let (least, most) = (i64::try_from(least).unwrap() - truth, i64::try_from(most).unwrap() - truth);
            assert!(least <= 0 && most >= 0, "{least} to {most} around the truth at {now}");
            mark = now + SECOND / 10;
        }
        let (least, most) = clock.between(mark);
        let truth = mark + difference(mark);
        (i64::try_from(least).unwrap() - truth, i64::try_from(most).unwrap() - truth)
    }

    #[test]
    fn the_bounds_are_those_of_the_way_there_and_back() {
        let (least, most) = after(100, |_| 5 * SECOND, (30, 70));
        assert!((-150..=-70).contains(&least) && (30..=150).contains(&most), "{least} to {most}");
    }

    /// A delay is not cut short, and due jobs are late by at most the delay of the slow direction.
    #[test]
    fn a_way_that_is_slow_in_one_direction_makes_nothing_early() {
        let (least, most) = after(20, |_| 5 * SECOND, (50, 200_000));
        assert!((-201_000..=-200_000).contains(&least) && (50..=1_000).contains(&most), "{least} to {most}");
        let (least, most) = after(20, |_| 5 * SECOND, (200_000, 50));
        assert!((-1_000..=-50).contains(&least) && (200_000..=201_000).contains(&most), "{least} to {most}");
    }

    #[test]
    fn the_bounds_follow_clocks_that_run_apart() {
        for per_million in [-499, -50, 50, 499] {
            let (least, most) = after(300, |mark| 5 * SECOND + mark * per_million / 1_000_000, (50, 50));
            assert!(least > -1_000 && most < 1_000, "{least} to {most}");
        }
    }

    /// In both directions and by any distance: immediately if a reading shows it.
    #[test]
    fn a_clock_that_was_set_is_followed() {
        for step in [-3_600 * SECOND, -SECOND, -2_000, 2_000, SECOND, 3_600 * SECOND] {
            let (least, most) =
                after(50, |mark| if mark < 3 * SECOND { 4_000 * SECOND } else { 4_000 * SECOND + step }, (50, 50));
            assert!((-1_000..=0).contains(&least) && (0..=1_000).contains(&most), "{step}: {least} to {most}");
        }
    }

    /// Also at first, when it may have been set back before.
    #[test]
    fn a_clock_that_was_set_back_is_noticed_once() {
        let clock = RedisClock::new(None);
        let read = |mark: i64, difference: i64| clock.read(0, mark + difference, mark - 10, mark + 10);
        let mut seen = Vec::new();
        for (n, difference) in (1..).zip([10, 10, 610, 610, 10, 10].map(|seconds| seconds * SECOND)) {
            read(n * SECOND, difference);
            seen.push(clock.was_set_back(0, Late::Leases));
        }
        assert_eq!(seen, [true, false, false, false, true, false]);
        assert!(!clock.was_set_back(1, Late::Leases), "it was not read");
        clock.is_set_back(0, Late::Leases);
        assert!(clock.was_set_back(0, Late::Leases));
        assert!(clock.was_set_back(0, Late::Locks) && !clock.was_set_back(0, Late::Locks), "each asks for itself");
    }

    /// One that hides in the time that a reply takes counts once the readings from before are forgotten.
    #[test]
    fn a_small_step_is_followed_within_two_seconds() {
        let clock = RedisClock::new(None);
        let difference = |mark: i64| if mark < 3 * SECOND { 10 * SECOND } else { 10 * SECOND + 50_000 };
        let mut mark = SECOND;
        while mark < 6 * SECOND {
            clock.read(0, mark + difference(mark), mark, mark + 200_000);
            mark += 200_000;
        }
        assert!(clock.between(mark).1 >= u64::try_from(mark + difference(mark)).unwrap());
    }

    /// The masters of a Cluster.
    #[test]
    fn of_several_clocks_the_outermost_bounds_count() {
        let clock = RedisClock::new(None);
        for (partition, difference) in [(1, 10 * SECOND), (2, 10 * SECOND + 5_000), (1, 10 * SECOND)] {
            clock.read(partition, SECOND + 10 + difference, SECOND, SECOND + 20);
        }
        assert_eq!(clock.between(SECOND + 20), (11_000_010, 11_005_020 + 10));
    }
}
