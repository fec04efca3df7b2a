//! The parts that pages share.

use super::assets;
use super::figures::{instant_text, number};
use super::language::Language;
use super::paths::{NOTHING, page_path, with_query};
use super::text::Text;
use super::untrusted::{shown, visible};
use super::visit::Visit;
use crate::access::Scope;
use duetime_core::api::Timestamp;
use duetime_core::{JobId, Millis, State};
use maud::{DOCTYPE, Markup, html};

/// The documentation of the API, which some problems end with.
const DOCS: &str = "/docs";
/// The pages that each page names.
const PAGES: [(&str, Text); 8] = [
    ("/", Text::Overview),
    ("/queues", Text::Queues),
    ("/jobs", Text::Jobs),
    ("/failed", Text::Failed),
    ("/schedules", Text::Schedules),
    ("/workers", Text::Workers),
    ("/locks", Text::Locks),
    ("/events", Text::Events),
];

/// A whole page.
pub(super) fn page(visit: &Visit, title: &str, content: &Markup) -> Markup {
    let path = visit.here.split('?').next().unwrap_or("/");
    let wrong = visit.attention.as_ref().map_or(0, |attention| attention.items.len() as u64 + attention.omitted);
    html! {
        (DOCTYPE)
        html lang=(visit.language.tag()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { @if wrong > 0 { "(" (number(wrong)) ") " } (visible(title)) " · Duetime" }
                link #icon rel="icon" href=(assets::icon(wrong).path()) type="image/svg+xml";
                link rel="stylesheet" href=(assets::STYLE.path());
                script type="module" src=(assets::SCRIPT.path()) {}
            }
            body {
                a.skip href="#main" { (visit.say(Text::SkipToContent)) }
                header {
                    a.brand href="/" { (logo()) "Duetime" }
                    @if path != "/sign-in" {
                        nav aria-label=(visit.say(Text::Pages)) {
                            @for (href, text) in PAGES.into_iter().filter(|(href, _)| *href != "/locks" || visit.api.caller.has(Scope::Lock)) {
                                @let is_here = path == href || (href != "/" && path.starts_with(href));
                                a href=(href) aria-current=[is_here.then_some("page")] {
                                    (visit.say(text))
                                    @if *href == *"/" && wrong > 0 { " " span.badge.bad { (number(wrong)) } }
                                }
                            }
                        }
                    }
                    @if path != "/sign-in" {
                        form.find method="get" action="/search" role="search" aria-label=(visit.say(Text::FindAnything)) {
                            input type="search" name="q" aria-label=(visit.say(Text::FindAnything)) placeholder=(visit.say(Text::FindAnything)) autocomplete="off";
                        }
                    }
                    div.tools {
                        small.where {
                            span #zone { "UTC" } " · " (visit.store) " · " (env!("CARGO_PKG_VERSION"))
                        }
                        button #live type="button" hidden aria-pressed="true" title=(visit.say(Text::LiveHint)) { (visit.say(Text::Live)) }
                        @for language in Language::ALL.into_iter().filter(|language| *language != visit.language) {
                            a lang=(language.tag()) href=(switched(&visit.here, language)) { (language.name()) }
                        }
                        @if visit.asks_for_tokens && path != "/sign-in" {
                            form method="post" action="/sign-out" {
                                (form_token(visit))
                                small.who { (shown(visit.api.caller.name())) } " "
                                button.plain type="submit" { (visit.say(Text::SignOut)) }
                            }
                        }
                    }
                }
                main #main tabindex="-1" {
                    h1 { (shown(title)) }
                    (notices(visit))
                    (content)
                }
                footer {
                    a href="/docs" { (visit.say(Text::ApiDocs)) }
                    span { "Duetime " (env!("CARGO_PKG_VERSION")) }
                }
                p #stale.notice.bad hidden { (visit.say(Text::Stale)) }
            }
        }
    }
}

fn logo() -> Markup {
    html! {
        svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" {
            circle cx="12" cy="12" r="10" fill="none" stroke="currentColor" stroke-width="2.4" {}
            path d="M12 6v6l4 3" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round" {}
        }
    }
}

fn switched(here: &str, language: Language) -> String {
    let glue = if here.contains('?') { '&' } else { '?' };
    format!("{here}{glue}language={}", language.tag())
}

/// The outcomes of the last action, and its problem.
fn notices(visit: &Visit) -> Markup {
    let done = visit.asked("done").unwrap_or_default().split('-').filter_map(|told| {
        let (word, count) = told.split_once('.')?;
        Some((Text::of_outcome(word)?, count.parse::<u64>().ok()?))
    });
    let done: Vec<String> =
        done.map(|(text, count)| visit.language.fill(Text::Outcome, &[visit.say(text), &number(count)])).collect();
    html! {
        @if visit.asked("done") == Some(NOTHING) {
            p.notice.warn role="status" { (visit.say(Text::OutcomeNothing)) }
        }
        @if !done.is_empty() {
            p.notice.good role="status" { (done.join(" · ")) }
        }
        @if let Some(problem) = &visit.problem {
            div.notice.bad role="alert" data-keep {
                strong { (problem.title) }
                @match problem.detail.strip_suffix(DOCS).filter(|detail| detail.ends_with("see ") || detail.ends_with("见 ")) {
                    Some(detail) => p { (shown(detail)) a href=(DOCS) { (DOCS) } },
                    None => p { (shown(&problem.detail)) },
                }
                @if problem.code == "version_mismatch" { p { (visit.say(Text::ChangedMeanwhile)) } }
                // Also if the page has no such form any more.
                @let typed: Vec<_> = visit.typed_fields().collect();
                @if !typed.is_empty() {
                    details.copy {
                        summary { (visit.say(Text::WhatWasTyped)) }
                        @for (name, text) in typed { label { span { (name) } pre { (visible(text)) } } }
                    }
                }
            }
        }
    }
}

/// The field that shows that a form belongs to this session.
pub(super) fn form_token(visit: &Visit) -> Markup {
    html! { input type="hidden" name="form" value=(visit.form); }
}

/// An instant, and how far it is from now. A script shows it in the reader's zone.
pub(super) fn instant(visit: &Visit, at: Millis) -> Markup {
    let exact = Timestamp(at).to_string();
    html! {
        span.instant {
            time datetime=(exact) title=(exact) { (instant_text(at)) }
            " " small { (distance(visit, at)) }
        }
    }
}

/// The distance of an instant from now, with the exact instant as its title.
pub(super) fn near(visit: &Visit, at: Millis) -> Markup {
    html! { span title=(Timestamp(at)) { (distance(visit, at)) } }
}

/// How far an instant is from now.
pub(super) fn distance(visit: &Visit, at: Millis) -> String {
    let text = if at > visit.now { Text::InSpan } else { Text::SpanAgo };
    match at.abs_diff(visit.now) {
        0..1_000 => visit.say(Text::Now).to_owned(),
        far => visit.language.fill(text, &[&visit.language.span(far)]),
    }
}

/// A state, by word and colour.
pub(super) fn state(visit: &Visit, state: State) -> Markup {
    html! { span class={ "state " (state.word()) } { (visit.say(Text::of_state(state))) } }
}

/// A link to a job.
pub(super) fn job(id: JobId) -> Markup {
    html! { a.id href={ "/jobs/" (id) } { (id) } }
}

/// A link to the jobs with a tag.
pub(super) fn tag(tag: &str) -> Markup {
    html! { a.tag href={ "/jobs?tag=" (duetime_core::api::path_segment(tag)) } { (shown(tag)) } }
}

/// A link to a queue.
pub(super) fn queue(name: &str) -> Markup {
    html! { a href=(page_path("/queues", name)) { (shown(name)) } }
}

/// The link to the next page of a list.
pub(super) fn next_page(visit: &Visit, cursor: Option<&str>) -> Markup {
    let Some(cursor) = cursor else { return html! {} };
    let (path, query) = visit.here.split_once('?').unwrap_or((&visit.here, ""));
    let kept: Vec<(String, String)> =
        url::form_urlencoded::parse(query.as_bytes()).into_owned().filter(|(name, _)| name != "cursor").collect();
    let pairs = kept.iter().map(|(name, value)| (&**name, &**value)).chain([("cursor", cursor)]);
    html! { p.next { a rel="next" href=(with_query(path, pairs)) { (visit.say(Text::NextPage)) " →" } } }
}

/// A link to this page with another choice, at the part with this name. Other choices stay.
pub(super) fn chosen(visit: &Visit, (name, value): (&str, &str), part: &str, is_it: bool, text: &str) -> Markup {
    let (path, query) = visit.here.split_once('?').unwrap_or((&visit.here, ""));
    let kept: Vec<(String, String)> =
        url::form_urlencoded::parse(query.as_bytes()).into_owned().filter(|(known, _)| known != name).collect();
    let pairs = kept.iter().map(|(name, value)| (&**name, &**value)).chain([(name, value)]);
    html! { a href={ (with_query(path, pairs)) "#" (part) } aria-current=[is_it.then_some("true")] { (text) } }
}

/// Columns of numbers: their heads are aligned with the digits.
const NUMBERS: [Text; 17] = [
    Text::InLastHour,
    Text::Attempt,
    Text::Failed,
    Text::Fence,
    Text::Holds,
    Text::Jobs,
    Text::OldestReady,
    Text::Pushed,
    Text::Ready,
    Text::Running,
    Text::Scheduled,
    Text::Succeeded,
    Text::Workers,
    Text::StartsAMinute,
    Text::LatenessP99,
    Text::Waits,
    Text::WaitsForIt,
];

/// The heads of a table's columns.
pub(super) fn heads(visit: &Visit, texts: &[Text]) -> Markup {
    html! { @for text in texts { th.number[NUMBERS.contains(text)] scope="col" { (visit.say(*text)) } } }
}

/// A table, which scrolls sideways if it is wider than the page. On a narrow screen each row is a card.
pub(super) fn table(visit: &Visit, columns: &[Text], rows: &Markup) -> Markup {
    html! {
        div.scroll.rows tabindex="0" {
            table {
                thead { tr { (heads(visit, columns)) } }
                tbody { (rows) }
            }
        }
    }
}

/// The text for an empty list.
pub(super) fn empty(visit: &Visit, text: Text) -> Markup {
    html! { p.empty { (visit.say(text)) } }
}

/// A labelled field of a form.
pub(super) fn field(visit: &Visit, name: &str, label: Text, value: &str, hint: &str) -> Markup {
    html! {
        label { span { (visit.say(label)) } input name=(name) value=(value) placeholder=(hint) autocomplete="off"; }
    }
}

/// Whether the reader may do this with this name, and what is then shown.
pub(super) fn allowed(visit: &Visit, scope: Scope, name: &str, markup: impl FnOnce() -> Markup) -> Markup {
    if visit.may(scope, name) {
        markup()
    } else {
        html! {}
    }
}
