//! Names of time zones, and what a wrong one probably means.
//!
//! Abbreviations and offsets are no names of zones: `CST` stands for several, and none of them knows when a place changes its
//! clocks. So they are refused, with the names that people mean by them.

use crate::invalid::Invalid;
use crate::model::name;
use jiff::tz::TimeZone;

/// Abbreviations and cities that are no names, and what they usually mean.
const MEANINGS: [(&str, &[&str]); 26] = [
    ("AEDT", &["Australia/Sydney"]),
    ("AEST", &["Australia/Sydney", "Australia/Brisbane"]),
    ("BEIJING", &["Asia/Shanghai"]),
    ("BJT", &["Asia/Shanghai"]),
    ("BRT", &["America/Sao_Paulo"]),
    ("BST", &["Europe/London"]),
    ("CDT", &["America/Chicago"]),
    ("CEST", &["Europe/Berlin"]),
    ("CHINA", &["Asia/Shanghai"]),
    ("CST", &["Asia/Shanghai", "America/Chicago"]),
    ("EDT", &["America/New_York"]),
    ("EEST", &["Europe/Athens"]),
    ("HKT", &["Asia/Hong_Kong"]),
    ("ICT", &["Asia/Bangkok"]),
    ("IST", &["Asia/Kolkata", "Asia/Jerusalem"]),
    ("JST", &["Asia/Tokyo"]),
    ("KST", &["Asia/Seoul"]),
    ("MDT", &["America/Denver"]),
    ("MSK", &["Europe/Moscow"]),
    ("NZST", &["Pacific/Auckland"]),
    ("PDT", &["America/Los_Angeles"]),
    ("PST", &["America/Los_Angeles"]),
    ("SGT", &["Asia/Singapore"]),
    ("SHENZHEN", &["Asia/Shanghai"]),
    ("WEST", &["Europe/Lisbon"]),
    ("WIB", &["Asia/Jakarta"]),
];
/// Minutes ahead of UTC, and the best known zone without changes of the clock there.
const PLACES: [(i32, &str); 9] = [
    (180, "Europe/Moscow"),
    (240, "Asia/Dubai"),
    (330, "Asia/Kolkata"),
    (345, "Asia/Kathmandu"),
    (420, "Asia/Bangkok"),
    (480, "Asia/Shanghai"),
    (540, "Asia/Tokyo"),
    (600, "Australia/Brisbane"),
    (-180, "America/Sao_Paulo"),
];
/// Names that resemble the given one less are not suggested.
const LIKENESS_MIN: f64 = 0.85;
/// A longer name is not compared with those that exist.
const COMPARED_BYTES_MAX: usize = 64;

/// The zone with this name.
///
/// # Errors
/// [`Invalid`], with the names that were probably meant.
pub(super) fn zone(name: &str) -> Result<TimeZone, Invalid> {
    jiff::tz::db().get(name).map_err(|_| {
        let meant = meant(name).join("` or `");
        let expected = if meant.is_empty() {
            "a name of the IANA time zone database, such as `Europe/Berlin` or `UTC`".to_owned()
        } else {
            format!("a name of the IANA time zone database, probably `{meant}`")
        };
        Invalid::new("time_zone", expected, name::shown(name))
    })
}

/// The zones that somebody probably means who writes this.
fn meant(name: &str) -> Vec<String> {
    if let Some(minutes) = offset(name) {
        let place = PLACES.iter().find(|(there, _)| *there == minutes).map(|(_, place)| (*place).to_owned());
        return place.into_iter().chain(etc(minutes)).collect();
    }
    let city = name.rsplit('/').next().unwrap_or(name).replace([' ', '-'], "_");
    if let Some((_, zones)) = MEANINGS.iter().find(|(word, _)| word.eq_ignore_ascii_case(&city)) {
        return zones.iter().map(|&zone| zone.to_owned()).collect();
    }
    // A broken offset resembles names that mean something else.
    if name.is_empty() || name.len() > COMPARED_BYTES_MAX || name.contains(['+', ':']) {
        return Vec::new();
    }
    let all: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    let is_there = |zone: &&String| zone.rsplit('/').next().is_some_and(|last| last.eq_ignore_ascii_case(&city));
    let likeness = |zone: &String| strsim::jaro_winkler(&zone.to_lowercase(), &name.to_lowercase());
    let nearest = || all.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let found = all.iter().find(is_there).or_else(|| nearest().filter(|zone| likeness(zone) >= LIKENESS_MIN));
    found.into_iter().cloned().collect()
}

/// Minutes ahead of UTC, if this is an offset such as `GMT+8`, `UTC+05:30` or `-0300`.
fn offset(name: &str) -> Option<i32> {
    let upper = name.to_ascii_uppercase();
    let text = upper.strip_prefix("GMT").or_else(|| upper.strip_prefix("UTC")).unwrap_or(&upper).trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+')?),
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => digits.split_at_checked(2)?,
        None => (digits, "0"),
    };
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let (hours, minutes): (i32, i32) = (number(hours)?, number(minutes)?);
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// The zone of a fixed offset in whole hours. Its sign is the reverse of the usual one, and it has none beyond 12 hours behind.
fn etc(minutes: i32) -> Option<String> {
    let hours = minutes / 60;
    let is_there = minutes % 60 == 0 && hours >= -12;
    is_there.then(|| if hours == 0 { "UTC".to_owned() } else { format!("Etc/GMT{:+}", -hours) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_suggests_what_it_means() {
        for (name, suggested) in [
            ("GMT+8", "`Asia/Shanghai` or `Etc/GMT-8`"),
            ("utc+8", "`Asia/Shanghai` or `Etc/GMT-8`"),
            ("+08:00", "`Asia/Shanghai` or `Etc/GMT-8`"),
            ("UTC+5:30", "`Asia/Kolkata`"),
            ("GMT-5", "`Etc/GMT+5`"),
            ("-0300", "`America/Sao_Paulo` or `Etc/GMT+3`"),
            ("CST", "`Asia/Shanghai` or `America/Chicago`"),
            ("Beijing", "`Asia/Shanghai`"),
            ("Asia/Beijing", "`Asia/Shanghai`"),
            ("tokyo", "`Asia/Tokyo`"),
            ("New York", "`America/New_York`"),
            ("Asia/Shangai", "`Asia/Shanghai`"),
            ("Europe/Berlim", "`Europe/Berlin`"),
        ] {
            let error = zone(name).unwrap_err().to_string();
            assert!(error.contains(&format!("database, probably {suggested}, got")), "{error}");
        }
        for name in ["", "nowhere", "+99", "+", "GMT+8:75", "GMT++8", &"x".repeat(1_000)] {
            let error = zone(name).unwrap_err().to_string();
            assert!(error.contains("such as `Europe/Berlin` or `UTC`, got"), "{error}");
        }
    }

    #[test]
    fn what_is_suggested_exists() {
        let meanings = MEANINGS.iter().flat_map(|(_, zones)| zones.iter().copied());
        for name in meanings.chain(PLACES.iter().map(|(_, place)| *place)) {
            assert_eq!(zone(name).unwrap().iana_name(), Some(name));
        }
        for hours in -12..=14 {
            let name = etc(hours * 60).unwrap();
            let there = zone(&name).unwrap().to_offset(jiff::Timestamp::UNIX_EPOCH);
            assert_eq!(there.seconds(), hours * 3_600, "{name}");
        }
        for (minutes, place) in PLACES {
            let now = jiff::Timestamp::from_second(1_795_168_800).unwrap();
            assert_eq!(zone(place).unwrap().to_offset(now).seconds(), minutes * 60, "{place}");
        }
    }
}
