//! All queues.

use super::queue::{push, push_form};
use crate::access::Scope;
use crate::dashboard::api::Problem;
use crate::dashboard::fields::invalid;
use crate::dashboard::figures::number;
use crate::dashboard::form::Form;
use crate::dashboard::html;
use crate::dashboard::html::{empty, near, next_page, queue};
use crate::dashboard::paths::with_query;
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use axum::response::Response;
use duetime_core::Millis;
use duetime_core::api::{self, AttentionKind, Queues, path_segment};
use duetime_core::engine::QueueStatus;
use duetime_core::model::name;
use maud::{Markup, html};

/// Queues that one page reads and sorts.
const QUEUES_MAX: usize = 1_000;
/// Those of them that are shown, unless all are asked for.
const QUEUES_SHOWN: usize = 100;

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let rendered = render(&visit).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit) -> Result<(String, Markup), Problem> {
    // The order is that of all queues, not of a page by name.
    let limit = QUEUES_MAX.to_string();
    let asked = visit.asked_all(&["cursor"]).chain([("limit", &*limit)]);
    let answer = visit.get(with_query("/v1/queues", asked)).await?;
    let Queues { mut queues, next_cursor } = answer.read();
    by_wait(&mut queues);
    let all = queues.len();
    if visit.asked("all").is_none() {
        queues.truncate(QUEUES_SHOWN);
    }
    let content = html! {
        @if visit.api.caller.has(Scope::Push) { (push_form(visit)) }
        @if queues.is_empty() { (empty(visit, Text::NoQueues)) } @else { (table(visit, &queues)) }
        @if queues.len() < all {
            @let pairs = visit.asked_all(&["cursor"]).chain([("all", "yes")]);
            p.next { a href=(with_query("/queues", pairs)) { (visit.language.fill(Text::ShowAllQueues, &[&number(all as u64)])) } }
        } @else { (next_page(visit, next_cursor.as_deref())) }
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

/// The queues with their counts, and with what this server did for them lately.
pub(super) fn table(visit: &Visit, queues: &[QueueStatus]) -> Markup {
    let heads = [
        Text::Queue,
        Text::Scheduled,
        Text::Ready,
        Text::OldestReady,
        Text::Running,
        Text::Failed,
        Text::Workers,
        Text::StartsAMinute,
        Text::LatenessP99,
    ];
    let rows = html! {
        @for status in queues {
            @let (counts, lately) = (&status.counts, &status.lately);
            @let of = |state: &str| format!("/jobs?queue={}&state={state}", path_segment(&status.queue));
            @let linked = |text: Text, state: &str, count: u64| count_cell(visit, text, count, &html! { a href=(of(state)) { (number(count)) } });
            tr {
                th scope="row" { (queue(&status.queue)) (marks(visit, status)) }
                (linked(Text::Scheduled, "scheduled", counts.scheduled))
                (linked(Text::Ready, "ready", counts.ready))
                // A card shows it behind the number of ready jobs.
                td.number.nil[counts.oldest_due.is_none()] { @if let Some(due) = counts.oldest_due { (near(visit, due.0)) } @else { "–" } }
                td.number.extra { a href=(of("running")) { (number(counts.running)) } }
                (linked(Text::Failed, "failed", status.tally.failed))
                // Jobs that wait for nobody are the reason to look here.
                @let lacks = lacks_worker(visit, &status.queue);
                (count_cell(visit, Text::Workers, u64::from(lacks), &html! {
                    @if lacks { strong.bad { (number(lately.workers)) } } @else { (number(lately.workers)) }
                }))
                td.number.extra { (number(lately.started)) }
                td.number.extra { @if let Some(late) = lately.lateness_p99 { (visit.language.span(late.0)) } @else { "–" } }
            }
        }
    };
    html::table(visit, &heads, &rows)
}

/// A cell of a number, which a narrow screen leaves out if `count` is 0.
fn count_cell(visit: &Visit, label: Text, count: u64, shown: &Markup) -> Markup {
    html! { td.number.nil[count == 0] data-label=(visit.say(label)) { (shown) } }
}

/// Whether the list of what needs attention says that no worker asks for the jobs of this queue.
fn lacks_worker(visit: &Visit, queue: &str) -> bool {
    let items = visit.attention.iter().flat_map(|attention| &attention.items);
    items.into_iter().any(|item| item.kind == AttentionKind::NoWorker && item.queue.as_deref() == Some(queue))
}

/// The marks of a queue, such as paused.
pub(super) fn marks(visit: &Visit, QueueStatus { counts, settings, lately, .. }: &QueueStatus) -> Markup {
    let full = settings.max_running.filter(|&max| counts.running >= u64::from(max));
    html! {
        @if settings.paused { " " span.badge.warn { (visit.say(Text::Paused)) } }
        @if let Some(max) = full {
            " " span.badge.warn { (visit.language.fill(Text::Limited, &[&number(counts.running), &number(max.into())])) }
        }
        @if settings.max_waiting.is_some_and(|max| counts.scheduled + counts.ready >= u64::from(max)) {
            " " span.badge.warn { (visit.say(Text::Full)) }
        }
        @if lately.target_down_since.is_some() { " " span.badge.bad { (visit.say(Text::TargetDown)) } }
        @else if settings.target.is_some() { " " span.badge { (visit.say(Text::Target)) } }
    }
}
