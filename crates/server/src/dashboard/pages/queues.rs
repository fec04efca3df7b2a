//! All queues.

use crate::dashboard::api::Problem;
use crate::dashboard::html::{distance, empty, next_page, number, queue};
use crate::dashboard::text::Text;
use crate::dashboard::visit::{Visit, with_query};
use axum::response::Response;
use duetime_core::api::{Queues, path_segment};
use duetime_core::engine::QueueStatus;
use maud::{Markup, html};

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let rendered = render(&visit).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit) -> Result<(String, Markup), Problem> {
    let answer = visit.get(with_query("/v1/queues", visit.asked_all(&["cursor", "limit"]))).await?;
    let Queues { queues, next_cursor } = answer.read();
    let content = html! {
        @if queues.is_empty() { (empty(visit, Text::NoQueues)) } @else { (table(visit, &queues)) }
        (next_page(visit, next_cursor.as_deref()))
    };
    Ok((visit.say(Text::Queues).to_owned(), content))
}

/// The queues with their counts.
pub(super) fn table(visit: &Visit, queues: &[QueueStatus]) -> Markup {
    let heads = [Text::Scheduled, Text::Ready, Text::Running, Text::Failed];
    html! {
        div.scroll tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { (visit.say(Text::Queue)) }
                        @for head in heads { th.number scope="col" { (visit.say(head)) } }
                        th scope="col" { (visit.say(Text::OldestReady)) }
                        th.number scope="col" { (visit.say(Text::Pushed)) }
                        th.number scope="col" { (visit.say(Text::Succeeded)) }
                    }
                }
                tbody {
                    @for status in queues {
                        @let (counts, tally) = (&status.counts, &status.tally);
                        @let of = |state: &str| format!("/jobs?queue={}&state={state}", path_segment(&status.queue));
                        tr {
                            th scope="row" {
                                (queue(&status.queue))
                                @if status.settings.paused { " " span.badge.warn { (visit.say(Text::Paused)) } }
                                @if status.settings.target.is_some() { " " span.badge { (visit.say(Text::Target)) } }
                            }
                            td.number { a href=(of("scheduled")) { (number(counts.scheduled)) } }
                            td.number { a href=(of("ready")) { (number(counts.ready)) } }
                            td.number { a href=(of("running")) { (number(counts.running)) } }
                            td.number { a href=(of("failed")) class=[(tally.failed > 0).then_some("bad")] { (number(tally.failed)) } }
                            td { @if let Some(due) = counts.oldest_due { (distance(visit, due)) } @else { "–" } }
                            td.number { (number(tally.totals.pushed)) }
                            td.number { (number(tally.totals.succeeded)) }
                        }
                    }
                }
            }
        }
    }
}
