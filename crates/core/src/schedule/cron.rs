//! Cron expressions in a time zone, including changes of its clocks.
//!
//! croner says which local times match an expression. This module decides which instants these are, as Vixie cron does. An
//! expression whose second, minute or hour begins with `*` is *interval-like*: it ticks whenever the clock shows a match, so
//! never for times that the clock skips, and twice for times that it shows twice. Any other is *fixed*: a time that the
//! clock skips ticks at the instant of the change, and one that it shows twice ticks the first time.

use super::ClockChange;
use super::zone::zone;
use crate::clock::Millis;
use crate::invalid::Invalid;
use crate::limits::CRON_BYTES_MAX;
use crate::model::name;
use croner::parser::{CronParser, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// The accepted forms of an expression.
const EXPECTED: &str = "a cron expression: 5 fields (minute, hour, day, month, weekday), 6 with seconds first, `@hourly`, `@daily`, \
                        `@weekly`, `@monthly`, `@yearly`, or `@every 90s`";
/// The end of the search for a match: beyond the longest wait, that for a 29 February on a given weekday over 2100.
const SEARCH_YEARS_MAX: i16 = 50;
/// Nicknames, and the expressions that they stand for.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
/// The fields with their values; the first is left out of an expression with five.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day", "1 to 31"),
    ("month", "1 to 12 or `jan` to `dec`"),
    ("weekday", "0 to 7 or `sun` to `sat`"),
];
const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

#[derive(Clone, Debug)]
pub(super) struct Cron {
    cron: croner::Cron,
    zone: TimeZone,
    is_interval: bool,
}

/// The index of the first field that is wrong by itself.
fn wrong_field(parser: &CronParser, fields: &[&str]) -> Option<usize> {
    (0..fields.len()).find(|&at| {
        let mut alone = vec!["*"; fields.len()];
        alone[at] = fields[at];
        parser.parse(&alone.join(" ")).is_err()
    })
}

/// Refuses the field at this index of an expression.
fn refused_field(expression: &str, at: usize) -> Invalid {
    let written: Vec<&str> = expression.split_whitespace().collect();
    let (field, values) = FIELDS[at + FIELDS.len() - written.len()];
    let expected = format!("a cron expression with {values} as its {field}, also as `*`, `1,3`, `1-5` or `*/2`");
    Invalid::new("cron", expected, format!("the {field} {:?} in {}", written[at], name::shown(expression)))
}

impl Cron {
    pub(super) fn new(expression: &str, time_zone: &str) -> Result<Self, Invalid> {
        let refuse = |why: String| Invalid::new("cron", EXPECTED, format!("{}{why}", name::shown(expression)));
        if expression.len() > CRON_BYTES_MAX {
            return Err(Invalid::new("cron", format!("at most {CRON_BYTES_MAX} bytes"), expression.len()));
        }
        let text = plain(expression).ok_or_else(|| refuse(String::new()))?;
        let fields: Vec<&str> = text.split_whitespace().collect();
        if !matches!(fields.len(), 5 | 6) {
            return Err(refuse(format!(", {} fields", fields.len())));
        }
        let clock = fields.len() - 3;
        let names: [&[&str]; 3] = [&[], &MONTHS, &WEEKDAYS];
        let has_words = |at: usize| has_known_words(fields[at], if at < clock { &[] } else { names[at - clock] });
        let parser = CronParser::builder().year(Year::Disallowed).build();
        if let Some(at) = (0..fields.len()).find(|&at| !has_words(at)).or_else(|| wrong_field(&parser, &fields)) {
            // A nickname is right.
            return Err(refused_field(expression, at));
        }
        let cron = parser.parse(&text).map_err(|_| refuse(String::new()))?;
        let is_interval = fields[..clock].iter().any(|field| field.starts_with('*'));
        Ok(Self { cron, zone: zone(time_zone)?, is_interval })
    }

    pub(super) fn time_zone(&self) -> Option<&str> {
        self.zone.iana_name()
    }

    pub(super) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Whether a change of the clock moved the tick at this instant, or shows its time twice.
    pub(super) fn clock_change(&self, at: Millis) -> Option<ClockChange> {
        let reading = self.zone.to_datetime(Timestamp::from_millisecond(i64::try_from(at).ok()?).ok()?);
        if matches!(self.zone.to_ambiguous_timestamp(reading).offset(), AmbiguousOffset::Fold { .. }) {
            return Some(ClockChange::Fold);
        }
        let is_moved = !self.cron.is_time_matching(&reading).ok()?;
        is_moved.then_some(ClockChange::Gap)
    }

    /// The first match after this instant.
    pub(super) fn next(&self, after: Millis) -> Option<Millis> {
        let second = Timestamp::from_second(i64::try_from(after / 1_000).ok()?).ok()?;
        let next = if self.is_interval { self.next_shown(second) } else { self.next_meant(second) };
        u64::try_from(next?.as_millisecond()).ok()
    }

    /// The next instant at which the clock shows a match. Between two changes of the clock that is arithmetic.
    fn next_shown(&self, after: Timestamp) -> Option<Timestamp> {
        let year_last = self.zone.to_datetime(after).year() + SEARCH_YEARS_MAX;
        let mut from = after.checked_add(SignedDuration::from_secs(1)).ok()?;
        loop {
            let offset = self.zone.to_offset(from);
            let shown = self.cron.find_next_occurrence(&offset.to_datetime(from), true).ok()?;
            let at = offset.to_timestamp(shown).ok()?;
            match self.zone.following(from).next().map(|change| change.timestamp()) {
                Some(change) if change <= at => from = change,
                _ => return (shown.year() <= year_last).then_some(at),
            }
            if offset.to_datetime(from).year() > year_last {
                return None;
            }
        }
    }

    /// The next instant of a match, whether or not the clock shows it.
    fn next_meant(&self, after: Timestamp) -> Option<Timestamp> {
        let mut reading = self.zone.to_datetime(after);
        let year_last = reading.year() + SEARCH_YEARS_MAX;
        loop {
            reading = self.cron.find_next_occurrence(&reading, false).ok()?;
            if reading.year() > year_last {
                return None;
            }
            let at = self.instant(reading)?;
            // A time that the clock shows for the second time has ticked.
            if at > after {
                return Some(at);
            }
        }
    }

    /// When the clock shows this for the first time; if it skips it, the instant of the change.
    fn instant(&self, reading: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(reading);
        let AmbiguousOffset::Gap { before, .. } = ambiguous.offset() else { return ambiguous.earlier().ok() };
        let would_be = before.to_timestamp(reading).ok()?.checked_add(SignedDuration::from_secs(1)).ok()?;
        self.zone.preceding(would_be).next().map(|leap| leap.timestamp())
    }
}

/// The expression in capitals, with nicknames replaced.
fn plain(expression: &str) -> Option<String> {
    if !expression.starts_with('@') {
        return Some(expression.to_ascii_uppercase());
    }
    let (_, plain) = NICKNAMES.iter().find(|(nickname, _)| nickname.eq_ignore_ascii_case(expression))?;
    Some((*plain).to_owned())
}

/// Whether letters occur only where they have a meaning: croner replaces names by numbers anywhere, so that `1JAN` would be
/// November.
fn has_known_words(field: &str, names: &[&str]) -> bool {
    field.split(|c: char| !c.is_ascii_alphanumeric()).all(|word| {
        let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_number = rest.len() < word.len();
        let after_name = names.iter().find_map(|name| rest.strip_prefix(name)).filter(|_| !is_number).unwrap_or(rest);
        // `L` for the last, `W` for the nearest weekday.
        matches!(after_name, "" | "L" | "W" | "LW")
    })
}

/// Whether the expression names both days of the month and weekdays, so that a day of either kind matches. A `+` before the
/// weekday asks for both.
pub(super) fn is_either_day(expression: &str) -> bool {
    let Some(text) = plain(expression) else { return false };
    let mut fields = text.split_whitespace().rev();
    let (weekday, day) = (fields.next().unwrap_or("*"), fields.nth(1).unwrap_or("*"));
    let is_any = |field| matches!(field, "*" | "?");
    !is_any(day) && !is_any(weekday) && !weekday.starts_with('+')
}
