//! Charts of throughput and lateness.

use crate::dashboard::api::Problem;
use crate::dashboard::chart::{Bar, bars};
use crate::dashboard::html::{exact, instant};
use crate::dashboard::text::Text;
use crate::dashboard::visit::{Visit, with_query};
use duetime_core::api::{History, HistoryPoint, HistorySpan};
use maud::{Markup, html};

/// Charts of a queue, or of all together.
pub(super) async fn charts(visit: &Visit, queue: Option<&str>) -> Result<Markup, Problem> {
    let asked = visit.asked("span").and_then(|span| span.parse().ok()).unwrap_or(HistorySpan::Hour);
    let pairs = queue.map(|queue| ("queue", queue)).into_iter().chain([("span", asked.word())]);
    let answer = match visit.get(with_query("/v1/history", pairs)).await {
        Ok(answer) => answer,
        // Whoever may read some queues only sees the history of each.
        Err(problem) if problem.code == "forbidden" => return Ok(html! {}),
        Err(problem) => return Err(problem),
    };
    let history: History = answer.read();
    let here = visit.here.split('?').next().unwrap_or("/");
    let heading = html! {
        h2 {
            (visit.say(Text::OfLate))
            span.choice {
                @for (span, text) in [(HistorySpan::Hour, Text::LastHour), (HistorySpan::Day, Text::LastDay)] {
                    " " a href={ (here) "?span=" (span.word()) } aria-current=[(span == asked).then_some("true")] { (visit.say(text)) }
                }
            }
        }
    };
    let Some(points) = &history.points else {
        return Ok(html! { (heading) p.empty { (visit.say(Text::NotCountedApart)) } });
    };
    let of = |value: fn(&HistoryPoint) -> (u64, Option<String>)| {
        let bar = |point: &HistoryPoint| {
            let (value, said) = value(point);
            Bar { at: point.at.0, is_day: false, value, said, href: None }
        };
        points.iter().map(bar).collect::<Vec<_>>()
    };
    let done = of(|point| (point.succeeded, None));
    let late = of(|point| point.lateness.map_or((0, None), |late| (late.p99.0, Some(exact(late.p99.0)))));
    let places = usize::try_from(asked.steps()).expect("a few");
    let every = places / 6;
    Ok(html! {
        (heading)
        div.charts {
            (bars(visit, Text::CompletedPerStep, [Text::Time, Text::Succeeded], &done, places, every))
            (bars(visit, Text::LatenessPerStep, [Text::Time, Text::Lateness], &late, places, every))
        }
        p.empty { (visit.say(Text::OfThisServer)) " " (instant(visit, history.since.0)) }
    })
}
