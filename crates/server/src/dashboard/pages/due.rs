//! Charts of jobs by due time.

use crate::dashboard::api::Problem;
use crate::dashboard::chart::{Bar, bars};
use crate::dashboard::html::{instant, number};
use crate::dashboard::paths::with_query;
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use duetime_core::State;
use duetime_core::api::{DueBucket, DueCounts};
use duetime_core::limits::{DAY_MS, HOUR_MS, MINUTE_MS};
use maud::{Markup, html};

/// Charts of a queue, or of all together.
pub(super) async fn charts(visit: &Visit, queue: Option<&str>) -> Result<Markup, Problem> {
    let pairs = queue.map(|queue| ("queue", queue));
    let Some(answer) = visit.get_allowed(with_query("/v1/due", pairs.into_iter())).await? else { return Ok(html! {}) };
    let counted: DueCounts = answer.read();
    let heading = html! { h2 { (visit.say(Text::ComesDue)) } };
    let (Some(buckets), Some(as_of)) = (&counted.buckets, counted.as_of) else {
        let text = if counted.as_of.is_some() { Text::NotCountedApart } else { Text::BeingCounted };
        return Ok(html! { (heading) p.empty { (visit.say(text)) } });
    };
    let href = |bucket: &DueBucket| {
        let from = bucket.from.map(|from| ("due_from", from.to_string()));
        let to = bucket.to.map(|to| ("due_to", to.to_string()));
        let queue = queue.map(|queue| ("queue", queue.to_owned()));
        // Jobs that are due later are still scheduled.
        let waits = bucket.from.map(|_| ("state", State::Scheduled.word().to_owned()));
        let pairs: Vec<(&str, String)> = queue.into_iter().chain(waits).chain(from).chain(to).collect();
        with_query("/jobs", pairs.iter().map(|(name, value)| (*name, &**value)))
    };
    let chart = |title: Text, unit_ms: u64, every: usize| {
        let of_unit = |bucket: &&DueBucket| match (bucket.from, bucket.to) {
            (Some(from), Some(to)) => to.0 + 1 - from.0 == unit_ms,
            _ => false,
        };
        let bar = |bucket: &DueBucket| Bar {
            at: bucket.from.map_or(as_of.0, |from| from.0),
            is_day: unit_ms == DAY_MS,
            value: bucket.jobs,
            said: None,
            href: Some(href(bucket)),
        };
        let drawn: Vec<Bar> = buckets.iter().filter(of_unit).map(bar).collect();
        bars(visit, title, [Text::Time, Text::Jobs], &drawn, every)
    };
    let ends = [(Text::AlreadyDue, buckets.first()), (Text::Later, buckets.last())];
    Ok(html! {
        (heading)
        div.charts.three {
            (chart(Text::NextHour, MINUTE_MS, 10))
            (chart(Text::NextDay, HOUR_MS, 4))
            (chart(Text::NextMonth, DAY_MS, 5))
        }
        p.empty {
            @for (text, bucket) in ends {
                @if let Some(bucket) = bucket { (visit.say(text)) ": " a href=(href(bucket)) { (number(bucket.jobs)) } " · " }
            }
            (visit.say(Text::CountedAt)) " " (instant(visit, as_of.0))
        }
    })
}
