//! Instants as RFC 3339 text with milliseconds: `"2026-11-20T10:00:00.250Z"`.

use super::{Span, text};
use crate::clock::Millis;
use crate::limits::SECOND_MS;

use jiff::fmt::StdFmtWrite;
use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};
use serde::{Deserialize, Deserializer};
use serde_with::SerializeDisplay;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
static PARSER: DateTimeParser = DateTimeParser::new();

const EXPECTED: &str = "an instant such as \"2026-11-20T10:00:00Z\" or \"2026-11-20T11:00:00.250+01:00\"";
const NANOS_PER_MILLI: u128 = 1_000_000;

/// An instant, to the millisecond. It is made from a [`SystemTime`], or read from text such as `2026-11-20T10:00:00Z`. Finer values are
/// rounded up, so that nothing is early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, SerializeDisplay)]
pub struct Timestamp(#[doc(hidden)] pub Millis);

impl From<SystemTime> for Timestamp {
    /// Rounded up to whole milliseconds; an instant before 1970 is 1970.
    fn from(at: SystemTime) -> Self {
        Self(Span::from(at.duration_since(UNIX_EPOCH).unwrap_or_default()).0)
    }
}

impl From<Timestamp> for SystemTime {
    fn from(Timestamp(ms): Timestamp) -> Self {
        UNIX_EPOCH + Duration::from_millis(ms)
    }
}

impl FromStr for Timestamp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let timestamp = PARSER.parse_timestamp(text).map_err(|_| format!("expected {EXPECTED}, got {text:?}"))?;
        let nanos = u128::try_from(timestamp.as_nanosecond())
            .map_err(|_| format!("expected {EXPECTED}, got {text:?}: before 1970"))?;
        let ms = u64::try_from(nanos.div_ceil(NANOS_PER_MILLI)).expect("the year is below 10,000");
        // A leap second is read as the second before it.
        let is_leap = text.as_bytes().get(16..19) == Some(b":60");
        Ok(Self(if is_leap { ms + SECOND_MS } else { ms }))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No engine returns an instant after the year 9999. The text format has none, so such an instant is shown as the
        // last one.
        let timestamp = i64::try_from(self.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let timestamp = timestamp.unwrap_or(jiff::Timestamp::MAX);
        PRINTER.print_timestamp(&timestamp, StdFmtWrite(f)).map_err(|_| fmt::Error)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer, EXPECTED, str::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_and_print() {
        let at = Timestamp(1_795_168_800_250);
        assert_eq!(at.to_string(), "2026-11-20T10:00:00.250Z");
        assert_eq!(at.to_string().parse(), Ok(at));
        assert_eq!("2026-11-20T18:00:00.250+08:00".parse(), Ok(at));
        assert_eq!("2026-11-20T10:00:00.2491Z".parse(), Ok(at));
        assert_eq!("2026-12-31T23:59:60Z".parse::<Timestamp>().unwrap().to_string(), "2027-01-01T00:00:00.000Z");
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!("9999-12-30T22:00:00Z".parse::<Timestamp>().unwrap().to_string(), "9999-12-30T22:00:00.000Z");
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in
            ["", "tomorrow", "2026-11-20T10:00:00", "1795168800", "1969-12-31T23:59:59Z", "2026-13-01T00:00:00Z"]
        {
            let error = text.parse::<Timestamp>().unwrap_err();
            assert!(error.contains(EXPECTED) && error.contains(text), "{error}");
        }
        assert!(serde_json::from_str::<Timestamp>("1795168800250").is_err());
        assert_eq!(Timestamp(u64::MAX).to_string(), "9999-12-30T22:00:00.999Z");
    }
}
