//! Durations as people write them: `"250ms"`, `"30s"`, `"1h30m"`, `"7d"`.

use super::text;
use crate::invalid::Invalid;
use crate::limits::{DAY_MS, DELAY_MS_MAX, HOUR_MS, MINUTE_MS, SECOND_MS};
use serde::{Deserialize, Deserializer};
use serde_with::SerializeDisplay;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Units with their milliseconds, longest first.
const UNITS: [(&str, u64); 5] = [("d", DAY_MS), ("h", HOUR_MS), ("m", MINUTE_MS), ("s", SECOND_MS), ("ms", 1)];

const UNKNOWN_UNIT: &str = ": an unknown unit; there are d, h, m, s and ms";
const BLANK: &str = ": no blanks are allowed; the units are d, h, m, s and ms";
const NO_WHOLE: &str = ": only whole numbers, each with a unit: d, h, m, s or ms";
/// The longest text that an error repeats.
const SHOWN_CHARS_MAX: usize = 40;
const TOO_LONG: &str = ": no duration can be longer than 10 years (3652d12h)";
const EXPECTED: &str = "a duration such as \"250ms\", \"30s\", \"15m\", \"1h30m\" or \"7d\"";

/// A duration in whole milliseconds. It is made from a [`Duration`], rounded up, or read from text: whole numbers with the units `d`, `h`,
/// `m`, `s` and `ms`, longest first, each at most once, such as `1h30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, SerializeDisplay)]
pub struct Span(#[doc(hidden)] pub u64);

impl Span {
    /// The durations from `low_ms` to `high_ms`, in the words of an error: `between 1s and 12h`.
    #[doc(hidden)]
    pub fn bounds(low_ms: u64, high_ms: u64) -> String {
        let high = match high_ms {
            DELAY_MS_MAX => format!("10 years ({})", Self(high_ms)),
            _ => Self(high_ms).to_string(),
        };
        if low_ms == 0 { format!("at most {high}") } else { format!("between {} and {high}", Self(low_ms)) }
    }

    /// Reads a duration between two bounds in milliseconds, which are themselves accepted.
    ///
    /// # Errors
    /// A message with the bounds.
    #[doc(hidden)]
    pub fn parse_within(text: &str, low_ms: u64, high_ms: u64) -> Result<Self, String> {
        let why = match parse(text) {
            Ok(ms) if (low_ms..=high_ms).contains(&ms) => return Ok(Self(ms)),
            Ok(_) | Err(TOO_LONG) => "",
            Err(why) => why,
        };
        let of = if low_ms == 0 { "of " } else { "" };
        let bounds = Self::bounds(low_ms, high_ms);
        let got = shown(text);
        Err(format!("expected a duration {of}{bounds}, such as \"250ms\", \"30s\" or \"1h30m\", got {got}{why}"))
    }

    /// Checks that it is between two bounds in milliseconds, which are themselves accepted.
    ///
    /// # Errors
    /// [`Invalid`], with the field `what` and the bounds.
    #[doc(hidden)]
    pub fn check(self, what: &'static str, low_ms: u64, high_ms: u64) -> Result<(), Invalid> {
        if (low_ms..=high_ms).contains(&self.0) {
            return Ok(());
        }
        Err(Invalid::new(what, Self::bounds(low_ms, high_ms), self))
    }
}

/// A duration in its two largest units, as sentences name it: `13m 3s`.
pub(crate) fn about(ms: u64) -> String {
    let Some(first) = UNITS.iter().position(|&(_, unit)| ms >= unit) else { return "0s".to_owned() };
    let (name, unit) = UNITS[first];
    let rest = UNITS.get(first + 1).map(|&(name, smaller)| (ms % unit / smaller, name));
    // Milliseconds say nothing beside seconds.
    match rest.filter(|&(count, _)| count > 0 && unit > SECOND_MS) {
        Some((count, smaller)) => format!("{}{name} {count}{smaller}", ms / unit),
        None => format!("{}{name}", ms / unit),
    }
}

impl From<Duration> for Span {
    /// Rounded up to whole milliseconds.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(Span(ms): Span) -> Self {
        Self::from_millis(ms)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).map(Self).map_err(|why| {
            let limit =
                if why == UNKNOWN_UNIT { ", and no duration can be longer than 10 years (3652d12h)" } else { "" };
            format!("expected {EXPECTED}, got {}{why}{limit}", shown(text))
        })
    }
}

/// The start of a text, so that it does not hide why it was refused.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn parse(text: &str) -> Result<u64, &'static str> {
    let mut rest = text;
    let mut total = 0_u64;
    let mut units = UNITS.iter();
    if rest.is_empty() {
        return Err("");
    }
    if rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())) {
        return Err(": a duration cannot be negative");
    }
    if text.contains(char::is_whitespace) {
        return Err(BLANK);
    }
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
        let (unit, after) = after.split_at(after.bytes().take_while(u8::is_ascii_alphabetic).count());
        match (digits.is_empty(), unit.is_empty()) {
            (_, true) if after.is_empty() => return Err(": a number without a unit; there are d, h, m, s and ms"),
            (true, _) if rest.len() == text.len() => return Err(""),
            (true, _) | (_, true) => return Err(NO_WHOLE),
            (false, false) => {}
        }
        if !UNITS.iter().any(|(name, _)| *name == unit) {
            return Err(UNKNOWN_UNIT);
        }
        let (_, unit_ms) =
            units.by_ref().find(|(name, _)| *name == unit).ok_or(": units go from long to short, each at most once")?;
        let count: u64 = digits.parse().map_err(|_| TOO_LONG)?;
        total = count.checked_mul(*unit_ms).and_then(|ms| total.checked_add(ms)).ok_or(TOO_LONG)?;
        rest = after;
    }
    Ok(total)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, unit_ms) in UNITS {
            if rest >= unit_ms {
                write!(f, "{}{unit}", rest / unit_ms)?;
                rest %= unit_ms;
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer, EXPECTED, str::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_name_the_two_largest_units() {
        for (ms, text) in
            [(0, "0s"), (999, "999ms"), (9_999, "9s"), (783_412, "13m 3s"), (3_600_000, "1h"), (90_000_000, "1d 1h")]
        {
            assert_eq!(about(ms), text);
        }
    }

    #[test]
    fn durations_read_and_print() {
        for (text, ms) in [
            ("0s", 0),
            ("250ms", 250),
            ("30s", 30_000),
            ("15m", 900_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
            ("1d2h3m4s5ms", 93_784_005),
        ] {
            assert_eq!(text.parse(), Ok(Span(ms)));
            assert_eq!(Span(ms).to_string(), text);
        }
        assert_eq!("72h".parse(), Ok(Span(3 * DAY_MS)));
        assert_eq!(Span(3 * DAY_MS).to_string(), "3d");
        assert_eq!(Span(u64::MAX).to_string().parse(), Ok(Span(u64::MAX)));
    }

    #[test]
    fn durations_out_of_bounds_are_refused_with_the_bounds() {
        assert_eq!(Span(1_000).check("lease", 1_000, 5_000), Ok(()));
        assert_eq!(Span(5_000).check("lease", 1_000, 5_000), Ok(()));
        assert_eq!(Span::parse_within("5s", 1_000, 5_000), Ok(Span(5_000)));
        for (text, low, said) in [
            (
                "-1s",
                0,
                "a duration of at most 5s, such as \"250ms\", \"30s\" or \"1h30m\", got \"-1s\": a duration cannot",
            ),
            ("6s", 1_000, "a duration between 1s and 5s, such as \"250ms\", \"30s\" or \"1h30m\", got \"6s\""),
            ("20y", 0, "an unknown unit; there are d, h, m, s and ms"),
        ] {
            let error = Span::parse_within(text, low, 5_000).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let said = |ms, low, high| Span(ms).check("lease", low, high).unwrap_err().to_string();
        assert_eq!(said(999, 1_000, 5_000), "`lease` must be between 1s and 5s, got 999ms");
        assert_eq!(said(120_000, 0, MINUTE_MS), "`lease` must be at most 1m, got 2m");
        assert_eq!(
            said(DELAY_MS_MAX + 1, 0, DELAY_MS_MAX),
            "`lease` must be at most 10 years (3652d12h), got 3652d12h1ms"
        );
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for (text, why) in [
            ("", ""),
            ("30", "without a unit"),
            ("s", ""),
            ("-5s", "cannot be negative"),
            ("-s", ""),
            ("soon", ""),
            ("1.5h", "whole numbers, each with a unit: d, h, m, s or ms"),
            ("5 s", "no blanks are allowed"),
            ("1 hour", "no blanks are allowed; the units are d, h, m, s and ms"),
            ("1h ", "no blanks"),
            ("5w", "unknown unit"),
            ("5S", "unknown unit"),
            ("5s1h", "long to short"),
            ("5s5s", "long to short"),
            ("99999999999999999999s", "longer than 10 years"),
            ("18446744073709551615s", "longer than 10 years"),
        ] {
            let error = text.parse::<Span>().unwrap_err();
            assert!(error.contains(why) && error.contains(&format!("{text:?}")), "{text}: {error}");
        }
        let error = "9".repeat(5_000).parse::<Span>().unwrap_err();
        assert!(error.ends_with("…: a number without a unit; there are d, h, m, s and ms"), "{error}");
        let error = serde_json::from_str::<Span>("30").unwrap_err().to_string();
        assert_eq!(error, format!("invalid type: integer `30`, expected {EXPECTED} at line 1 column 2"));
    }
}
