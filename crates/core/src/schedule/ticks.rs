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
        Ok(Self { rule, start: schedule.start.map_or(0, |at| at.0), end: schedule.end.map_or(Millis::MAX, |at| at.0) })
    }

    /// The first tick after this instant; `None` if there are no more.
    pub fn next(&self, after: Millis) -> Option<Millis> {
        // A start is a tick if it matches the rule.
        let after = after.max(self.start.saturating_sub(1));
        let next = match &self.rule {
            Rule::Cron(cron) => cron.next(after),
            Rule::Every { every_ms, anchor } => match after.checked_sub(*anchor) {
                None => Some(*anchor),
                Some(passed) => (passed / every_ms + 1).checked_mul(*every_ms).and_then(|ms| anchor.checked_add(ms)),
            },
        };
        next.filter(|&next| next <= self.end)
    }

    /// The first `limit` ticks from this one on.
    pub fn from(&self, tick: Option<Millis>, count: usize) -> Vec<Millis> {
        std::iter::successors(tick, |&at| self.next(at)).take(count).collect()
    }

    /// The run at this tick, with its local time.
    pub(super) fn run(&self, at: Millis) -> Run {
        match &self.rule {
            Rule::Cron(cron) => Run::new(at, cron.zone(), cron.clock_change(at)),
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

    /// The tick to push now, given `next`, the first that was not pushed: one that is on time or in the future, or the last
    /// one instead of all that were missed. `None` if there are no more.
    pub fn due(&self, next: Millis, now: Millis, missed: Missed) -> Option<Millis> {
        if now.saturating_sub(next) <= TICK_LATE_MS_MAX {
            return Some(next);
        }
        match missed {
            Missed::Once => Some(self.last(next, now)),
            Missed::Skip => self.next(now - TICK_LATE_MS_MAX - 1),
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
