//! Workers.

use crate::dashboard::api::Problem;
use crate::dashboard::figures::number;
use crate::dashboard::html::{empty, instant, job, near, next_page, queue, table};
use crate::dashboard::paths::with_query;
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::shown;
use crate::dashboard::visit::Visit;
use axum::response::Response;
use duetime_core::api::Workers;
use maud::{Markup, html};

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let rendered = render(&visit).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit) -> Result<(String, Markup), Problem> {
    let answer = visit.get(with_query("/v1/workers", visit.asked_all(&["cursor"]))).await?;
    let Workers { workers, since, next_cursor } = answer.read();
    let heads = [Text::Worker, Text::Queues, Text::Waits, Text::Holds, Text::JobsHeld, Text::FirstSeen, Text::LastSeen];
    let rows = html! {
        @for worker in &workers {
            tr {
                th scope="row" { (shown(&worker.worker)) }
                td { ul.list { @for name in &worker.queues { li { (queue(name)) } } } }
                td.number.extra { (number(worker.waiting.into())) }
                td.number data-label=(visit.say(Text::Holds)) { (number(worker.held as u64)) }
                td.extra { ul.list { @for lease in &worker.leases { li { (job(lease.id)) } } } }
                td.extra { (near(visit, worker.first_seen.0)) }
                td data-label=(visit.say(Text::LastSeen)) { (near(visit, worker.last_seen.0)) }
            }
        }
    };
    let content = html! {
        @if workers.is_empty() { (empty(visit, Text::NoWorkers)) } @else { (table(visit, &heads, &rows)) }
        (next_page(visit, next_cursor.as_deref()))
        p.empty { (visit.say(Text::OfThisServer)) " " (instant(visit, since.0)) }
    };
    Ok((visit.say(Text::Workers).to_owned(), content))
}
