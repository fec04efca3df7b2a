//! All queues.

use super::queue::{push, push_form};
use crate::access::Scope;
use crate::dashboard::api::Problem;
use crate::dashboard::fields::invalid;
use crate::dashboard::form::Form;
use crate::dashboard::html;
use crate::dashboard::html::{empty, near, next_page, number, queue};
use crate::dashboard::paths::with_query;
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use axum::response::Response;
use duetime_core::Millis;
use duetime_core::api::{self, AttentionKind, Queues, path_segment};
use duetime_core::engine::QueueStatus;
use duetime_core::model::name;
use maud::{Markup, html};

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let rendered = render(&visit).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit) -> Result<(String, Markup), Problem> {
    let answer = visit.get(with_query("/v1/queues", visit.asked_all(&["cursor", "limit"]))).await?;
    let Queues { mut queues, next_cursor } = answer.read();
    by_wait(&mut queues);
    let content = html! {
        @if visit.api.caller.has(Scope::Push) { (push_form(visit)) }
        @if queues.is_empty() { (empty(visit, Text::NoQueues)) } @else { (table(visit, &queues)) }
        (next_page(visit, next_cursor.as_deref()))
    };
    Ok((visit.say(Text::Queues).to_owned(), content))
}

pub(in crate::dashboard) async fn act(visit: Visit, form: Form) -> Response {
    let queue = form.get("queue").unwrap_or_default();
    let made = match (form.get("do"), name::check_queue(queue)) {
        (Some("push"), Ok(())) => push(&visit, queue, &form).await,
        (Some("push"), Err(invalid)) => Err(api::Problem::of(&invalid.into(), 400, "The request is not valid").into()),
        (other, _) => Err(invalid("do", &format!("an action of this page, got {other:?}"))),
    };
    visit.answer_action(made, form, page).await
}

/// The queue whose job has waited longest comes first; the others by name.
pub(super) fn by_wait(queues: &mut [QueueStatus]) {
    queues.sort_by_key(|status| status.counts.oldest_due.map_or(Millis::MAX, |at| at.0));
}

/// The queues with their counts.
pub(super) fn table(visit: &Visit, queues: &[QueueStatus]) -> Markup {
    let items = || visit.attention.iter().flat_map(|attention| &attention.items);
    let is_down = |queue: &str| {
        items().any(|item| item.kind == AttentionKind::TargetDown && item.queue.as_deref() == Some(queue))
    };
    let heads = [
        Text::Queue,
        Text::Scheduled,
        Text::Ready,
        Text::Running,
        Text::Failed,
        Text::Succeeded,
        Text::Pushed,
        Text::OldestReady,
    ];
    let rows = html! {
        @for status in queues {
            @let (counts, tally) = (&status.counts, &status.tally);
            @let of = |state: &str| format!("/jobs?queue={}&state={state}", path_segment(&status.queue));
            tr {
                th scope="row" {
                    (queue(&status.queue))
                    @if status.settings.paused { " " span.badge.warn { (visit.say(Text::Paused)) } }
                    @if let Some(max) = status.settings.max_running.filter(|&max| counts.running >= u64::from(max)) {
                        " " span.badge.warn { (visit.language.fill(Text::Limited, &[&number(counts.running), &number(max.into())])) }
                    }
                    @if is_down(&status.queue) { " " span.badge.bad { (visit.say(Text::TargetDown)) } }
                    @else if status.settings.target.is_some() { " " span.badge { (visit.say(Text::Target)) } }
                }
                td.number { a href=(of("scheduled")) { (number(counts.scheduled)) } }
                td.number { a href=(of("ready")) { (number(counts.ready)) } }
                td.number { a href=(of("running")) { (number(counts.running)) } }
                td.number { a href=(of("failed")) { (number(tally.failed)) } }
                td.number { (number(tally.totals.succeeded)) }
                td.number { (number(tally.totals.pushed)) }
                td.number { @if let Some(due) = counts.oldest_due { (near(visit, due.0)) } @else { "–" } }
            }
        }
    };
    html::table(visit, &heads, &rows)
}
