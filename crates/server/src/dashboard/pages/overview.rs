//! The overview.

use super::due;
use super::history;
use super::queues::table;
use crate::dashboard::api::Problem;
use crate::dashboard::html::{empty, number, shown};
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use axum::response::Response;
use duetime_core::api::Queues;
use duetime_core::engine::{Health, QueueStatus};
use maud::{Markup, html};

/// Queues whose counts are summed up.
const QUEUES_MAX: usize = 1_000;
/// Queues that are shown one by one.
const QUEUES_SHOWN: usize = 10;

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let rendered = render(&visit).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit) -> Result<(String, Markup), Problem> {
    let health: Health = visit.get("/readyz").await?.read();
    let answer = visit.get(format!("/v1/queues?limit={QUEUES_MAX}")).await?;
    let Queues { mut queues, next_cursor } = answer.read();
    let sums = Sums::of(&queues);
    // Those with the most to do.
    queues.sort_by_key(|status| std::cmp::Reverse(status.counts.ready + status.counts.running + status.tally.failed));
    let is_empty = queues.is_empty();
    queues.truncate(QUEUES_SHOWN);
    let content = html! {
        (state(visit, &health))
        ul.cards {
            @for (text, count, state) in [
                (Text::Scheduled, sums.scheduled, "scheduled"),
                (Text::Ready, sums.ready, "ready"),
                (Text::Running, sums.running, "running"),
                (Text::Failed, sums.failed, "failed"),
            ] {
                li class=(state) { a href={ "/jobs?state=" (state) } { strong { (number(count)) } span { (visit.say(text)) } } }
            }
        }
        @if next_cursor.is_some() { p.empty { (visit.language.fill(Text::PageOfQueues, &[&number(QUEUES_MAX as u64)])) } }
        @if is_empty { (empty(visit, Text::NothingYet)) pre { "duetime push orders '{\"order\": 17}' --delay 30s" } } @else {
            h2 { (visit.say(Text::BusiestQueues)) }
            (table(visit, &queues))
            (sums.totals(visit))
            (due::charts(visit, None).await?)
            (history::charts(visit, None).await?)
        }
    };
    Ok((visit.say(Text::Overview).to_owned(), content))
}

/// Notices of what does not work.
fn state(visit: &Visit, health: &Health) -> Markup {
    html! {
        @if !health.ready { p.notice.bad role="alert" { (visit.say(Text::NotReady)) } }
        @if !health.is_loaded { p.notice.warn { (visit.language.fill(Text::StillLoading, &[&number(health.loaded)])) } }
        @for degraded in &health.degraded {
            p.notice.warn role="alert" { strong { (visit.say(Text::Degraded)) } " " (shown(degraded)) }
        }
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

    /// A sum that adds up: pushed, and started anew by hand, is what lives, has ended, or was deleted before.
    fn totals(&self, visit: &Visit) -> Markup {
        let [succeeded, failed, cancelled] = self.ended;
        let live = self.scheduled + self.ready + self.running;
        let rest = i128::from(self.pushed) - i128::from(live + succeeded + failed + cancelled);
        let rest_text = if rest < 0 { Text::RetriedByHand } else { Text::DeletedLive };
        let rest = u64::try_from(rest.unsigned_abs()).unwrap_or(u64::MAX);
        html! {
            h2 { (visit.say(Text::Totals)) }
            dl.totals {
                div { dt { (visit.say(Text::Pushed)) } dd { (number(self.pushed)) } }
                div { dt { "= " (visit.say(Text::Live)) } dd { (number(live)) } }
                div { dt { "+ " (visit.say(Text::Succeeded)) } dd { (number(succeeded)) } }
                div { dt { "+ " (visit.say(Text::Failed)) } dd { (number(failed)) } }
                div { dt { "+ " (visit.say(Text::Cancelled)) } dd { (number(cancelled)) } }
                @if rest > 0 {
                    div { dt { (if rest_text == Text::RetriedByHand { "− " } else { "+ " }) (visit.say(rest_text)) } dd { (number(rest)) } }
                }
            }
        }
    }
}
