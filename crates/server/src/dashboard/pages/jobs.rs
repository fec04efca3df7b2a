//! Searching jobs, and doing something with many.

use crate::access::Scope;
use crate::dashboard::api::{Call, Problem};
use crate::dashboard::figures::number;
use crate::dashboard::form::Form;
use crate::dashboard::html::{empty, field, form_token, heads, job, near, next_page, queue, state, tag as tag_link};
use crate::dashboard::paths::FAILED;
use crate::dashboard::paths::{see_other, went, with_query};
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::shown;
use crate::dashboard::visit::Visit;
use axum::response::Response;
use duetime_core::api::{self, Find, JobBody, Page};
use duetime_core::engine::BulkCounts;
use duetime_core::limits::PAGE_JOBS_MAX;
use duetime_core::{JobId, State};
use maud::{Markup, html};

use super::job_call::{call, when};
use crate::dashboard::fields::{invalid, unknown};

/// The parameters of a search, as in the API.
const FILTERS: [&str; 7] = ["queue", "state", "tag", "kind", "key", "due_from", "due_to"];
/// Actions on jobs.
const ACTIONS: [(&str, Text); 5] = [
    ("cancel", Text::Cancel),
    ("retry", Text::Retry),
    ("run", Text::RunNow),
    ("reschedule", Text::Reschedule),
    ("delete", Text::Delete),
];
/// Jobs of a page.
const LIMIT: usize = 50;
/// Characters of a payload that a list shows.
const PAYLOAD_CHARS: usize = 80;
/// Pages of the largest size that are counted before something is done with all.
const PAGES_COUNTED: usize = 10;

pub(in crate::dashboard) async fn page(mut visit: Visit) -> Response {
    // An id needs no search.
    if let Some(id) = visit.asked("id") {
        if id.bytes().all(|byte| byte.is_ascii_digit()) {
            return see_other(&format!("/jobs/{id}"));
        }
        let problem = invalid("id", &format!("digits, got {id:?}"));
        return visit.answer(Err(problem));
    }
    let listed = list(&visit, Text::NoJobs).await;
    // The search stays, to be mended.
    let content = html! { (search(&visit)) @if let Ok(listed) = &listed { (listed) } };
    visit.problem = visit.problem.or(listed.err());
    let title = visit.say(Text::Jobs);
    visit.page(title, &content)
}

fn search(visit: &Visit) -> Markup {
    let asked = |name| visit.asked(name).unwrap_or_default();
    // What narrows the list is seen.
    let is_open = visit.asked_all(&["kind", "tag", "key", "due_from", "due_to"]).next().is_some();
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
            p { button type="submit" { (visit.say(Text::Search)) } a href="/jobs" { (visit.say(Text::Clear)) } }
            details data-open[is_open] open[is_open] {
                summary { (visit.say(Text::MoreFilters)) }
                div {
                    (field(visit, "kind", Text::Kind, asked("kind"), ""))
                    (field(visit, "tag", Text::Tag, asked("tag"), "order:17"))
                    (field(visit, "key", Text::Key, asked("key"), ""))
                    (field(visit, "due_from", Text::DueFrom, asked("due_from"), "2026-11-20T10:00:00Z"))
                    (field(visit, "due_to", Text::DueTo, asked("due_to"), "2026-11-21T10:00:00Z"))
                }
            }
        }
    }
}

/// The jobs that a page is about, as the API asks for them.
fn selection(visit: &Visit) -> Vec<(&str, &str)> {
    let asked = visit.asked_all(&FILTERS);
    if visit.here.starts_with(FAILED) {
        asked.filter(|(name, _)| *name != "state").chain([("state", State::Failed.word())]).collect()
    } else {
        asked.collect()
    }
}

/// The listed jobs, with the actions on them.
pub(super) async fn list(visit: &Visit, none: Text) -> Result<Markup, Problem> {
    let selection = selection(visit);
    let (is_narrowed, limit) = (!selection.is_empty(), LIMIT.to_string());
    // A failed job can be retried or deleted.
    let is_failed = visit.here.starts_with(FAILED);
    let actions = || {
        ACTIONS.into_iter().filter(move |(name, _)| !(is_failed && matches!(*name, "cancel" | "run" | "reschedule")))
    };
    let asked = selection.into_iter().chain(visit.asked_all(&["cursor"])).chain([("limit", &*limit)]);
    let answer = visit.get(with_query("/v1/jobs", asked)).await?;
    let Page { jobs, next_cursor } = answer.read();
    let all_found = is_narrowed.then_some((Text::WithAllFound, "delay_all", "_all"));
    let bars = std::iter::once((Text::WithSelected, "delay", "")).chain(all_found);
    Ok(html! {
        @if jobs.is_empty() {
            (empty(visit, if next_cursor.is_some() { Text::NoneOnThisPage } else { none }))
        } @else {
            form #found method="post" action=(visit.here) {
                (form_token(visit))
                (table(visit, &jobs, visit.asked("queue").is_none()))
                @if visit.api.caller.has(Scope::Change) {
                    @for (legend, delay, suffix) in bars {
                        div.bar.selected[suffix.is_empty()] {
                            fieldset {
                                // A script counts the selected jobs.
                                legend { (visit.say(legend)) @if suffix.is_empty() { span data-chosen {} } }
                                @for (name, text) in actions() {
                                    @if name == "reschedule" { (field(visit, delay, Text::RescheduleTo, visit.kept(delay).next().unwrap_or_default(), "30m")) }
                                    button type="submit" name="do" value={ (name) (suffix) } {
                                        (visit.say(text)) @if !suffix.is_empty() || asks(visit, name) { "…" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        (next_page(visit, next_cursor.as_deref()))
    })
}

/// The jobs; without their queue if all are of one. Jobs that have all ended show when they ended, others when they are due.
fn table(visit: &Visit, jobs: &[JobBody<'_>], with_queue: bool) -> Markup {
    let have_ended = jobs.iter().all(|job| job.finished_at.is_some());
    let when = match have_ended {
        true if visit.here.starts_with(FAILED) => Text::FailedAt,
        true => Text::Ended,
        false => Text::Due,
    };
    let all = [Text::Id, Text::State, Text::Queue, when, Text::Kind, Text::Attempt, Text::MessageOrPayload];
    let shown_heads: Vec<Text> = all.into_iter().filter(|text| with_queue || *text != Text::Queue).collect();
    let ticked: Vec<&str> = visit.kept("job").collect();
    html! {
        div.scroll.rows.jobs tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { input type="checkbox" data-all aria-label=(visit.say(Text::SelectAll)) hidden; }
                        (heads(visit, &shown_heads))
                    }
                }
                tbody {
                    @for found in jobs {
                        @let selected = format!("{}.{}", found.id, found.version);
                        tr {
                            td { input type="checkbox" name="job" value=(selected) checked[ticked.contains(&&*selected)] aria-label={ (visit.say(Text::Select)) " " (found.id) }; }
                            td { (job(found.id)) }
                            td { (state(visit, found.state)) }
                            @if with_queue { td.name { (queue(&found.queue)) } }
                            td.due { (near(visit, found.finished_at.filter(|_| have_ended).unwrap_or(found.due_at).0)) }
                            td.kind {
                                (shown(&found.kind))
                                @if found.key.is_some() || !found.tags.is_empty() {
                                    " "
                                    @if let Some(key) = &found.key { small title=(visit.say(Text::Key)) { (shown(key)) } " " }
                                    @for tag in found.tags.iter() { (tag_link(tag)) " " }
                                }
                            }
                            td.number.nil[found.attempt <= 1] data-label=(visit.say(Text::Attempt)) { (number(found.attempt.into())) }
                            td.message {
                                @if let Some(message) = &found.message { (shown(message)) }
                                @else if let Some(payload) = found.payload { code { (shown(&beginning(payload.get()))) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The beginning of a payload, on one line.
fn beginning(payload: &str) -> String {
    let mut line: String = payload.chars().take(PAYLOAD_CHARS).collect();
    if line.len() < payload.len() {
        line.push('…');
    }
    line
}

pub(in crate::dashboard) async fn act(visit: Visit, form: Form) -> Response {
    act_on(visit, form, page).await
}

/// Does what the form of a list asks for. If that is refused, shows the page of the list again.
pub(super) async fn act_on<F: Future<Output = Response>>(
    mut visit: Visit,
    form: Form,
    page: impl FnOnce(Visit) -> F,
) -> Response {
    match made(&visit, &form).await {
        Ok(FormResult::Done(response)) => response,
        Ok(FormResult::Question(title, content)) => visit.answer(Ok((title, content))),
        Err(problem) => {
            visit.refuse(problem, form);
            page(visit).await
        }
    }
}

enum FormResult {
    Done(Response),
    /// Something that waits for a confirmation.
    Question(String, Markup),
}

async fn made(visit: &Visit, form: &Form) -> Result<FormResult, Problem> {
    if !visit.api.caller.has(Scope::Change) {
        let detail = "expected a token with the right `change`";
        return Err(api::Problem::new("forbidden", 403, "Not allowed", detail.to_owned()).into());
    }
    let action = form.get("do").unwrap_or_default();
    if let Some(action) = action.strip_suffix("_all") {
        return all(visit, form, action).await;
    }
    let mut calls = Vec::new();
    for selected in form.all("job") {
        let parsed = selected
            .split_once('.')
            .and_then(|(id, version)| Some((id.parse::<JobId>().ok()?, version.parse::<u64>().ok()?)));
        let (id, version) = parsed.ok_or_else(|| invalid("job", "an id and a version"))?;
        let (call, word) = call(&id.to_string(), action, form.get("delay"))?;
        calls.push((call.at(Some(version)), word));
    }
    if calls.len() > LIMIT {
        return Err(invalid("job", &format!("at most {LIMIT} selected jobs, got {}", calls.len())));
    }
    if calls.is_empty() {
        return Err(invalid("job", "at least one selected job, got none"));
    }
    if asks(visit, action) && form.get("confirmed").is_none() {
        let jobs = html! { @for selected in form.all("job") { input type="hidden" name="job" value=(selected); } };
        let (text, warning) = match action {
            "retry" => (Text::Retry, Text::RetriesSucceeded),
            _ => (Text::Delete, Text::DeletesRecords),
        };
        let warning = html! { p.warning { (visit.say(warning)) } };
        return Ok(confirmation(visit, text, action, &number(calls.len() as u64), &warning, &jobs));
    }
    Ok(FormResult::Done(visit.act(calls, &visit.here).await?))
}

/// Whether an action on selected jobs waits for a confirmation.
fn asks(visit: &Visit, action: &str) -> bool {
    action == "delete" || (action == "retry" && !visit.here.starts_with(FAILED))
}

/// Does something with all jobs that the query finds, once it was said how many they are.
async fn all(visit: &Visit, form: &Form, action: &str) -> Result<FormResult, Problem> {
    let known = ACTIONS.into_iter().find(|(name, _)| *name == action);
    let (_, text) = known.ok_or_else(|| unknown(action))?;
    // The usual states are those that the API takes if none is named. A job that is due needs no reschedule to now.
    let (verb, due, usual): (_, _, &[State]) = match action {
        "cancel" => ("cancel", None, &[State::Scheduled, State::Ready, State::Running]),
        "retry" => ("retry", None, &[State::Failed]),
        "run" => ("reschedule", Some("0s"), &[State::Scheduled]),
        "reschedule" => ("reschedule", form.get("delay_all").or(Some("")), &[State::Scheduled, State::Ready]),
        _ => ("delete", None, &[]),
    };
    let query = with_query("", selection(visit).into_iter());
    let find: Find = query
        .trim_start_matches('?')
        .parse()
        .map_err(|error| Problem::from(api::Problem::of(&error, 400, "The request is not valid")))?;
    let mut body = serde_json::to_value(&find.query).expect("a selection has only string keys");
    if due.is_some() {
        let found = std::mem::replace(&mut body, when(due)?);
        body["selection"] = found;
    }
    let call = Call::post(format!("/v1/jobs/{verb}")).with(&body);
    if form.get("confirmed").is_some() {
        let counts: BulkCounts = visit.api.call(call).await?.read();
        let done: Vec<(String, u64)> = counts.iter().map(|(word, count)| (word.to_owned(), count)).collect();
        return Ok(FormResult::Done(went(&visit.here, &done)));
    }
    let (count, is_all) = count(visit, usual).await?;
    let count = if is_all { number(count) } else { format!("≥ {}", number(count)) };
    let facts = html! {
        dl.facts {
            @for (name, value) in selection(visit) { div { dt { (name) } dd { (shown(value)) } } }
            @if let Some(due) = due { div { dt { "delay" } dd { (shown(due)) } } }
        }
        details.copy { summary { (visit.say(Text::AsCommand)) } pre { (call.curl(&visit.origin, visit.asks_for_tokens)) } }
    };
    let hidden = html! { @if let Some(due) = due { input type="hidden" name="delay_all" value=(due); } };
    Ok(confirmation(visit, text, &format!("{action}_all"), &count, &facts, &hidden))
}

/// Says how many jobs an action is for, and waits for a confirmation.
fn confirmation(visit: &Visit, text: Text, action: &str, count: &str, facts: &Markup, hidden: &Markup) -> FormResult {
    let ends = action.starts_with("delete") || action.starts_with("cancel");
    let content = html! {
        p { (visit.language.fill(Text::WouldAct, &[visit.say(text), count])) }
        (facts)
        form.confirm method="post" action=(visit.here) data-keep {
            (form_token(visit))
            input type="hidden" name="confirmed" value="yes";
            (hidden)
            button #confirm class=[ends.then_some("danger")] type="submit" name="do" value=(action) { (visit.say(text)) " (" (count) ")" }
            " " a href=(visit.here) { (visit.say(Text::Back)) }
        }
    };
    FormResult::Question(visit.say(text).to_owned(), content)
}

/// The number of jobs that the action covers, and whether these are all.
async fn count(visit: &Visit, usual: &[State]) -> Result<(u64, bool), Problem> {
    let selection = selection(visit);
    let states = if selection.iter().any(|(name, _)| *name == "state") { &[] } else { usual };
    let (mut count, mut cursor) = (0, None::<String>);
    for _ in 0..PAGES_COUNTED {
        let limit = PAGE_JOBS_MAX.to_string();
        let asked = selection.iter().copied().chain(states.iter().map(|state| ("state", state.word())));
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
