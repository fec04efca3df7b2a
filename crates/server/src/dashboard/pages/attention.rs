//! The problems that the API lists. A problem that one click can solve has a button.

use crate::access::Scope;
use crate::dashboard::html::{form_token, instant_text, job, number, queue};
use crate::dashboard::paths::{FAILED, page_path, with_query};
use crate::dashboard::seen::shown;
use crate::dashboard::text::Text;
use crate::dashboard::visit::Visit;
use duetime_core::Millis;
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
    let fill = |text, value: &str| visit.language.fill(text, &[value]);
    let jobs = number(item.jobs.unwrap_or(0));
    let target = item.target.as_deref().unwrap_or_default();
    let message = html! { @if let Some(message) = &item.message { span lang="en" { (shown(message)) } } };
    let waiting = html! { @if item.jobs.is_some() { " " (fill(Text::AttentionJobs, &jobs)) } };
    let said = match item.kind {
        AttentionKind::NotReady => html! { (visit.say(Text::NotReady)) },
        AttentionKind::Degraded | AttentionKind::Clock => html! {
            strong { (visit.say(item.code.map_or(Text::Unknown, Text::of_degraded))) } " " (message)
        },
        AttentionKind::TargetDown => html! {
            (shown(&fill(Text::AttentionTarget, target))) " " (since(visit, item)) ". " (message) (waiting)
        },
        AttentionKind::NoWorker => html! { (fill(Text::AttentionNoWorker, &jobs)) " " (since(visit, item)) "." },
        AttentionKind::Late if item.since.is_none() => {
            let late = item.lateness.map_or(0, |late| late.0);
            html! { (fill(Text::AttentionStarted, &visit.language.span(late))) }
        }
        AttentionKind::Late => html! {
            (fill(Text::AttentionLate, &jobs)) " " (since(visit, item)) ". "
            @if let Some(limit) = item.limit { (fill(Text::AttentionLimit, &number(limit.into()))) " " }
            @if item.target.is_some() { (shown(&fill(Text::AttentionTargetSlow, target))) }
            @else if item.limit.is_none() { (visit.say(Text::AttentionWorkersSlow)) }
        },
        AttentionKind::Full => html! {
            @if let Some(limit) = item.limit { (fill(Text::AttentionFull, &number(limit.into()))) " " }
            (fill(Text::AttentionNoPlace, &jobs)) " " (since(visit, item)) "."
        },
        AttentionKind::DeadLetters => html! { (fill(Text::AttentionFailed, &jobs)) " " (message) },
        AttentionKind::ScheduleFailed => html! {
            @if let Some(failed) = item.job { (visit.say(Text::AttentionRun)) " " (job(failed)) " " (message) }
            @else { (visit.say(Text::AttentionRefused)) }
        },
        AttentionKind::Paused => html! {
            (visit.say(Text::AttentionPaused))
            @if item.since.is_some() { " (" (since(visit, item)) ")" }
            @if let Some(by) = &item.by { " " (shown(&fill(Text::AttentionPausedBy, by))) } ", "
            @match item.until {
                Some(until) => { (visit.say(Text::Until)) " " time datetime=(until) { (instant_text(until.0)) } "." }
                None => (visit.say(Text::AttentionPausedForever)),
            }
            (waiting)
        },
        AttentionKind::Unknown => html! { span lang="en" { (shown(&item.detail)) } },
    };
    html! {
        @match (&item.schedule, &item.queue) {
            (Some(schedule), _) => { a href=(page_path("/schedules", schedule)) { (shown(schedule)) } ": " }
            (None, Some(name)) => { (queue(name)) ": " }
            (None, None) => {}
        }
        (said)
    }
}

/// How long it has lasted, with the instant at which it began.
fn since(visit: &Visit, item: &AttentionItem) -> Markup {
    let begin: Millis = item.since.map_or(visit.now, |since| since.0);
    html! { strong title=(item.since.map(|since| since.to_string()).unwrap_or_default()) { (visit.language.span(visit.now.saturating_sub(begin))) } }
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
        AttentionKind::NoWorker => html! {
            details.copy {
                summary { (visit.say(Text::HowToWork)) }
                pre { (visit.command(&["work", name, "--", "sh", "-c", "cat"])) }
            }
            a href=(with_query("/jobs", [("queue", &**name), ("state", "ready")].into_iter())) { (visit.say(Text::ShowThem)) }
        },
        AttentionKind::Late | AttentionKind::Full => html! {
            a href=(with_query("/jobs", [("queue", &**name), ("state", "ready")].into_iter())) { (visit.say(Text::ShowThem)) }
        },
        AttentionKind::TargetDown => html! {
            a href=(with_query("/jobs", [("queue", &**name)].into_iter())) { (visit.say(Text::ShowThem)) }
        },
        _ => html! {},
    }
}
