//! Parsers that meet the outside, fuzzed from a corpus.

use duetime_core::api::{Object, Push, Span, read};
use duetime_core::model::trace;
use duetime_core::schedule::Timing;
use duetime_core::testing::fuzz;
use duetime_core::{JobId, NewJob, Receipt, Schedule, Target};
use std::str::FromStr;

/// An instant in November 2026.
const NOW: u64 = 1_795_168_800_000;

fn round_trip<T: FromStr + ToString>(text: &str) -> Option<String> {
    text.parse::<T>().ok().map(|value| value.to_string())
}

#[test]
fn ids_receipts_and_durations() {
    fuzz("id", round_trip::<JobId>);
    fuzz("receipt", round_trip::<Receipt>);
    fuzz("duration", round_trip::<Span>);
}

#[test]
fn targets() {
    fuzz("target", |text| {
        let target: Target = text.parse().ok()?;
        Some(serde_json::to_string(&target).expect("a target has only string keys"))
    });
}

#[test]
fn options_of_the_inbox() {
    fuzz("inbox-options", |text| {
        let Object(options) = read::<Object<Push<'_>>>(text).ok()?;
        let mut job = NewJob::new(*b"{}");
        options.apply_options(&mut job).ok()?;
        Some(serde_json::to_string(&Push::options_of(&job)).expect("options have only string keys"))
    });
}

#[test]
fn traces() {
    fuzz("trace", |text| trace::check(text).ok().map(|()| text.to_owned()));
}

/// The next runs of an accepted schedule are found, too, and none is in the past.
#[test]
fn cron_expressions() {
    fuzz("cron", |text| {
        let (expression, zone) = text.split_once('|').map_or((text, None), |(text, zone)| (text, Some(zone)));
        let schedule = Schedule::new(Timing::parse(expression, zone).ok()?, NewJob::new(*b"{}"));
        schedule.check("fuzzed", NOW, 100).ok()?;
        let ticks = schedule.ticks(NOW).expect("it was checked");
        let mut last = NOW;
        for _ in 0..3 {
            let Some(next) = ticks.next(last) else { break };
            assert!(next > last, "{text}: {next} follows {last}");
            last = next;
        }
        Some(text.to_owned())
    });
}
