//! The chart of jobs by due time.

use crate::dashboard::api::Problem;
use crate::dashboard::chart::{Bar, WHOLE, bars};
use crate::dashboard::figures::number;
use crate::dashboard::html::{chosen, instant};
use crate::dashboard::paths::with_query;
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use duetime_core::State;
use duetime_core::api::{DueBucket, DueCounts};
use duetime_core::limits::{DAY_MS, HOUR_MS, MINUTE_MS};
use maud::{Markup, html};

/// A span of time ahead, with the length of its bars and how many of them have one label.
const SPANS: [(&str, Text, u64, usize); 3] =
    [("hour", Text::NextHour, MINUTE_MS, 5), ("day", Text::NextDay, HOUR_MS, 2), ("month", Text::NextMonth, DAY_MS, 3)];

/// The chart of a queue, or of all together, for the span that the reader chose.
pub(super) async fn chart(visit: &Visit, queue: Option<&str>) -> Result<Markup, Problem> {
    let pairs = queue.map(|queue| ("queue", queue));
    let Some(answer) = visit.get_allowed(with_query("/v1/due", pairs.into_iter())).await? else { return Ok(html! {}) };
    let counted: DueCounts = answer.read();
    let heading = |choice: Markup| html! { h2 #due { (visit.say(Text::ComesDue)) (choice) } };
    let (Some(buckets), Some(as_of)) = (&counted.buckets, counted.as_of) else {
        let text = if counted.as_of.is_some() { Text::NotCountedApart } else { Text::BeingCounted };
        return Ok(html! { (heading(html! {})) p.empty { (visit.say(text)) } });
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
    let of = |unit_ms: u64| {
        let is_of_unit = move |bucket: &&DueBucket| match (bucket.from, bucket.to) {
            (Some(from), Some(to)) => to.0 + 1 - from.0 == unit_ms,
            _ => false,
        };
        buckets.iter().filter(is_of_unit)
    };
    let asked = visit.asked("due").unwrap_or("hour");
    let &(shown, title, unit_ms, every) = SPANS.iter().find(|(word, ..)| *word == asked).unwrap_or(&SPANS[0]);
    let bar = |bucket: &DueBucket| Bar {
        at: bucket.from.map_or(as_of.0, |from| from.0),
        is_day: unit_ms == DAY_MS,
        value: bucket.jobs,
        said: None,
        href: Some(href(bucket)),
    };
    let drawn: Vec<Bar> = of(unit_ms).map(bar).collect();
    let choice = html! {
        span.choice {
            @for (word, text, unit_ms, _) in SPANS {
                @let jobs: u64 = of(unit_ms).map(|bucket| bucket.jobs).sum();
                " " (chosen(visit, ("due", word), "due", word == shown, &format!("{} ({})", visit.say(text), number(jobs))))
            }
        }
    };
    let ends = [(Text::AlreadyDue, buckets.first()), (Text::Later, buckets.last())];
    Ok(html! {
        (heading(choice))
        (bars(visit, WHOLE, title, [Text::Time, Text::Jobs], &drawn, every))
        p.empty {
            @for (text, bucket) in ends {
                @if let Some(bucket) = bucket { (visit.say(text)) (visit.say(Text::Colon)) a href=(href(bucket)) { (number(bucket.jobs)) } " · " }
            }
            (visit.say(Text::CountedAt)) " " (instant(visit, as_of.0))
        }
    })
}
