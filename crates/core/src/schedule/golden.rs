//! Ticks that were worked out by hand, also over clock changes, and expressions that are refused.

use super::{ClockChange, Schedule, ScheduleStatus, Ticks, Timing};
use crate::clock::Millis;
use crate::json::{Span, Timestamp};
use crate::limits::{DAY_MS, MINUTE_MS};
use crate::model::job::{Due, NewJob};

/// 2026-01-01.
const NOW: Millis = 1_767_225_600_000;

fn at(text: &str) -> Millis {
    let text = if text.contains('T') { text.to_owned() } else { format!("{text}T00:00") };
    let seconds = if text.matches(':').count() == 1 { ":00Z" } else { "Z" };
    format!("{text}{seconds}").parse::<jiff::Timestamp>().unwrap().as_millisecond() as Millis
}

fn shown(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at as i64).unwrap().to_string()
}

fn ticks(expression: &str, zone: &str) -> Ticks {
    Schedule::new(Timing::parse(expression, Some(zone)).unwrap(), NewJob::new(*b"{}")).ticks(NOW).unwrap()
}

/// In this zone, the ticks after the first instant (all in UTC) are the rest.
#[track_caller]
fn golden(expression: &str, zone: &str, after: &str, expected: &[&str]) {
    let ticks = ticks(expression, zone);
    let expected: Vec<String> = expected.iter().map(|text| shown(at(text))).collect();
    let found: Vec<String> = ticks.from(ticks.next(at(after)), expected.len()).into_iter().map(shown).collect();
    assert_eq!(found, expected, "{expression} in {zone} after {after}");
}

const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";
const LORD_HOWE: &str = "Australia/Lord_Howe";

/// 2026-03-29, 02:00 becomes 03:00 at 01:00Z.
#[test]
fn berlin_leaps_forward() {
    golden("30 2 * * *", BERLIN, "2026-03-27T12:00", &["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]);
    golden("0 2 * * *", BERLIN, "2026-03-27T12:00", &["2026-03-28T01:00", "2026-03-29T01:00", "2026-03-30T00:00"]);
    golden("0 3 * * *", BERLIN, "2026-03-27T12:00", &["2026-03-28T02:00", "2026-03-29T01:00", "2026-03-30T01:00"]);
    // Two that fall together tick once.
    golden("0 2,3 * * *", BERLIN, "2026-03-28T12:00", &["2026-03-29T01:00", "2026-03-30T00:00", "2026-03-30T01:00"]);
    golden("0,59 2 * * *", BERLIN, "2026-03-28T12:00", &["2026-03-29T01:00", "2026-03-30T00:00", "2026-03-30T00:59"]);
    golden("*/15 * * * *", BERLIN, "2026-03-29T00:30", &["2026-03-29T00:45", "2026-03-29T01:00", "2026-03-29T01:15"]);
    golden("*/15 2 * * *", BERLIN, "2026-03-28T02:00", &["2026-03-30T00:00", "2026-03-30T00:15", "2026-03-30T00:30"]);
    golden("0 */2 * * *", BERLIN, "2026-03-28T22:30", &["2026-03-28T23:00", "2026-03-29T02:00", "2026-03-29T04:00"]);
    golden("* 30 2 * * *", BERLIN, "2026-03-28T12:00", &["2026-03-30T00:30", "2026-03-30T00:30:01"]);
    // Nothing ticks again during the hour after the change.
    golden("30 2 * * *", BERLIN, "2026-03-29T01:00", &["2026-03-30T00:30"]);
    golden("30 2 * * *", BERLIN, "2026-03-29T00:59:59", &["2026-03-29T01:00"]);
}

/// Compares the local time and the clock change of each run with the expected ones.
#[track_caller]
fn runs(expression: &str, zone: &str, after: &str, expected: &[(&str, Option<ClockChange>)]) {
    let schedule = Schedule::new(Timing::parse(expression, Some(zone)).unwrap(), NewJob::new(*b"{}"));
    let next =
        ticks(expression, zone).from(ticks(expression, zone).next(at(after)), 1).into_iter().map(Timestamp).collect();
    let status = ScheduleStatus { name: "s".into(), version: 1, schedule, next, last: None };
    let runs = status.runs(expected.len()).unwrap();
    let found: Vec<_> = runs.iter().map(|run| (&*run.local, run.clock_change)).collect();
    assert_eq!(found, expected, "{expression} in {zone}");
}

#[test]
fn runs_say_how_clocks_change_them() {
    const GAP: Option<ClockChange> = Some(ClockChange::Gap);
    const FOLD: Option<ClockChange> = Some(ClockChange::Fold);
    runs(
        "30 2 * * *",
        BERLIN,
        "2026-03-28T12:00",
        &[("2026-03-29T03:00:00+02:00[Europe/Berlin]", GAP), ("2026-03-30T02:30:00+02:00[Europe/Berlin]", None)],
    );
    // At the change, but not because of it.
    runs("0 3 * * *", BERLIN, "2026-03-28T12:00", &[("2026-03-29T03:00:00+02:00[Europe/Berlin]", None)]);
    runs("*/30 * * * *", BERLIN, "2026-03-29T00:30", &[("2026-03-29T03:00:00+02:00[Europe/Berlin]", None)]);
    runs(
        "30 2 * * *",
        BERLIN,
        "2026-10-24T12:00",
        &[("2026-10-25T02:30:00+02:00[Europe/Berlin]", FOLD), ("2026-10-26T02:30:00+01:00[Europe/Berlin]", None)],
    );
    runs(
        "30 * * * *",
        BERLIN,
        "2026-10-25T00:00",
        &[
            ("2026-10-25T02:30:00+02:00[Europe/Berlin]", FOLD),
            ("2026-10-25T02:30:00+01:00[Europe/Berlin]", FOLD),
            ("2026-10-25T03:30:00+01:00[Europe/Berlin]", None),
        ],
    );
    let ticks = Schedule::new(Timing::Every(Span(1_500)), NewJob::new(*b"{}")).ticks(NOW).unwrap();
    assert_eq!(ticks.run(NOW + 1_500).local, "2026-01-01T00:00:01.5+00:00[UTC]");
}

#[test]
fn so_many_runs_are_shown() {
    let status = |expression: &str, end| {
        let timing = Timing::parse(expression, Some(BERLIN)).unwrap();
        let schedule = Schedule { end, ..Schedule::new(timing, NewJob::new(*b"{}")) };
        let next = schedule.ticks(NOW).unwrap().next(NOW).into_iter().map(Timestamp).collect();
        ScheduleStatus { name: "s".into(), version: 1, schedule, next, last: None }
    };
    // The search for a very rare match is bounded.
    for leap_days in ["0 0 29 2 *", "59 */23 29 2 *"] {
        assert_eq!(status(leap_days, None).runs(100).unwrap().len(), 100);
    }
    let ending = status("0 0 * * *", Some(Timestamp(NOW + 5 * DAY_MS)));
    assert_eq!((ending.runs(100).unwrap().len(), ending.runs(2).unwrap().len()), (5, 2));
    for limit in [0, 101] {
        assert_eq!(ending.runs(limit).unwrap_err().what, "limit");
    }
}

/// 2026-10-25, 03:00 becomes 02:00 at 01:00Z.
#[test]
fn berlin_goes_back() {
    golden("30 2 * * *", BERLIN, "2026-10-24T12:00", &["2026-10-25T00:30", "2026-10-26T01:30"]);
    golden("30 2 * * *", BERLIN, "2026-10-25T00:45", &["2026-10-26T01:30"]);
    golden("30 2 * * *", BERLIN, "2026-10-25T01:15", &["2026-10-26T01:30"]);
    golden("0 2,14 * * *", BERLIN, "2026-10-24T12:30", &["2026-10-25T00:00", "2026-10-25T13:00", "2026-10-26T01:00"]);
    golden("0 3 * * *", BERLIN, "2026-10-24T12:00", &["2026-10-25T02:00", "2026-10-26T02:00"]);
    golden("0 * * * *", BERLIN, "2026-10-24T23:30", &["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"]);
    golden(
        "*/30 * * * *",
        BERLIN,
        "2026-10-24T23:45",
        &["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-25T02:00"],
    );
    golden(
        "*/30 2 * * *",
        BERLIN,
        "2026-10-24T12:00",
        &["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-26T01:00"],
    );
}

/// 2026-03-08 02:00 becomes 03:00 at 07:00Z; 2026-11-01 02:00 becomes 01:00 at 06:00Z.
#[test]
fn new_york_changes_its_clocks() {
    golden("30 2 * * *", NEW_YORK, "2026-03-08", &["2026-03-08T07:00", "2026-03-09T06:30"]);
    golden("*/20 * * * *", NEW_YORK, "2026-03-08T06:30", &["2026-03-08T06:40", "2026-03-08T07:00", "2026-03-08T07:20"]);
    golden("30 1 * * *", NEW_YORK, "2026-10-31T12:00", &["2026-11-01T05:30", "2026-11-02T06:30"]);
    golden("0 * * * *", NEW_YORK, "2026-11-01T04:30", &["2026-11-01T05:00", "2026-11-01T06:00", "2026-11-01T07:00"]);
    golden("@daily", NEW_YORK, "2026-10-31T12:00", &["2026-11-01T04:00", "2026-11-02T05:00"]);
}

/// By half an hour: 2026-04-05 02:00 becomes 01:30 at 15:00Z the day before; 2026-10-04 02:00 becomes 02:30 at 15:30Z.
#[test]
fn lord_howe_changes_by_half_an_hour() {
    golden("45 1 * * *", LORD_HOWE, "2026-04-04", &["2026-04-04T14:45", "2026-04-05T15:15"]);
    golden(
        "*/15 * * * *",
        LORD_HOWE,
        "2026-04-04T14:20",
        &["2026-04-04T14:30", "2026-04-04T14:45", "2026-04-04T15:00", "2026-04-04T15:15", "2026-04-04T15:30"],
    );
    golden("0 * * * *", LORD_HOWE, "2026-04-04T13:30", &["2026-04-04T14:00", "2026-04-04T15:30", "2026-04-04T16:30"]);
    golden("15 2 * * *", LORD_HOWE, "2026-10-03", &["2026-10-03T15:30", "2026-10-04T15:15"]);
    golden(
        "0,15,30,45 * * * *",
        LORD_HOWE,
        "2026-10-03T15:10",
        &["2026-10-03T15:15", "2026-10-03T15:30", "2026-10-03T15:45"],
    );
}

#[test]
fn clocks_that_are_left_alone() {
    golden("0 3 * * *", "Asia/Shanghai", "2026-03-28", &["2026-03-28T19:00", "2026-03-29T19:00", "2026-03-30T19:00"]);
    golden("0 3 * * *", "UTC", "2026-10-24T12:00", &["2026-10-25T03:00", "2026-10-26T03:00"]);
    golden(
        "*/20 30 12 * * *",
        "UTC",
        "2026-01-01",
        &["2026-01-01T12:30", "2026-01-01T12:30:20", "2026-01-01T12:30:40", "2026-01-02T12:30"],
    );
}

#[test]
fn days_of_the_calendar() {
    golden("0 0 29 2 *", "UTC", "2026-01-01", &["2028-02-29", "2032-02-29"]);
    golden("0 0 29 2 *", "UTC", "2096-03-01", &["2104-02-29"]);
    golden("0 12 29 FEB +MON", "UTC", "2026-01-01", &["2044-02-29T12:00"]);
    golden("0 0 31 * *", BERLIN, "2026-03-01", &["2026-03-30T22:00", "2026-05-30T22:00"]);
    golden("0 0 L * *", "UTC", "2026-01-01", &["2026-01-31", "2026-02-28", "2026-03-31"]);
    golden("0 0 15W 8 *", "UTC", "2026-01-01", &["2026-08-14", "2027-08-16"]);
    golden("0 0 * * FRI#2", "UTC", "2026-01-01", &["2026-01-09", "2026-02-13"]);
    golden("0 0 * * 5L", "UTC", "2026-01-01", &["2026-01-30", "2026-02-27"]);
    // Either of both days matches, as in cron.
    golden(
        "0 0 13 * fri",
        "UTC",
        "2026-02-01",
        &["2026-02-06", "2026-02-13", "2026-02-20", "2026-02-27", "2026-03-06", "2026-03-13"],
    );
    golden("0 0 13 * +fri", "UTC", "2026-01-01", &["2026-02-13", "2026-03-13", "2026-11-13"]);
    golden("0 0 * * 7", "UTC", "2026-01-01", &["2026-01-04", "2026-01-11"]);
    golden("0 9 * jan-mar mon-fri", "UTC", "2026-03-30T12:00", &["2026-03-31T09:00", "2027-01-01T09:00"]);
}

#[test]
fn days_of_either_kind_are_noticed() {
    for (expression, is_either) in [
        ("0 9 1 * mon", true),
        ("0 0 9 1,15 * 1-5", true),
        ("0 9 */2 * mon", true),
        ("0 9 1 * +mon", false),
        ("0 9 1 * *", false),
        ("0 9 ? * mon", false),
        ("@weekly", false),
        ("x", false),
    ] {
        assert_eq!(Timing::parse(expression, None).unwrap().is_either_day(), is_either, "{expression}");
    }
    assert!(!Timing::parse("@every 5s", None).unwrap().is_either_day());
}

/// A day of 24 hours that the calendar skips.
#[test]
fn a_whole_day_may_be_left_out() {
    golden("0 12 30 12 *", "Pacific/Apia", "2011-12-29", &["2011-12-30T10:00", "2012-12-29T22:00"]);
}

/// Over every change of a year: interval-like ticks are all real quarters, and fixed ones one a day.
#[test]
fn a_year_has_no_gap_and_nothing_twice() {
    for zone in [BERLIN, NEW_YORK, LORD_HOWE, "Africa/Casablanca", "Pacific/Chatham", "America/St_Johns", "UTC"] {
        let quarters = ticks("*/15 * * * *", zone);
        let mut next = NOW;
        while next < NOW + 366 * DAY_MS {
            next += 15 * MINUTE_MS;
            assert_eq!(quarters.next(next - 1), Some(next), "{zone}");
            assert_eq!(quarters.next(next - 15 * MINUTE_MS), Some(next), "{zone}");
        }
        for minute in [0, 59, 90, 120, 149, 150, 179, 180, 1_439] {
            let daily = ticks(&format!("{} {} * * *", minute % 60, minute / 60), zone);
            let days = daily.from(daily.next(NOW), 365);
            let length = |pair: &[Millis]| pair[1].abs_diff(pair[0]).abs_diff(DAY_MS);
            assert!(days.windows(2).all(|pair| length(pair) <= 120 * MINUTE_MS), "{minute} in {zone}");
            assert!(days[364].abs_diff(days[0]).abs_diff(364 * DAY_MS) <= 60 * MINUTE_MS, "{minute} in {zone}");
        }
    }
}

#[test]
fn intervals_count_from_their_anchor() {
    let schedule = Schedule::new(Timing::parse("@every 90s", None).unwrap(), NewJob::new(*b"{}"));
    let ticks = schedule.ticks(NOW).unwrap();
    assert_eq!(ticks.from(ticks.next(NOW), 3), [NOW + 90_000, NOW + 180_000, NOW + 270_000]);
    assert_eq!(ticks.next(NOW + 89_999), Some(NOW + 90_000));
    let bounded = Schedule { start: Some(Timestamp(NOW + 7)), end: Some(Timestamp(NOW + 180_007)), ..schedule };
    let ticks = bounded.ticks(NOW).unwrap();
    assert_eq!(ticks.from(ticks.next(NOW), 9), [NOW + 7, NOW + 90_007, NOW + 180_007]);
}

#[test]
fn nothing_ticks_before_the_start_or_after_the_end() {
    let timing = Timing::parse("0 0 * * *", Some(BERLIN)).unwrap();
    let schedule = Schedule {
        start: Some(Timestamp(at("2026-06-01T22:00"))),
        end: Some(Timestamp(at("2026-06-03T22:00"))),
        ..Schedule::new(timing, NewJob::new(*b"{}"))
    };
    let ticks = schedule.ticks(NOW).unwrap();
    let expected = ["2026-06-01T22:00", "2026-06-02T22:00", "2026-06-03T22:00"].map(at);
    assert_eq!(ticks.from(ticks.next(NOW), 9), expected);
}

#[test]
fn the_last_tick_is_found_among_many() {
    for (expression, until) in [
        ("* * * * * *", "2027-01-01"),
        ("* * * 1 * *", "2026-03-05"),
        ("0 3 * * *", "2026-10-25T12:00"),
        ("@every 7s", "2026-02-01"),
    ] {
        let timing = Timing::parse(expression, (!expression.starts_with("@every")).then_some(BERLIN)).unwrap();
        let ticks = Schedule::new(timing, NewJob::new(*b"{}")).ticks(NOW).unwrap();
        let (first, until) = (ticks.next(NOW).unwrap(), at(until));
        let last = ticks.last(first, until);
        assert!(last <= until && ticks.next(last - 1) == Some(last), "{expression}");
        assert!(ticks.next(last).unwrap() > until, "{expression}");
        assert_eq!(ticks.last(first, first), first);
    }
}

#[test]
fn what_is_no_schedule_is_refused() {
    let zone = Some(BERLIN);
    for (text, zone, what, why) in [
        ("", zone, "cron", "0 fields"),
        ("* * * *", zone, "cron", "4 fields"),
        ("* * * * * * *", zone, "cron", "7 fields"),
        (
            "60 * * * *",
            zone,
            "cron",
            "with 0 to 59 as its minute, also as `*`, `1,3`, `1-5` or `*/2`, got the minute \"60\" in \"60",
        ),
        ("* 24 * * *", zone, "cron", "24"),
        ("* * 0 * *", zone, "cron", "0"),
        ("*/0 * * * *", zone, "cron", ""),
        ("5-1 * * * *", zone, "cron", ""),
        ("0/15 * * * *", zone, "cron", ""),
        ("x * * * *", zone, "cron", "the minute \"x\""),
        ("* * * 1JAN *", zone, "cron", "the month \"1JAN\""),
        ("* * * MON *", zone, "cron", "the month \"MON\""),
        ("* * * * mno", zone, "cron", "0 to 7 or `sun` to `sat` as its weekday"),
        ("0 * * * * mno", zone, "cron", "the weekday \"mno\" in \"0 * * * * mno\""),
        ("@reboot", zone, "cron", "@reboot"),
        ("@fortnightly", zone, "cron", "@fortnightly"),
        ("0 0 30 2 *", zone, "cron", "0 0 30 2"),
        ("0 0 31 4,6 *", zone, "cron", "0 0 31 4"),
        ("* * * * *", Some("Europe/Berlim"), "time_zone", "Europe/Berlim"),
        ("* * * * *", Some("+01:00"), "time_zone", "+01:00"),
        ("* * * * *", Some(""), "time_zone", ""),
        ("@every 500ms", None, "every", "500ms"),
        ("@every 4000d", None, "every", "4000d"),
        ("@every", None, "cron", "@every"),
        ("@every 5", None, "cron", "`@every 90s`"),
        ("@every 90s", zone, "time_zone", "Europe/Berlin"),
    ] {
        let checked = Timing::parse(text, zone)
            .and_then(|timing| Schedule::new(timing, NewJob::new(*b"{}")).check("s", NOW, 1 << 20));
        let error = checked.expect_err(text).to_string();
        assert!(error.contains(&format!("`{what}`")) && error.contains(why), "{text}: {error}");
    }
    let long = format!("{} * * * *", "1,".repeat(200));
    assert!(Schedule::new(Timing::parse(&long, zone).unwrap(), NewJob::new(*b"")).check("s", NOW, 9).is_err());
}

#[test]
fn the_rest_of_a_schedule_is_checked_too() {
    let right = Schedule::new(Timing::Every(Span(5_000)), NewJob::new(*b"{}"));
    right.check("nightly", NOW, 100).unwrap();
    let job = |job: NewJob| Schedule { job, ..right.clone() };
    let tags = (0..16).map(|i| format!("t{i}").into()).collect();
    for (name, wrong, what) in [
        ("night ly", right.clone(), "`schedule`"),
        ("s", job(NewJob { due: Due::After(Span(5)), ..right.job.clone() }), "`due_at`"),
        ("s", job(NewJob { queue: "".into(), ..right.job.clone() }), "`queue`"),
        ("s", job(NewJob { tags, ..right.job.clone() }), "`tags`"),
        ("s", job(NewJob::new(vec![0; 101])), "`payload`"),
        ("s", Schedule { end: Some(Timestamp(NOW)), start: Some(Timestamp(NOW + 1)), ..right.clone() }, "`end`"),
        ("s", Schedule { start: Some(Timestamp(1_700_000_000)), ..right.clone() }, "`start`"),
        ("s", Schedule { end: Some(Timestamp(u64::MAX)), ..right.clone() }, "`end`"),
    ] {
        let error = wrong.check(name, NOW, 100).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}
