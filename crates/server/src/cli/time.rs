//! Instants as people say them.

use duetime_core::api::{Span, Timestamp};
use duetime_core::limits::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};
use duetime_core::{Clock, Millis, SystemClock};
use std::time::Duration;

/// A unit is used for durations shorter than this many of the next: "80 s", but "2 min".
const UNITS: [(&str, u64, u64); 4] = [
    ("s", SECOND_MS, 90 * SECOND_MS),
    ("min", MINUTE_MS, 90 * MINUTE_MS),
    ("h", HOUR_MS, 36 * HOUR_MS),
    ("d", DAY_MS, 1_000 * DAY_MS),
];
const YEAR_MS: u64 = 365 * DAY_MS + DAY_MS / 4;

/// The wall clock of this machine. It only decides how instants are shown.
pub(crate) fn now() -> Millis {
    SystemClock::new().wall()
}

/// An instant seen from `now`: "in 29 min", "3 d ago", "now".
pub(crate) fn relative(at: Millis, now: Millis) -> String {
    let distance_ms = at.abs_diff(now);
    if distance_ms < SECOND_MS / 2 {
        return "now".to_owned();
    }
    let (name, unit_ms) =
        UNITS.iter().find(|(.., below)| distance_ms < *below).map_or(("y", YEAR_MS), |&(name, ms, _)| (name, ms));
    let count = (distance_ms + unit_ms / 2) / unit_ms;
    if at > now { format!("in {count} {name}") } else { format!("{count} {name} ago") }
}

/// An instant, and how far it is from now: "2026-12-01T06:00:00.000Z (in 30 min)".
pub(crate) fn exact(at: Millis) -> String {
    format!("{} ({})", Timestamp(at), relative(at, now()))
}

/// The time from now to an instant, with the instant if it is a minute or more: "in 2 s", "in 30 min
/// (2026-12-01T06:00:00.000Z)".
pub(crate) fn when(at: Millis) -> String {
    let now = now();
    let distance = relative(at, now);
    if at.abs_diff(now) < MINUTE_MS { distance } else { format!("{distance} ({})", Timestamp(at)) }
}

/// Reads an instant, or a distance from now: `2h`, or `-1h` for an hour ago.
pub(crate) fn instant(text: &str) -> Result<Timestamp, String> {
    let (is_past, length) = match text.strip_prefix('-') {
        Some(length) => (true, length),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let Ok(Span(ms)) = length.parse() else {
        return text.parse().map_err(|why: String| format!("{why}; or a distance from now such as \"2h\" or \"-1h\""));
    };
    Ok(Timestamp(if is_past { now().saturating_sub(ms) } else { now() + ms }))
}

/// How long ago something was due, finer than the engine's milliseconds; `None` if it is not due yet.
pub(crate) fn late(due_at: Millis) -> Option<Duration> {
    let due_at_ns = i128::from(due_at) * 1_000_000;
    let late_ns = jiff::Timestamp::now().as_nanosecond() - due_at_ns;
    u64::try_from(late_ns).ok().map(Duration::from_nanos)
}

/// A duration with three digits or so: "0.84 ms", "12.3 ms", "1.52 s".
pub(crate) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.01 => format!("{:.2} ms", s * 1e3),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.2} s"),
        s => format!("{:.1} min", s / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_may_be_a_distance_from_now() {
        let before = now();
        for (text, ms) in [("-1h", -(HOUR_MS as i64)), ("2h", 2 * HOUR_MS as i64), ("+1d", DAY_MS as i64), ("-0s", 0)] {
            let Timestamp(at) = instant(text).unwrap();
            let expected = before.checked_add_signed(ms).unwrap();
            assert!((expected..=expected + now() - before).contains(&at), "{text}: {at}");
        }
        assert_eq!(instant("2026-11-20T10:00:00.250Z"), Ok(Timestamp(1_795_168_800_250)));
        for text in ["", "-", "yesterday", "--1h", "-2026-11-20T10:00:00Z", "1 h ago"] {
            assert!(instant(text).unwrap_err().contains("such as \"2h\" or \"-1h\""), "{text}");
        }
    }

    #[test]
    fn instants_are_told_from_now() {
        let now = 1_800_000_000_000;
        let after = |ms| relative(now + ms, now);
        assert_eq!(after(0), "now");
        assert_eq!(after(999), "in 1 s");
        assert_eq!(after(1_800_000 - 40), "in 30 min");
        assert_eq!(after(80 * SECOND_MS), "in 80 s");
        assert_eq!(after(2 * HOUR_MS), "in 2 h");
        assert_eq!(after(7 * DAY_MS), "in 7 d");
        assert_eq!(after(10 * YEAR_MS), "in 10 y");
        assert_eq!(relative(now - 3 * SECOND_MS, now), "3 s ago");
    }
}
