//! Workers.

use crate::dashboard::api::Problem;
use crate::dashboard::html::{empty, instant, job, next_page, number, queue, shown};
use crate::dashboard::text::Text;
use crate::dashboard::visit::{Visit, with_query};
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
    let heads = [Text::Worker, Text::Queues, Text::Waits, Text::Holds, Text::Jobs, Text::FirstSeen, Text::LastSeen];
    let content = html! {
        @if workers.is_empty() { (empty(visit, Text::NoWorkers)) } @else {
            div.scroll tabindex="0" {
                table {
                    thead { tr { @for head in heads { th scope="col" { (visit.say(head)) } } } }
                    tbody {
                        @for worker in &workers {
                            tr {
                                th scope="row" { (shown(&worker.worker)) }
                                td { @for name in &worker.queues { (queue(name)) " " } }
                                td { (number(worker.waiting.into())) }
                                td { (number(worker.held as u64)) }
                                td { @for lease in &worker.leases { (job(lease.id)) " " } }
                                td { (instant(visit, worker.first_seen.0)) }
                                td { (instant(visit, worker.last_seen.0)) }
                            }
                        }
                    }
                }
            }
        }
        (next_page(visit, next_cursor.as_deref()))
        p.empty { (visit.say(Text::OfThisServer)) " " (instant(visit, since.0)) }
    };
    Ok((visit.say(Text::Workers).to_owned(), content))
}
