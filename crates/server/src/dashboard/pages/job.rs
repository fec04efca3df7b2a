//! One job: its state, its history, its next steps, and the actions on it.

use super::job_call::{call, to_api};
use crate::access::Scope;
use crate::dashboard::action::{Action, actions as row};
use crate::dashboard::api::{Call, Problem};
use crate::dashboard::fields::{invalid, value};
use crate::dashboard::figures::{exact, number};
use crate::dashboard::form::Form;
use crate::dashboard::html::{allowed, field, instant, queue, state, table, tag};
use crate::dashboard::paths::{see_other, went, with_query};
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::{indented, json as visible, shown, visible as as_shown};
use crate::dashboard::visit::{Named, Visit};
use crate::job_options;
use axum::http::Method;
use axum::response::Response;
use duetime_core::api::{Base64, JobBody, Queue, Why, path_segment};
use duetime_core::rules::retry_plan;
use duetime_core::{Job, JobOptions, KeyUntil, Retry, State};
use maud::{Markup, html};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The action of a page that shows no version of the job: retries it, or runs it now if it waits for its next attempt. Once
/// somebody else has done so, it does nothing.
pub(super) const RETRY_FAILED: &str = "retry_failed";
/// Bytes of a payload or a result that are shown.
const SHOWN_BYTES_MAX: usize = 64 * 1_024;
/// JSON up to this length is shown as one line if it is one.
const LINE_BYTES_MAX: usize = 80;
/// Failed attempts in the line of a job's life.
const LIFE_FAILURES_MAX: usize = 3;
/// Attempts ahead that are shown.
const PLANNED_MAX: usize = 20;

pub(in crate::dashboard) async fn page(visit: Visit, Named(id): Named) -> Response {
    let rendered = render(&visit, &id).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit, id: &str) -> Result<(String, Markup), Problem> {
    let answer = visit.get(format!("/v1/jobs/{}", path_segment(id))).await?;
    let job: JobBody<'_> = answer.read();
    let content = html! {
        p.lead {
            (state(visit, job.state)) " " (queue(&job.queue)) " · " (shown(&job.kind))
            // To all jobs with the same key or tag, also those that have ended.
            @if let Some(key) = &job.key { " · " (same_key(visit, &job, key)) }
            @for name in job.tags.iter() { " " (tag(name)) }
            @if job.cancel_requested { " " span.badge.warn { (visit.say(Text::CancelRequested)) } }
        }
        (progress(&job))
        (why(visit, &job).await?)
        (life(visit, &job))
        (actions(visit, &job))
        (facts(visit, &job))
        (plan(visit, &job).await?)
        h2 { (visit.say(Text::Payload)) }
        (bytes(visit, job.payload, job.payload_base64.as_ref()))
        @if job.result.is_some() || job.result_base64.is_some() {
            h2 { (visit.say(Text::Result)) }
            (bytes(visit, job.result, job.result_base64.as_ref()))
        }
        h2 { (visit.say(Text::History)) }
        (history(visit, &job))
    };
    Ok((visit.language.fill(Text::JobTitle, &[id]), content))
}

/// A link to the jobs of the queue with the same key.
fn same_key(visit: &Visit, job: &JobBody<'_>, key: &str) -> Markup {
    let path = with_query("/jobs", [("queue", &*job.queue), ("key", key)].into_iter());
    html! { a href=(path) title=(visit.say(Text::Key)) { (shown(key)) } }
}

/// The beginning of a payload or a result.
fn bytes(visit: &Visit, json: Option<&RawValue>, base64: Option<&Base64<'_>>) -> Markup {
    let text = match (json, base64.and_then(|base64| serde_json::to_value(base64).ok())) {
        (Some(json), _) => visible(json.get()),
        (None, Some(base64)) => format!("base64: {}", base64.as_str().unwrap_or_default()),
        (None, None) => String::new(),
    };
    let mut end = text.len().min(SHOWN_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // One long line is hard to read.
    let is_line = json.is_some() && end == text.len() && end > LINE_BYTES_MAX && !text.contains('\n');
    let lines = is_line.then(|| indented(&text)).filter(|lines| lines.len() <= SHOWN_BYTES_MAX && *lines != text);
    html! {
        @if let Some(lines) = lines {
            pre.data { (lines) }
            details.copy { summary { (visit.say(Text::AsPushed)) } pre { (text) } }
        } @else {
            pre.data { (text[..end]) }
        }
        @if end < text.len() { p.empty { (visit.language.fill(Text::MoreBytes, &[&number((text.len() - end) as u64)])) } }
    }
}

/// The payload with the line ends of a browser's field; `None` if the field cannot hold it as it is.
fn editable(job: &JobBody<'_>) -> Option<String> {
    let payload = job.payload.filter(|payload| payload.get().len() <= SHOWN_BYTES_MAX)?;
    let text = payload.get().replace("\r\n", "\n").replace('\r', "\n");
    (as_shown(&text) == text).then_some(text)
}

fn progress(job: &JobBody<'_>) -> Markup {
    let Some(progress) = job.progress.as_deref() else { return html! {} };
    html! {
        p.progress {
            progress max="100" value=(progress.percent) {} " " (progress.percent) " % "
            @if let Some(note) = &progress.note { (shown(note)) }
        }
    }
}

fn as_json(value: &impl Serialize) -> Markup {
    html! { code { (visible(&serde_json::to_string(value).unwrap_or_default())) } }
}

fn facts(visit: &Visit, job: &JobBody<'_>) -> Markup {
    let fact = |text: Text, value: Markup| html! { div { dt { (visit.say(text)) } dd { (value) } } };
    let at = |at: Option<duetime_core::api::Timestamp>| at.map(|at| instant(visit, at.0));
    html! {
        dl.facts {
            (fact(Text::Due, instant(visit, job.due_at.0)))
            @if job.first_due_at != job.due_at { (fact(Text::FirstDue, instant(visit, job.first_due_at.0))) }
            (fact(Text::Created, instant(visit, job.created_at.0)))
            (fact(Text::Updated, instant(visit, job.updated_at.0)))
            @if let Some(at) = at(job.started_at) { (fact(Text::Started, at)) }
            @if let Some(at) = at(job.finished_at) { (fact(Text::Finished, at)) }
            @if let Some(at) = at(job.lease_until) { (fact(Text::LeaseUntil, at)) }
            (fact(Text::Attempt, html! { (number(job.attempt.into())) }))
            @if job.crashes > 0 { (fact(Text::Crashes, html! { (number(job.crashes.into())) })) }
            @if job.releases > 0 { (fact(Text::Releases, html! { (number(job.releases.into())) })) }
            (fact(Text::Priority, html! { (number(job.priority.into())) }))
            @if let Some(lease) = job.lease { (fact(Text::Lease, html! { (exact(lease.0)) })) }
            @if let Some(expires) = job.expires { (fact(Text::Expires, html! { (exact(expires.0)) })) }
            @if let Some(key) = &job.key { (fact(Text::Key, html! { (same_key(visit, job, key)) @if job.key_until == Some(KeyUntil::Started) { ", " (visit.say(Text::UntilStarted)) } })) }
            @if let Some(origin) = &job.origin { (fact(Text::Origin, shown(origin))) }
            @if !job.tags.is_empty() {
                (fact(Text::Tags, html! { @for name in job.tags.iter() { (tag(name)) " " } }))
            }
            @if job.moves > 0 { (fact(Text::Moves, html! { (number(job.moves.into())) })) }
            @if job.rule() != Retry::INHERITED { (fact(Text::OwnRule, as_json(&job.rule()))) }
            @for (name, value) in job_options::given(&JobOptions { retry: Retry::INHERITED, ..job.options() }) {
                div { dt { (option(visit, &name)) } dd { (given(&value)) } }
            }
            (fact(Text::Version, html! { (job.version) }))
            @if let Some(message) = &job.message { div.wide { dt { (visit.say(Text::Message)) } dd { (shown(message)) } } }
        }
    }
}

/// An option's value: text as it is, and an object of texts with a line for each.
fn given(value: &Value) -> Markup {
    let texts: Option<Vec<_>> =
        value.as_object().and_then(|object| object.iter().map(|(name, value)| Some((name, value.as_str()?))).collect());
    match (value.as_str(), texts) {
        (Some(text), _) => shown(text),
        (None, Some(texts)) => html! { @for (name, text) in texts { div { code { (name) } " " (shown(text)) } } },
        (None, None) => as_json(value),
    }
}

/// The label of an option; its name in JSON if it has no text.
fn option<'a>(visit: &Visit, name: &'a str) -> &'a str {
    match name {
        "target" => visit.say(Text::Target),
        "trace" => visit.say(Text::Trace),
        "meta" => visit.say(Text::Meta),
        name => name,
    }
}

/// The history of a job in one line.
fn life(visit: &Visit, job: &JobBody<'_>) -> Markup {
    let waits_again = job.attempt > 0 && matches!(job.state, State::Scheduled | State::Ready);
    // The end of a failed job tells of its last attempt.
    let before_the_end =
        job.errors.iter().rev().filter(|error| job.state != State::Failed || error.attempt < job.attempt);
    let failed = before_the_end.take(LIFE_FAILURES_MAX).map(|error| (error.attempt, Text::Failed, error.at));
    // Only the start of the last attempt is known.
    let started = job.started_at.map(|at| (job.attempt, Text::Started, at));
    let mut attempts: Vec<_> = started.into_iter().chain(failed).collect();
    attempts.sort_by_key(|&(attempt, ..)| attempt);
    let attempts = attempts.into_iter().map(|(_, text, at)| (text, at));
    let steps = [(Text::Created, job.created_at), (Text::Due, job.first_due_at)].into_iter().chain(attempts);
    let steps = steps.chain(waits_again.then_some((Text::NextAttempt, job.due_at)));
    let steps = steps.chain(job.finished_at.map(|at| (Text::of_state(job.state), at)));
    html! {
        ol.life aria-label=(visit.say(Text::Life)) {
            @for (text, at) in steps { li { span { (visit.say(text)) } " " (instant(visit, at.0)) } }
        }
    }
}

/// Why it does not run, or who runs it.
async fn why(visit: &Visit, job: &JobBody<'_>) -> Result<Markup, Problem> {
    if !job.state.is_live() {
        return Ok(html! {});
    }
    let answer = visit.get(format!("/v1/jobs/{}/why", job.id)).await?;
    let Why { reasons, .. } = answer.read();
    Ok(html! {
        h2 { (visit.say(if job.state == State::Running { Text::Running } else { Text::WhyNot })) }
        @if reasons.is_empty() { p { (visit.say(Text::NothingInTheWay)) } } @else {
            ul.reasons {
                @for reason in &reasons {
                    li {
                        (visit.language.reason(reason))
                        @if let Some(since) = reason.since { " " (instant(visit, since.0)) }
                        @if let Some(worker) = &reason.worker { " " (shown(&visit.language.fill(Text::WhyWorker, &[worker]))) }
                        @if let Some(until) = reason.until { " " (visit.say(Text::Until)) " " (instant(visit, until.0)) }
                    }
                }
            }
        }
    })
}

/// When it would run again, if each attempt failed as soon as it began.
async fn plan(visit: &Visit, job: &JobBody<'_>) -> Result<Markup, Problem> {
    if !job.state.is_live() {
        return Ok(html! {});
    }
    let answer = visit.get(format!("/v1/queues/{}", path_segment(&job.queue))).await;
    // The right to read a job includes its queue.
    let status: Queue = answer?.read();
    let rule = job.rule().or(&status.settings.rule());
    let Ok(job) = Job::try_from(job.clone()) else { return Ok(html! {}) };
    let planned = retry_plan(&job, &rule, visit.now, PLANNED_MAX);
    Ok(html! {
        h2 { (visit.say(Text::RetryPlan)) }
        @if planned.is_empty() {
            p { (visit.say(Text::NoMoreAttempts)) }
        } @else {
            p { (visit.say(Text::RetryPlanHint)) }
            ol.plan { @for at in planned { li { (instant(visit, at)) } } }
        }
    })
}

fn history(visit: &Visit, job: &JobBody<'_>) -> Markup {
    let rows = html! {
        @for error in job.errors.iter().rev() {
            tr {
                td.number data-label=(visit.say(Text::Attempt)) { (error.attempt) }
                td { (instant(visit, error.at.0)) }
                td.message { @if error.crashed { span.badge.bad { (visit.say(Text::Crashed)) } " " } (shown(&error.message)) }
            }
        }
    };
    html! {
        @if job.errors.is_empty() { p.empty { (visit.say(Text::NoErrors)) } } @else {
            (table(visit, &[Text::Attempt, Text::Ended, Text::Message], &rows))
        }
    }
}

fn actions(visit: &Visit, job: &JobBody<'_>) -> Markup {
    let id = job.id.to_string();
    let version = job.version.to_string();
    let post = |verb: &str| Some(Call::post(format!("/v1/jobs/{id}/{verb}")).at(Some(job.version)));
    let at = |call: Call| Some(call.at(Some(job.version)));
    let mut offered = Vec::new();
    if job.state == State::Scheduled {
        offered.push(Action { call: post("run"), command: vec!["run", &id], ..Action::new("run", Text::RunNow) });
    }
    if job.state.is_live() {
        offered.push(Action {
            call: post("cancel"),
            command: vec!["cancel", &id],
            ..Action::new("cancel", Text::Cancel)
        });
    } else {
        let has_succeeded = job.state == State::Succeeded;
        offered.push(Action {
            warning: has_succeeded.then_some(Text::RunAgainWarning),
            call: post("retry"),
            command: vec!["retry", &id],
            ..Action::new("retry", if has_succeeded { Text::RunAgain } else { Text::Retry })
        });
    }
    if matches!(job.state, State::Scheduled | State::Ready) {
        offered.push(Action {
            fields: field(visit, "delay", Text::RescheduleTo, visit.typed("reschedule", "delay", ""), "30m"),
            call: at(Call::new(Method::PATCH, to_api(&id)).with(&json!({"delay": "30m"}))),
            command: vec!["reschedule", &id, "--delay", "30m"],
            ..Action::new("reschedule", Text::Reschedule)
        });
        offered.push(Action {
            fields: html! {
                (field(visit, "priority", Text::Priority, visit.typed("edit", "priority", &job.priority.to_string()), ""))
                @if !visit.may(Scope::Push, &job.queue) {
                    p.empty { (visit.say(Text::PayloadNeedsPush)) }
                } @else if let Some(payload) = editable(job) {
                    label { span { (visit.say(Text::Payload)) } textarea name="payload" rows="8" spellcheck="false" { (visit.typed("edit", "payload", &payload)) } }
                } @else { p.empty { (visit.say(Text::NotEditable)) } }
            },
            call: at(Call::new(Method::PATCH, to_api(&id)).with(&json!({"priority": 0}))),
            ..Action::new("edit", Text::Edit)
        });
    }
    if job.state != State::Running {
        offered.push(Action {
            warning: Some(Text::DeleteWarning),
            call: at(Call::new(Method::DELETE, to_api(&id))),
            command: vec!["delete", &id],
            ..Action::new("delete", Text::Delete)
        });
    }
    allowed(visit, Scope::Change, &job.queue, || row(visit, &format!("/jobs/{id}"), &[("version", &version)], &offered))
}

pub(in crate::dashboard) async fn act(visit: Visit, Named(id): Named, form: Form) -> Response {
    let made = made(&visit, &id, &form).await;
    visit.answer_action(made, form, |visit| page(visit, Named(id))).await
}

async fn made(visit: &Visit, id: &str, form: &Form) -> Result<Response, Problem> {
    let id = path_segment(id);
    if form.get("do") == Some(RETRY_FAILED) {
        let answer = visit.get(to_api(&id)).await?;
        let job: JobBody<'_> = answer.read();
        let action = match job.state {
            State::Failed => "retry",
            State::Scheduled if job.attempt > 0 => "run",
            _ => return Ok(see_other(&visit.here)),
        };
        let (call, word) = call(&id, action, None)?;
        return visit.act(vec![(call.at(Some(answer.version)), word)], &visit.here).await;
    }
    let version = form.get("version").and_then(|version| version.parse().ok());
    let Some(version) = version else { return Err(invalid("version", "that of the job, in digits")) };
    let action = form.get("do").unwrap_or_default();
    let (call, word) = if action == "edit" {
        let answer = visit.get(to_api(&id)).await?;
        let shown = editable(&answer.read());
        // A payload that was not edited is not sent: it stays as it is, byte for byte.
        let payload = form.all("payload").next().filter(|text| shown.is_none_or(|shown| shown.trim() != text.trim()));
        let mut members = Vec::new();
        for (name, text) in [("priority", form.all("priority").next()), ("payload", payload)] {
            // As text, so numbers keep all their digits. A field that was emptied is refused.
            if let Some(text) = text {
                value(name, text)?;
                members.push(format!("\"{name}\":{text}"));
            }
        }
        let patch = format!("{{{}}}", members.join(","));
        (Call::new(Method::PATCH, to_api(&id)).with_text(patch), "saved")
    } else {
        call(&id, action, form.get("delay"))?
    };
    if action == "delete" {
        visit.api.call(call.at(Some(version))).await?;
        return Ok(went("/jobs", &[(word.to_owned(), 1)]));
    }
    visit.act(vec![(call.at(Some(version)), word)], &visit.here).await
}
