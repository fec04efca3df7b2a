//! Scores that are due times: their unit, and the instant that each means.

use duetime_core::api::Timestamp;
use duetime_core::limits::SECOND_MS;
use duetime_core::{Due, Millis};

/// Scores below this are instants in no unit: 0, 1, a time to wait. Their members are due now. It is the year 2010, in seconds: with an older
/// year, dates such as 202611241030 would be milliseconds.
pub(super) const INSTANT_S_MIN: u64 = 1_262_304_000;

/// The unit of scores since 1970. Within ten years from now, no score is an instant in two units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Unit {
    #[value(alias = "s")]
    Seconds,
    #[value(alias = "ms")]
    Milliseconds,
    #[value(alias = "us")]
    Microseconds,
}

impl Unit {
    pub(super) const ALL: [Self; 3] = [Self::Seconds, Self::Milliseconds, Self::Microseconds];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
        }
    }

    /// The unit with this name.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().as_bytes() == name)
    }

    /// The number of these units in a second.
    pub(super) fn per_second(self) -> u64 {
        match self {
            Self::Seconds => 1,
            Self::Milliseconds => 1_000,
            Self::Microseconds => 1_000_000,
        }
    }

    /// The unit in which a score would be an instant after 2009.
    pub(super) fn of(score: f64) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|unit| score >= (INSTANT_S_MIN * unit.per_second()) as f64)
    }

    /// The due time of a member with this score. `None` if that is an instant in another unit.
    pub(super) fn due(self, score: f64) -> Option<Due> {
        match Self::of(score) {
            None => Some(Due::Now),
            Some(unit) => (unit == self).then(|| Due::At(Timestamp(self.instant(score)))),
        }
    }

    /// The score of this instant.
    pub(super) fn score(self, at: Millis) -> String {
        match self {
            Self::Seconds if at.is_multiple_of(SECOND_MS) => format!("{}", at / SECOND_MS),
            Self::Seconds => format!("{}.{:03}", at / SECOND_MS, at % SECOND_MS),
            Self::Milliseconds => at.to_string(),
            Self::Microseconds => (at * 1_000).to_string(),
        }
    }

    /// The instant, rounded up: never earlier.
    pub(super) fn instant(self, score: f64) -> Millis {
        match self {
            // Both parts are exact; the product of the whole is not.
            Self::Seconds => (score.trunc() as u64).saturating_mul(SECOND_MS) + (score.fract() * 1e3).ceil() as u64,
            Self::Milliseconds => score.ceil() as u64,
            Self::Microseconds => (score.ceil() as u64).div_ceil(1_000),
        }
    }
}

/// A score as Redis spells it.
pub(super) fn parse(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_rounded_up_and_never_early() {
        for (unit, score, at) in [
            (Unit::Seconds, "1790000000", 1_790_000_000_000),
            (Unit::Seconds, "1790000000.5", 1_790_000_000_500),
            (Unit::Seconds, "1790000000.0001", 1_790_000_000_001),
            (Unit::Seconds, "1790000000.123", 1_790_000_000_123),
            (Unit::Seconds, "1.79e9", 1_790_000_000_000),
            (Unit::Milliseconds, "1790000000123", 1_790_000_000_123),
            (Unit::Milliseconds, "1790000000123.001", 1_790_000_000_124),
            (Unit::Microseconds, "1790000000123000", 1_790_000_000_123),
            (Unit::Microseconds, "1790000000123001", 1_790_000_000_124),
            (Unit::Microseconds, "1790000000122999.5", 1_790_000_000_123),
        ] {
            assert_eq!(
                unit.due(parse(score.as_bytes()).unwrap()),
                Some(Due::At(Timestamp(at))),
                "{score} {}",
                unit.name()
            );
        }
    }

    #[test]
    fn every_fraction_of_a_second_is_due_at_its_millisecond_or_just_after() {
        for ms in 0..1_000 {
            let text = format!("1790000000.{ms:03}");
            let exact = 1_790_000_000_000 + ms;
            assert_eq!(Unit::Seconds.score(exact).parse::<f64>(), text.parse());
            let at = Unit::Seconds.instant(text.parse().unwrap());
            assert!((exact..=exact + 1).contains(&at), "{text}: {at}");
        }
    }

    #[test]
    fn small_scores_are_due_now_in_every_unit() {
        for unit in Unit::ALL {
            for score in ["-inf", "-5", "0", "1", "3600", "99999999"] {
                assert_eq!(unit.due(parse(score.as_bytes()).unwrap()), Some(Due::Now), "{score}");
            }
        }
    }

    #[test]
    fn a_score_is_an_instant_in_one_unit() {
        for (score, expected) in [(1.79e9, Unit::Seconds), (1.79e12, Unit::Milliseconds), (1.79e15, Unit::Microseconds)]
        {
            assert_eq!(Unit::of(score), Some(expected));
            for unit in Unit::ALL {
                assert_eq!(unit.due(score).is_some(), unit == expected, "{score} {}", unit.name());
            }
        }
        assert_eq!(Unit::of(f64::INFINITY), Some(Unit::Microseconds));
        for unit in Unit::ALL {
            assert_eq!(Unit::named(unit.name().as_bytes()), Some(unit));
        }
    }
}
