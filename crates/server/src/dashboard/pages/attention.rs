//! The problems that the API lists. A problem that one click can solve has a button.

use super::job::RETRY_FAILED;
use crate::access::Scope;
use crate::dashboard::attention::{Part, parts};
use crate::dashboard::figures::{instant_text, number};
use crate::dashboard::html::{form_token, job, queue};
use crate::dashboard::paths::{FAILED, page_path, with_query};
use crate::dashboard::session;
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::shown;
use crate::dashboard::visit::Visit;
use duetime_core::api::{Attention, AttentionItem, AttentionKind};
use duetime_core::limits::SECOND_MS;
use maud::{Markup, html};

/// The list, or that all is well.
pub(super) fn list(visit: &Visit, attention: &Attention) -> Markup {
    if attention.items.is_empty() {
        let waited_ms = attention.longest_wait.0.div_ceil(SECOND_MS).max(1) * SECOND_MS;
        return html! {
            p.notice.good { (visit.language.fill(Text::NothingWaits, &[&visit.language.span(waited_ms)])) }
        };
    }
    html! {
        section.attention aria-labelledby="attention" {
            h2 #attention { (visit.say(Text::NeedsAttention)) }
            ul {
                @for item in &attention.items {
                    li.warn[item.kind == AttentionKind::Paused].bad[item.kind != AttentionKind::Paused] {
                        p { (sentence(visit, item)) }
                        (remedy(visit, item))
                    }
                }
            }
            @if attention.omitted > 0 { p.empty { (visit.language.fill(Text::NotAllListed, &[&number(attention.omitted)])) } }
        }
    }
}

fn sentence(visit: &Visit, item: &AttentionItem) -> Markup {
    html! {
        @match (&item.schedule, &item.queue) {
            (Some(schedule), _) => { a href=(page_path("/schedules", schedule)) { (shown(schedule)) } (visit.say(Text::Colon)) }
            (None, Some(name)) => { (queue(name)) (visit.say(Text::Colon)) }
            (None, None) => {}
        }
        @for part in parts(visit.language, item, visit.now) {
            @match part {
                Part::Words(words) => (words),
                Part::Strong(words) => strong { (words) },
                Part::Lasting(span, since) => strong title=(since.map(|since| since.to_string()).unwrap_or_default()) { (span) },
                Part::Message(message) => span lang="en" { (shown(message)) },
                Part::Job(id) => (job(id)),
                Part::Instant(at) => time datetime=(at) { (instant_text(at.0)) },
            }
        }
    }
}

/// The button or the link that mends it.
fn remedy(visit: &Visit, item: &AttentionItem) -> Markup {
    let Some(name) = &item.queue else { return html! {} };
    match item.kind {
        AttentionKind::Paused if visit.may(Scope::Admin, name) => html! {
            form method="post" action=(page_path("/queues", name)) {
                (form_token(visit))
                button type="submit" name="do" value="resume" { (visit.say(Text::Resume)) }
            }
        },
        AttentionKind::DeadLetters => {
            let kind = item.job_kind.as_deref().unwrap_or_default();
            let message = item.message.as_deref().unwrap_or_default();
            html! {
                @if visit.may(Scope::Change, name) {
                    (super::failed::group_button(visit, "retry_group", (name, kind, message), &visit.language.fill(Text::RetryAll, &[&number(item.jobs.unwrap_or(0))])))
                }
                a href=(with_query(FAILED, [("queue", &**name), ("kind", kind)].into_iter())) { (visit.say(Text::ShowThem)) }
            }
        }
        AttentionKind::NoWorker | AttentionKind::Late | AttentionKind::Full => html! {
            @if item.limit.is_some() {
                a href=(page_path("/queues", name)) { (visit.say(Text::EditSettings)) }
            } @else if item.target.is_none() {
                details.copy {
                    summary { (visit.say(Text::HowToWork)) }
                    pre { (visit.command(&["work", name, "--", "sh", "-c", "cat"])) }
                }
            }
            a href=(with_query("/jobs", [("queue", &**name), ("state", "ready")].into_iter())) { (visit.say(Text::ShowThem)) }
        },
        // Nothing else finds out at once that it is back, if its jobs wait for their next attempts.
        AttentionKind::TargetDown => html! {
            @if visit.may(Scope::Push, name) {
                form method="post" action=(page_path("/queues", name)) {
                    (form_token(visit))
                    input type="hidden" name="origin" value=(session::random().unwrap_or_default());
                    button type="submit" name="do" value="test" { (visit.say(Text::SendTest)) }
                }
            }
            a href=(with_query("/jobs", [("queue", &**name)].into_iter())) { (visit.say(Text::ShowThem)) }
        },
        // A run by hand is another job, so it leaves the failed one as the last run.
        AttentionKind::ScheduleFailed => html! {
            @if let Some(failed) = item.job && visit.may(Scope::Change, name) {
                form method="post" action={ "/jobs/" (failed) } {
                    (form_token(visit))
                    button type="submit" name="do" value=(RETRY_FAILED) { (visit.say(Text::Retry)) }
                }
            }
        },
        _ => html! {},
    }
}
