//! Charts of throughput and lateness.

use crate::dashboard::api::Problem;
use crate::dashboard::chart::{Bar, HALF, bars};
use crate::dashboard::html::{chosen, instant};
use crate::dashboard::paths::with_query;
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use duetime_core::api::{History, HistoryPoint, HistorySpan};
use maud::{Markup, html};

/// Charts of a queue, or of all together. The value of now is at least the wait of the oldest ready job.
pub(super) async fn charts(visit: &Visit, queue: Option<&str>, wait_ms: u64) -> Result<Markup, Problem> {
    let asked = visit.asked("span").and_then(|span| span.parse().ok()).unwrap_or(HistorySpan::Hour);
    let pairs = queue.map(|queue| ("queue", queue)).into_iter().chain([("span", asked.word())]);
    let Some(answer) = visit.get_allowed(with_query("/v1/history", pairs)).await? else { return Ok(html! {}) };
    let history: History = answer.read();
    let heading = html! {
        h2 #late {
            (visit.say(Text::OfLate))
            span.choice {
                @for (span, text) in [(HistorySpan::Hour, Text::LastHour), (HistorySpan::Day, Text::LastDay)] {
                    " " (chosen(visit, ("span", span.word()), "late", span == asked, visit.say(text)))
                }
            }
        }
    };
    let Some(points) = &history.points else {
        return Ok(html! { (heading) p.empty { (visit.say(Text::NotCountedApart)) } });
    };
    // Also the steps before the server began, so that the axis is whole.
    let begin = points.first().map_or(history.since.0, |point| point.at.0);
    let of = |value: &dyn Fn(&HistoryPoint) -> (u64, Option<String>)| {
        let bar = |at, (value, said)| Bar { at, is_day: false, value, said, href: None };
        let missing = asked.steps().saturating_sub(points.len() as u64);
        let before = (1..=missing).rev().map(|steps| begin.saturating_sub(steps * asked.step_ms()));
        let before = before.map(|at| bar(at, (0, Some("–".to_owned()))));
        before.chain(points.iter().map(|point| bar(point.at.0, value(point)))).collect::<Vec<_>>()
    };
    let said = |ms| visit.language.span(ms);
    let done = of(&|point| (point.succeeded, None));
    let mut late = of(&|point| point.lateness.map_or((0, None), |late| (late.p99.0, Some(said(late.p99.0)))));
    if let Some(now) = late.last_mut().filter(|now| now.value < wait_ms) {
        (now.value, now.said) = (wait_ms, Some(said(wait_ms)));
    }
    let every = done.len() / 6;
    Ok(html! {
        (heading)
        div.charts {
            (bars(visit, HALF, Text::CompletedPerStep, [Text::Time, Text::Succeeded], &done, every))
            (bars(visit, HALF, Text::LatenessPerStep, [Text::Time, Text::Lateness], &late, every))
        }
        p.empty { (visit.say(Text::OfThisServer)) " " (instant(visit, history.since.0)) }
    })
}
