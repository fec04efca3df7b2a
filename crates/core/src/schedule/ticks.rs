//! The instants at which a schedule ticks.

use super::cron::Cron;
use super::{Missed, Run, Schedule, Timing, check_every};
use crate::clock::Millis;
use crate::invalid::Invalid;
use crate::limits::TICK_LATE_MS_MAX;
use jiff::tz::TimeZone;

/// The ticks of a schedule: whole seconds by the wall clock, or steps from an anchor.
#[derive(Clone, Debug)]
pub struct Ticks {
    rule: Rule,
    start: Millis,
    end: Millis,
    /// Every tick is this much later than the rule says.
    later_ms: u64,
}

#[derive(Clone, Debug)]
enum Rule {
    Cron(Box<Cron>),
    Every { every_ms: u64, anchor: Millis },
}

impl Ticks {
    pub(super) fn new(schedule: &Schedule, anchor: Millis) -> Result<Self, Invalid> {
        let rule = match &schedule.timing {
            Timing::Cron { expression, time_zone } => Rule::Cron(Box::new(Cron::new(expression, time_zone)?)),
            Timing::Every(every) => {
                check_every(*every)?;
                Rule::Every { every_ms: every.0, anchor: schedule.start.map_or(anchor, |at| at.0) }
            }
        };
        let (start, end) = (schedule.start.map_or(0, |at| at.0), schedule.end.map_or(Millis::MAX, |at| at.0));
        Ok(Self { rule, start, end, later_ms: 0 })
    }

    /// The same, each this much later; none is later than the end.
    pub(super) fn later(self, later_ms: u64) -> Self {
        Self { later_ms, ..self }
    }

    /// The first tick after this instant; `None` if there are no more.
    pub fn next(&self, after: Millis) -> Option<Millis> {
        // A start is a tick if it matches the rule.
        let after = after.saturating_sub(self.later_ms).max(self.start.saturating_sub(1));
        let next = match &self.rule {
            Rule::Cron(cron) => cron.next(after),
            Rule::Every { every_ms, anchor } => match after.checked_sub(*anchor) {
                None => Some(*anchor),
                Some(passed) => (passed / every_ms + 1).checked_mul(*every_ms).and_then(|ms| anchor.checked_add(ms)),
            },
        };
        next.and_then(|next| next.checked_add(self.later_ms)).filter(|&next| next <= self.end)
    }

    /// The first `limit` ticks from this one on.
    pub fn from(&self, tick: Option<Millis>, count: usize) -> Vec<Millis> {
        std::iter::successors(tick, |&at| self.next(at)).take(count).collect()
    }

    /// The run at this tick, with its local time.
    pub(super) fn run(&self, at: Millis) -> Run {
        match &self.rule {
            Rule::Cron(cron) => Run::new(at, cron.zone(), cron.clock_change(at.saturating_sub(self.later_ms))),
            Rule::Every { .. } => Run::new(at, &TimeZone::UTC, None),
        }
    }

    /// The last tick up to this instant; `tick` is one that is not after it.
    pub fn last(&self, mut tick: Millis, until: Millis) -> Millis {
        let mut end = until;
        // A binary search in time, so its cost does not depend on the number of ticks.
        while tick < end {
            let middle = tick + (end - tick) / 2;
            match self.next(middle) {
                Some(next) if next <= until => tick = next,
                _ => end = middle,
            }
        }
        tick
    }

    /// The tick to push, given `next`, the first that was not pushed. A tick is on time until the next one is due or
    /// [`TICK_LATE_MS_MAX`] have passed, whichever comes first. If `next` is too late, it is the last tick up to now, in place of all
    /// that were missed, or the first one after now. `None` if there are no more.
    pub fn due(&self, next: Millis, now: Millis, missed: Missed) -> Option<Millis> {
        let is_next_due = || self.next(next).is_some_and(|second| second <= now);
        let is_missed = now.saturating_sub(next) > TICK_LATE_MS_MAX || is_next_due();
        match missed {
            _ if !is_missed => Some(next),
            Missed::Once => Some(self.last(next, now)),
            Missed::Skip => self.next(now),
        }
    }

    /// The time zone as its database spells it; `None` for an interval.
    pub fn time_zone(&self) -> Option<&str> {
        match &self.rule {
            Rule::Cron(cron) => cron.time_zone(),
            Rule::Every { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Span;
    use crate::model::job::NewJob;

    const T0: Millis = 1_800_000_000_000;

    fn ticks(timing: Timing) -> Ticks {
        Schedule::new(timing, NewJob::new(*b"")).ticks(T0).unwrap()
    }

    /// The seconds after T0 at which a tick is pushed that was to come `next`, seen at `now`.
    fn due(ticks: &Ticks, next: u64, now: u64) -> [Option<u64>; 2] {
        [Missed::Once, Missed::Skip].map(|missed| {
            let at = ticks.due(T0 + next * 1_000, T0 + now * 1_000, missed)?;
            Some((at - T0) / 1_000)
        })
    }

    #[test]
    fn a_tick_is_on_time_until_the_next_one_is_due_or_a_minute_has_passed() {
        let often = ticks(Timing::Every(Span(2_000)));
        assert_eq!(due(&often, 2, 0), [Some(2), Some(2)], "ahead");
        assert_eq!(due(&often, 2, 3), [Some(2), Some(2)], "on time");
        assert_eq!(due(&often, 2, 4), [Some(4), Some(6)], "the next one is due");
        assert_eq!(due(&often, 2, 77), [Some(76), Some(78)], "one for all, or none");
        let cron = ticks(Timing::parse("* * * * *", None).unwrap());
        assert_eq!(due(&cron, 60, 119), [Some(60), Some(60)]);
        assert_eq!(due(&cron, 60, 120), [Some(120), Some(180)]);
        let hourly = ticks(Timing::Every(Span(3_600_000)));
        assert_eq!(due(&hourly, 3_600, 3_660), [Some(3_600), Some(3_600)], "a minute late");
        assert_eq!(due(&hourly, 3_600, 3_661), [Some(3_600), Some(7_200)]);
    }

    #[test]
    fn a_spread_moves_every_tick_by_the_same_distance_and_none_beyond_the_end() {
        let of = |name: &str, spread: u64| {
            let schedule = Schedule::cron("0 * * * *", "UTC", NewJob::new(*b"")).spread(Span(spread));
            let distance_ms = schedule.distance_ms(name);
            let ticks = schedule.ticks_of(name, T0).unwrap();
            assert_eq!(
                ticks.from(ticks.next(T0 + distance_ms), 3),
                [1, 2, 3].map(|hour| T0 + hour * 3_600_000 + distance_ms)
            );
            assert!(distance_ms.is_multiple_of(1_000) && distance_ms <= spread, "{name}: {distance_ms}");
            distance_ms
        };
        assert_eq!(of("a", 0), 0);
        let distances: std::collections::BTreeSet<u64> = (0..100).map(|n| of(&format!("s{n}"), 300_000)).collect();
        assert!(distances.len() > 60 && distances.first() < Some(&20_000) && distances.last() > Some(&280_000));
        let ends = Schedule::every(Span(60_000), NewJob::new(*b"")).spread(Span(50_000));
        let distance_ms = ends.distance_ms("s1");
        assert!(distance_ms > 0);
        let ends = ends.end(crate::json::Timestamp(T0 + 60_000)).ticks_of("s1", T0).unwrap();
        assert_eq!(ends.next(T0), Some(T0 + distance_ms), "the anchor itself is a tick");
        assert_eq!(ends.next(T0 + distance_ms), None, "not after the end");
    }

    #[test]
    fn the_last_tick_of_all_is_made_up_for() {
        let schedule = Schedule::every(Span(2_000), NewJob::new(*b"")).end(crate::json::Timestamp(T0 + 5_000));
        let ticks = schedule.ticks(T0).unwrap();
        assert_eq!(due(&ticks, 2, 60), [Some(4), None]);
        assert_eq!(due(&ticks, 4, 60), [Some(4), Some(4)], "none comes after it, and it is not a minute late");
    }
}
