//! The members of a sorted set at one instant, counted by what their scores can be. This takes milliseconds, also of a large set.

use super::score::{INSTANT_S_MIN, Unit, parse};
use crate::cli::adopt::redis::Redis;
use crate::cli::adopt::source::{Done, SAMPLES_MAX, Sample, Trouble};
use crate::cli::exit::Failure;
use crate::cli::output::snippet;
use duetime_core::Millis;
use duetime_core::limits::DELAY_MS_MAX;

const SURVEY: &str = include_str!("survey.lua");
/// The end of the year 9999. Later instants are shown as this.
const SHOWN_MAX: Millis = 253_402_300_799_999;

/// Members whose scores are instants in one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    due: u64,
    later: u64,
    /// More than 10 years ahead, so more likely in another unit, or no instants at all.
    beyond: u64,
}

/// Counts, and some members with their scores.
#[derive(Debug, Default)]
pub(super) struct Survey {
    now: Millis,
    /// Members whose scores are not instants in any unit: due now.
    plain: u64,
    /// In the order of [`Unit::ALL`].
    counts: [Count; 3],
    samples: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The unit of the scores.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Unit(Unit),
    /// No score is an instant.
    None,
    /// Cannot be determined, and why.
    Unclear(String),
}

impl Survey {
    pub(super) async fn read(redis: &Redis, key: &str) -> Done<Self> {
        let arguments = (SURVEY, 1, key, INSTANT_S_MIN, DELAY_MS_MAX, SAMPLES_MAX, &Unit::ALL.map(Unit::per_second));
        let (now, kind, counts, flat): (Millis, String, Vec<u64>, Vec<Vec<u8>>) = redis.call("EVAL", arguments).await?;
        match kind.as_str() {
            "none" => Ok(Self { now, ..Self::default() }),
            "zset" => Ok(Self::of(now, &counts, flat)),
            kind => Err(Trouble::Failed(Failure::error(format!(
                "the Redis key {key:?} must be a sorted set; it is a {kind}"
            )))),
        }
    }

    /// From the answer of the script.
    fn of(now: Millis, counts: &[u64], flat: Vec<Vec<u8>>) -> Self {
        let number = |place: usize| counts.get(place).copied().unwrap_or_default();
        let count = |unit: usize| Count {
            due: number(3 * unit + 1),
            later: number(3 * unit + 2),
            beyond: number(3 * unit + 3),
        };
        let mut samples = Vec::with_capacity(flat.len() / 2);
        let mut flat = flat.into_iter();
        while let (Some(member), Some(score)) = (flat.next(), flat.next()) {
            samples.push((member, score));
        }
        Self { now, plain: number(0), counts: [0, 1, 2].map(count), samples }
    }

    pub(super) fn total(&self) -> u64 {
        self.plain + self.counts.iter().map(|count| count.due + count.later + count.beyond).sum::<u64>()
    }

    pub(super) fn judge(&self) -> Verdict {
        let instants = |count: &Count| count.due + count.later;
        let mut used = self.each().filter(|(_, count)| instants(count) > 0);
        match (used.next(), used.next()) {
            (Some((unit, _)), None) => Verdict::Unit(unit),
            (None, _) if self.total() == self.plain => Verdict::None,
            (None, _) => Verdict::Unclear("no score is a time within the next 10 years".to_owned()),
            _ => Verdict::Unclear(format!("the scores are in different units: {}", self.others(None))),
        }
    }

    /// The members that are taken with this unit: due, and due later.
    pub(super) fn taken(&self, unit: Option<Unit>) -> (u64, u64) {
        let count = self.each().find(|(of, _)| Some(*of) == unit).map_or_else(Count::default, |(_, count)| *count);
        (self.plain + count.due, count.later)
    }

    /// The members that are not taken with this unit.
    pub(super) fn others(&self, unit: Option<Unit>) -> String {
        let instants = self.each().filter(|(of, count)| Some(*of) != unit && count.due + count.later > 0);
        let mut parts: Vec<String> =
            instants.map(|(of, count)| format!("{} in {}", count.due + count.later, of.name())).collect();
        let beyond: u64 = self.counts.iter().map(|count| count.beyond).sum();
        if beyond > 0 {
            parts.push(format!("{beyond} beyond the next 10 years"));
        }
        parts.join(", ")
    }

    /// Some members, with their due times as they are read.
    pub(super) fn samples(&self, part: &str) -> Vec<Sample> {
        let sample = |(member, score): &(Vec<u8>, Vec<u8>)| {
            let number = parse(score).unwrap_or(f64::INFINITY);
            let score = String::from_utf8_lossy(score);
            let (due_at_ms, due_as) = match Unit::of(number) {
                None => (None, format!("{score}, not a time")),
                Some(unit) => {
                    let at = unit.instant(number).min(SHOWN_MAX);
                    let is_beyond = at > self.now + DELAY_MS_MAX;
                    let read = if is_beyond { ", too far ahead".to_owned() } else { format!(" {}", unit.name()) };
                    (Some(at), format!("{score}{read}"))
                }
            };
            Sample { part: part.to_owned(), due_at_ms, due_as, payload: snippet(member) }
        };
        self.samples.iter().take(SAMPLES_MAX).map(sample).collect()
    }

    fn each(&self) -> impl Iterator<Item = (Unit, &Count)> {
        Unit::ALL.into_iter().zip(&self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: [u64; 10]) -> Survey {
        Survey::of(1_790_000_000_000, &counts, Vec::new())
    }

    #[test]
    fn the_unit_is_the_only_one_in_which_scores_are_instants() {
        let survey = of([2, 3, 4, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!((survey.total(), survey.judge()), (10, Verdict::Unit(Unit::Seconds)));
        assert_eq!(survey.taken(Some(Unit::Seconds)), (5, 4));
        assert_eq!(survey.others(Some(Unit::Seconds)), "1 beyond the next 10 years");
        assert_eq!(of([0, 0, 0, 0, 0, 1, 0, 0, 0, 0]).judge(), Verdict::Unit(Unit::Milliseconds));
        assert_eq!(of([0, 0, 0, 0, 0, 0, 0, 1, 0, 0]).judge(), Verdict::Unit(Unit::Microseconds));
        assert_eq!(of([7, 0, 0, 0, 0, 0, 0, 0, 0, 0]).judge(), Verdict::None);
        assert_eq!(Survey::default().judge(), Verdict::None);
    }

    #[test]
    fn mixed_units_and_no_instants_are_unclear() {
        let mixed = of([1, 3, 4, 0, 1, 0, 2, 0, 0, 0]);
        let why = "the scores are in different units: 7 in seconds, 1 in milliseconds, 2 beyond the next 10 years";
        assert_eq!(mixed.judge(), Verdict::Unclear(why.to_owned()));
        assert_eq!(mixed.taken(Some(Unit::Milliseconds)), (2, 0));
        assert_eq!(mixed.taken(None), (1, 0));
        // As BullMQ packs them.
        let packed = of([0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(packed.judge(), Verdict::Unclear("no score is a time within the next 10 years".to_owned()));
    }
}
