//! The overview.

use super::attention;
use super::due;
use super::history;
use super::queue::push_form;
use super::queues::{by_wait, table};
use crate::access::Scope;
use crate::dashboard::api::Problem;
use crate::dashboard::figures::number;
use crate::dashboard::html::empty;
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use axum::response::Response;
use duetime_core::api::Queues;
use duetime_core::engine::{Health, QueueStatus};
use maud::{Markup, html};

/// The number of queues whose counts are added up.
const QUEUES_MAX: usize = 1_000;
/// Queues that are shown one by one.
const QUEUES_SHOWN: usize = 10;

pub(in crate::dashboard) async fn page(mut visit: Visit) -> Response {
    let health: Health = match visit.get("/readyz").await {
        Ok(answer) => answer.read(),
        Err(problem) => return visit.answer(Err(problem)),
    };
    let attention = visit.attention.clone().unwrap_or_default();
    let rendered = render(&visit).await;
    // Without its store the server still reports its degraded parts.
    let content = html! { (attention::list(&visit, &attention)) (state(&visit, &health)) @if let Ok(rendered) = &rendered { (rendered) } };
    visit.problem = rendered.err();
    let title = visit.say(Text::Overview).to_owned();
    visit.answer(Ok((title, content)))
}

async fn render(visit: &Visit) -> Result<Markup, Problem> {
    let answer = visit.get(format!("/v1/queues?limit={QUEUES_MAX}")).await?;
    let Queues { mut queues, next_cursor } = answer.read();
    let sums = Sums::of(&queues);
    // The queues with the most jobs.
    queues.sort_by_key(|status| std::cmp::Reverse(status.counts.ready + status.counts.running + status.tally.failed));
    let is_empty = queues.is_empty();
    let wait_ms = visit.attention.as_ref().map_or(0, |attention| attention.longest_wait.0);
    queues.truncate(QUEUES_SHOWN);
    by_wait(&mut queues);
    Ok(html! {
        ul.cards {
            @for (text, count, state) in [
                (Text::Scheduled, sums.scheduled, "scheduled"),
                (Text::Ready, sums.ready, "ready"),
                (Text::Running, sums.running, "running"),
                (Text::Failed, sums.failed, "failed"),
            ] {
                li class=[(count > 0).then_some(state)] { a href={ "/jobs?state=" (state) } { strong { (number(count)) } span { (visit.say(text)) } } }
            }
        }
        @if next_cursor.is_some() { p.empty { (visit.language.fill(Text::PageOfQueues, &[&number(QUEUES_MAX as u64)])) } }
        @if is_empty { (empty(visit, Text::NothingYet)) pre { (visit.command(&["push", "--queue", "orders", "{\"order\": 17}", "--delay", "30s"])) }
            @if visit.api.caller.has(Scope::Push) { (push_form(visit)) }
        } @else {
            h2 { (visit.say(Text::BusiestQueues)) }
            (table(visit, &queues))
            (history::charts(visit, None, wait_ms).await?)
            (due::chart(visit, None).await?)
            (sums.totals(visit))
        }
    })
}

/// Notices of what is still under way.
fn state(visit: &Visit, health: &Health) -> Markup {
    html! {
        @if !health.is_loaded { p.notice.warn { (visit.language.fill(Text::StillLoading, &[&number(health.loaded)])) } }
        @if health.backlog > 0 { p.notice.warn { (visit.language.fill(Text::Unrecorded, &[&number(health.backlog as u64)])) } }
    }
}

/// The counts of all queues together.
#[derive(Default)]
struct Sums {
    scheduled: u64,
    ready: u64,
    running: u64,
    failed: u64,
    pushed: u64,
    ended: [u64; 3],
}

impl Sums {
    fn of(queues: &[QueueStatus]) -> Self {
        queues.iter().fold(Self::default(), |sums, status| {
            let (counts, tally) = (&status.counts, &status.tally);
            let [succeeded, failed, cancelled] = sums.ended;
            Self {
                scheduled: sums.scheduled + counts.scheduled,
                ready: sums.ready + counts.ready,
                running: sums.running + counts.running,
                failed: sums.failed + tally.failed,
                pushed: sums.pushed + tally.totals.pushed,
                ended: [
                    succeeded + tally.totals.succeeded,
                    failed + tally.totals.failed,
                    cancelled + tally.totals.cancelled,
                ],
            }
        })
    }

    /// A sum that adds up: jobs pushed or restarted by hand are live, have ended, or were deleted earlier.
    fn totals(&self, visit: &Visit) -> Markup {
        let [succeeded, failed, cancelled] = self.ended;
        let live = self.scheduled + self.ready + self.running;
        let rest = i128::from(self.pushed) - i128::from(live + succeeded + failed + cancelled);
        let rest_text = if rest < 0 { Text::RetriedByHand } else { Text::DeletedLive };
        let rest = u64::try_from(rest.unsigned_abs()).unwrap_or(u64::MAX);
        let part = |sign: &'static str, text: Text, count: u64| html! { " " (sign) " " (visit.say(text)) " " strong { (number(count)) } };
        html! {
            h2 { (visit.say(Text::Totals)) }
            p.totals {
                (part("", Text::Pushed, self.pushed))
                (part("=", Text::Unfinished, live))
                (part("+", Text::Succeeded, succeeded))
                (part("+", Text::Failed, failed))
                (part("+", Text::Cancelled, cancelled))
                @if rest > 0 { (part(if rest_text == Text::RetriedByHand { "−" } else { "+" }, rest_text, rest)) }
            }
        }
    }
}
