//! The runs of a schedule, as pages show them.

use crate::dashboard::html::instant;
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::shown;
use crate::dashboard::visit::Visit;
use duetime_core::schedule::{ClockChange, Run};
use maud::{Markup, html};

/// The next runs, each also as its zone shows it.
pub(super) fn next_runs(visit: &Visit, runs: &[Run]) -> Markup {
    html! {
        @if runs.is_empty() { p.empty { (visit.say(Text::NoNextRun)) } } @else {
            ol.plan {
                @for run in runs {
                    li {
                        (instant(visit, run.at.0)) br; small { (shown(&local(&run.local))) }
                        @if let Some(change) = run.clock_change {
                            " " span.badge.warn { (visit.say(if change == ClockChange::Gap { Text::ClockGap } else { Text::ClockFold })) }
                        }
                    }
                }
            }
        }
    }
}

/// A local time (RFC 9557) to be read by people, such as `2026-11-25 03:00:00 +01:00 Europe/Berlin`.
pub(super) fn local(exact: &str) -> String {
    let (time, zone) = exact.trim_end_matches(']').split_once('[').unwrap_or((exact, ""));
    let offset = time.rfind(['+', '-']).map_or("", |at| &time[at..]);
    match (time.get(..10), time.get(11..19)) {
        (Some(day), Some(time)) => format!("{day} {time} {offset} {zone}"),
        _ => exact.to_owned(),
    }
}
