//! Searching jobs, and doing something with many.

use crate::access::Scope;
use crate::dashboard::api::{Call, Problem};
use crate::dashboard::form::Form;
use crate::dashboard::html::{empty, field, form_token, instant, job, next_page, number, queue, shown, state};
use crate::dashboard::text::Text;
use crate::dashboard::visit::{Visit, see_other, went, with_query};
use axum::http::Method;
use axum::response::Response;
use duetime_core::State;
use duetime_core::api::{self, Counts, Find, JobBody, Page};
use duetime_core::limits::PAGE_JOBS_MAX;
use maud::{Markup, html};
use serde_json::json;

use super::failed;
use super::queue::invalid;

/// The parameters of a search, as in the API.
const FILTERS: [&str; 7] = ["queue", "state", "tag", "kind", "key", "due_from", "due_to"];
/// Jobs of a page.
const LIMIT: usize = 50;
/// Pages of the largest size that are counted before something is done with all.
const PAGES_COUNTED: usize = 10;

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    // An id needs no search.
    if let Some(id) = visit.asked("id") {
        if id.bytes().all(|byte| byte.is_ascii_digit()) {
            return see_other(&format!("/jobs/{id}"));
        }
        let problem = invalid("id", &format!("digits, got {id:?}"));
        return visit.answer(Err(problem));
    }
    let rendered = render(&visit).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit) -> Result<(String, Markup), Problem> {
    let search = search(visit);
    let content = match list(visit, Text::NoJobs).await {
        Ok(found) => html! { (search) (found) },
        // The search stays, to be mended.
        Err(problem) => html! { (search) div.notice.bad role="alert" { p { (shown(&problem.detail)) } } },
    };
    Ok((visit.say(Text::Jobs).to_owned(), content))
}

fn search(visit: &Visit) -> Markup {
    let asked = |name| visit.asked(name).unwrap_or_default();
    html! {
        form.search method="get" action="/jobs" role="search" {
            (field(visit, "id", Text::Id, "", "1834902384928"))
            (field(visit, "queue", Text::Queue, asked("queue"), ""))
            label {
                span { (visit.say(Text::State)) }
                select name="state" {
                    option value="" { (visit.say(Text::Any)) }
                    @for state in State::ALL {
                        option value=(state.word()) selected[asked("state") == state.word()] { (visit.say(Text::of_state(state))) }
                    }
                }
            }
            (field(visit, "kind", Text::Kind, asked("kind"), ""))
            (field(visit, "tag", Text::Tag, asked("tag"), "order:17"))
            (field(visit, "key", Text::Key, asked("key"), ""))
            (field(visit, "due_from", Text::DueFrom, asked("due_from"), "2026-11-20T10:00:00Z"))
            (field(visit, "due_to", Text::DueTo, asked("due_to"), "2026-11-21T10:00:00Z"))
            p { button type="submit" { (visit.say(Text::Search)) } a href="/jobs" { (visit.say(Text::Clear)) } }
        }
    }
}

/// The jobs that a page is about, as the API asks for them.
fn selection(visit: &Visit) -> Vec<(&str, &str)> {
    let asked = visit.asked_all(&FILTERS);
    if visit.here.starts_with(failed::PATH) {
        asked.filter(|(name, _)| *name != "state").chain([("state", State::Failed.word())]).collect()
    } else {
        asked.collect()
    }
}

/// The jobs that the page is about, with what can be done with them.
pub(super) async fn list(visit: &Visit, none: Text) -> Result<Markup, Problem> {
    let selection = selection(visit);
    let (is_narrowed, limit) = (!selection.is_empty(), LIMIT.to_string());
    let asked = selection.into_iter().chain(visit.asked_all(&["cursor"])).chain([("limit", &*limit)]);
    let answer = visit.get(with_query("/v1/jobs", asked)).await?;
    let Page { jobs, next_cursor } = answer.read();
    Ok(html! {
        @if jobs.is_empty() {
            (empty(visit, if next_cursor.is_some() { Text::NoneOnThisPage } else { none }))
        } @else {
            form #found method="post" action=(visit.here) {
                (form_token(visit))
                (table(visit, &jobs))
                @if visit.api.caller.has(Scope::Change) { div.bar {
                    fieldset {
                        legend { (visit.say(Text::WithSelected)) }
                        (field(visit, "delay", Text::Delay, "", "30m"))
                        @for (name, text) in [("cancel", Text::Cancel), ("retry", Text::Retry), ("run", Text::RunNow), ("reschedule", Text::Reschedule), ("delete", Text::Delete)] {
                            button type="submit" name="do" value=(name) { (visit.say(text)) }
                        }
                    }
                    @if is_narrowed {
                        fieldset {
                            legend { (visit.say(Text::WithAllFound)) }
                            @for (name, text) in [("cancel_all", Text::Cancel), ("retry_all", Text::Retry), ("delete_all", Text::Delete)] {
                                button type="submit" name="do" value=(name) { (visit.say(text)) "…" }
                            }
                        }
                    }
                } }
            }
        }
        (next_page(visit, next_cursor.as_deref()))
    })
}

fn table(visit: &Visit, jobs: &[JobBody<'_>]) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { input type="checkbox" data-all aria-label=(visit.say(Text::SelectAll)) hidden; }
                        @for text in [Text::Id, Text::Queue, Text::Kind, Text::State, Text::Due, Text::Attempt, Text::Message] {
                            th scope="col" { (visit.say(text)) }
                        }
                    }
                }
                tbody {
                    @for found in jobs {
                        tr {
                            td { input type="checkbox" name="job" value={ (found.id) "." (found.version) } aria-label={ (visit.say(Text::Select)) " " (found.id) }; }
                            td { (job(found.id)) }
                            td { (queue(&found.queue)) }
                            td { (shown(&found.kind)) }
                            td { (state(visit, found.state)) }
                            td { (instant(visit, found.due_at.0)) }
                            td.number { (number(found.attempt.into())) }
                            td.message { @if let Some(message) = &found.message { (shown(message)) } }
                        }
                    }
                }
            }
        }
    }
}

pub(in crate::dashboard) async fn act(mut visit: Visit, form: Form) -> Response {
    match made(&visit, &form).await {
        Ok(Made::Done(response)) => response,
        Ok(Made::Asked(title, content)) => visit.answer(Ok((title, content))),
        Err(problem) => {
            visit.problem = Some(problem);
            if visit.here.starts_with(failed::PATH) { failed::page(visit).await } else { page(visit).await }
        }
    }
}

enum Made {
    Done(Response),
    /// Something that waits for a confirmation.
    Asked(String, Markup),
}

async fn made(visit: &Visit, form: &Form) -> Result<Made, Problem> {
    let action = form.get("do").unwrap_or_default();
    if let Some(verb) = action.strip_suffix("_all") {
        return all(visit, form, verb).await;
    }
    let mut calls = Vec::new();
    for selected in form.all("job") {
        let parsed = selected.split_once('.').and_then(|(id, version)| Some((id, version.parse::<u64>().ok()?)));
        let (id, version) = parsed.ok_or_else(|| invalid("job", "an id and a version"))?;
        let verb = match action {
            "run" => "run",
            "retry" => "retry",
            "cancel" => "cancel",
            "delete" | "reschedule" => "",
            other => return Err(invalid("do", &format!("an action of this page, got {other:?}"))),
        };
        let (call, word) = match verb {
            "run" => (Call::post(format!("/v1/jobs/{id}/run")), "run"),
            "retry" => (Call::post(format!("/v1/jobs/{id}/retry")), "retried"),
            "cancel" => (Call::post(format!("/v1/jobs/{id}/cancel")), "cancelled"),
            _ if action == "delete" => (Call::new(Method::DELETE, format!("/v1/jobs/{id}")), "deleted"),
            _ => {
                let delay = form.get("delay").ok_or_else(|| invalid("delay", "a span such as 30m, got nothing"))?;
                let call = Call::new(Method::PATCH, format!("/v1/jobs/{id}")).with(&json!({ "delay": delay }));
                (call, "rescheduled")
            }
        };
        calls.push((call.at(Some(version)), word));
    }
    if calls.len() > LIMIT {
        return Err(invalid("job", &format!("at most {LIMIT} selected jobs, got {}", calls.len())));
    }
    if calls.is_empty() {
        return Err(invalid("job", "at least one selected job, got none"));
    }
    Ok(Made::Done(visit.act(calls, &visit.here).await?))
}

/// Does something with all jobs that the query finds, once it was said how many they are.
async fn all(visit: &Visit, form: &Form, verb: &str) -> Result<Made, Problem> {
    let text = match verb {
        "cancel" => Text::Cancel,
        "retry" => Text::Retry,
        "delete" => Text::Delete,
        other => return Err(invalid("do", &format!("an action of this page, got {other:?}"))),
    };
    let query = with_query("", selection(visit).into_iter());
    let find: Find = query
        .trim_start_matches('?')
        .parse()
        .map_err(|error| Problem::from(api::Problem::of(&error, 400, "The request is not valid")))?;
    let body = serde_json::to_value(&find.query).expect("a selection has only string keys");
    let call = Call::post(format!("/v1/jobs/{verb}")).with(&body);
    if form.get("confirmed").is_some() {
        let counts: Counts = visit.api.call(call).await?.read();
        let done: Vec<(String, u64)> = counts.0.into_iter().map(|(word, count)| (word.to_owned(), count)).collect();
        return Ok(Made::Done(went(&visit.here, &done)));
    }
    let (count, is_all) = count(visit, verb).await?;
    let count = if is_all { number(count) } else { format!("≥ {}", number(count)) };
    let content = html! {
        p { (visit.language.fill(Text::WouldAct, &[visit.say(text), &count])) }
        dl.facts { @for (name, value) in selection(visit) { div { dt { (name) } dd { (shown(value)) } } } }
        form method="post" action=(visit.here) {
            (form_token(visit))
            input type="hidden" name="confirmed" value="yes";
            button.danger type="submit" name="do" value={ (verb) "_all" } { (visit.say(text)) " (" (count) ")" }
            " " a href=(visit.here) { (visit.say(Text::Back)) }
        }
        details.copy { summary { (visit.say(Text::AsCommand)) } pre { (call.curl(&visit.origin, visit.asks_for_tokens)) } }
    };
    Ok(Made::Asked(visit.say(text).to_owned(), content))
}

/// How many jobs the action is for, and whether that is all.
async fn count(visit: &Visit, verb: &str) -> Result<(u64, bool), Problem> {
    let usual: &[&str] = match verb {
        "cancel" => &["scheduled", "ready", "running"],
        "retry" => &["failed"],
        _ => &[],
    };
    let selection = selection(visit);
    let states = if selection.iter().any(|(name, _)| *name == "state") { &[] } else { usual };
    let (mut count, mut cursor) = (0, None::<String>);
    for _ in 0..PAGES_COUNTED {
        let limit = PAGE_JOBS_MAX.to_string();
        let asked = selection.iter().copied().chain(states.iter().map(|state| ("state", *state)));
        let asked = asked.chain(cursor.as_deref().map(|cursor| ("cursor", cursor))).chain([("limit", &*limit)]);
        let answer = visit.get(with_query("/v1/jobs", asked)).await?;
        let page: Page<'_> = answer.read();
        count += page.jobs.len() as u64;
        match page.next_cursor {
            Some(next) => cursor = Some(next.into_owned()),
            None => return Ok((count, true)),
        }
    }
    Ok((count, false))
}
