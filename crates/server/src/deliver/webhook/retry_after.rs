//! The header `Retry-After`: seconds, or a date of HTTP.

use duetime_core::Millis;
use duetime_core::limits::{DAY_MS, SECOND_MS};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// Longest time that a receiver may ask for: a day. Longer ones count as a day.
const MAX_MS: u64 = DAY_MS;

static PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
/// The three date formats of RFC 9110, section 5.6.7, without the day of the week.
const FORMS: [&str; 3] = ["%d %b %Y %H:%M:%S GMT", "%d-%b-%y %H:%M:%S GMT", "%b %e %H:%M:%S %Y"];

/// How long to wait from `now` on; `None` if the text is no time, or the time has passed.
pub(super) fn read(text: &str, now: Millis) -> Option<u64> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let wait_ms = if is_number {
        text.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(SECOND_MS)
    } else {
        date(text)?.saturating_sub(now)
    };
    (wait_ms > 0).then_some(wait_ms.min(MAX_MS))
}

fn date(text: &str) -> Option<Millis> {
    if let Ok(at) = PARSER.parse_timestamp(text) {
        return u64::try_from(at.as_millisecond()).ok();
    }
    let (_, rest) = text.split_once(", ").or_else(|| text.split_once(' '))?;
    let date = FORMS.iter().find_map(|form| strtime::parse(form, rest).ok()?.to_datetime().ok())?;
    // The end of the year 9999 is outside jiff's range of timestamps.
    let at = date.to_zoned(TimeZone::UTC).map_or(i64::MAX, |at| at.timestamp().as_millisecond());
    u64::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read() {
        // Sun, 06 Nov 1994 08:49:00 GMT
        let now = 784_111_740_000;
        for (text, wait_ms) in [
            ("1", Some(1_000)),
            (" 120 ", Some(120_000)),
            ("0", None),
            ("86400", Some(DAY_MS)),
            ("86401", Some(DAY_MS)),
            ("99999999999999999999999", Some(DAY_MS)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(37_000)),
            ("Sun, 06 Nov 1994 08:48:37 GMT", None),
            ("Sun, 06 Nov 2094 08:49:37 GMT", Some(DAY_MS)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(DAY_MS)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(37_000)),
            ("Sun Nov  6 08:49:37 1994", Some(37_000)),
            ("Sun Nov  6 08:48:37 1994", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(read(text, now), wait_ms, "{text:?}");
        }
    }
}
