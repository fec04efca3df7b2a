//! One queue: its state, its settings, and the actions on it.

use super::due;
use super::history;
use super::settings;
use crate::access::Scope;
use crate::dashboard::action::{Action, actions as row};
use crate::dashboard::api::{Call, Problem};
use crate::dashboard::fields::{invalid, members, not_json, unknown};
use crate::dashboard::figures::number;
use crate::dashboard::form::Form;
use crate::dashboard::html::{distance, field, instant};
use crate::dashboard::paths::{page_path, went};
use crate::dashboard::session;
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::{json, shown};
use crate::dashboard::visit::{Named, Visit};
use axum::http::Method;
use axum::response::Response;
use duetime_core::api::{Purged, Pushed, Queue, SETTINGS, path_segment, read};
use duetime_core::engine::PushOutcome;
use maud::{Markup, html};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// The kind of a job that tries a target.
const TEST_KIND: &str = "test";

pub(in crate::dashboard) async fn page(visit: Visit, Named(name): Named) -> Response {
    let rendered = render(&visit, &name).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit, name: &str) -> Result<(String, Markup), Problem> {
    let segment = path_segment(name);
    let answer = visit.get(format!("/v1/queues/{segment}")).await?;
    let status: Queue = answer.read();
    let of = |state: &str| format!("/jobs?queue={segment}&state={state}");
    let cards = [
        (Text::Scheduled, status.scheduled, "scheduled"),
        (Text::Ready, status.ready, "ready"),
        (Text::Running, status.running, "running"),
        (Text::Succeeded, status.succeeded, "succeeded"),
        (Text::Failed, status.failed, "failed"),
        (Text::Cancelled, status.cancelled, "cancelled"),
    ];
    let content = html! {
        @if status.paused {
            p.notice.warn {
                (visit.say(Text::QueueIsPaused)) " "
                @if let Some(until) = status.paused_until { (visit.say(Text::Until)) " " (instant(visit, until.0)) }
                @if let Some(at) = status.paused_at { " " (visit.say(Text::Since)) " " (instant(visit, at.0)) }
                @if let Some(by) = &status.paused_by { " " (shown(&visit.language.fill(Text::AttentionPausedBy, &[by]))) }
            }
        }
        @if let Some(until) = status.target_held_until {
            p.notice.warn { (visit.say(Text::WhyTarget)) " " (visit.say(Text::Until)) " " (instant(visit, until.0)) }
        }
        @if answer.version == 0 && status.totals.pushed == 0 { p.empty { (visit.say(Text::NoSuchQueue)) } }
        ul.cards {
            @for (text, count, state) in cards {
                li class=[(count > 0).then_some(state)] { a href=(of(state)) { strong { (number(count)) } span { (visit.say(text)) } } }
            }
            li { div { strong.words { @if let Some(due) = status.oldest_due_at { (distance(visit, due.0)) } @else { "–" } } span { (visit.say(Text::OldestReady)) } } }
            li { div { strong { (number(status.lately.workers)) } span { (visit.say(Text::Workers)) } } }
        }
        (actions(visit, &status, answer.version))
        @let waits_since = status.oldest_due_at.filter(|_| !status.paused);
        (history::charts(visit, Some(name), waits_since.map_or(0, |since| visit.now.saturating_sub(since.0))).await?)
        (due::chart(visit, Some(name)).await?)
        (totals(visit, &status))
        h2 { (visit.say(Text::Settings)) }
        (settings::list(visit, &status.settings))
    };
    Ok((name.to_owned(), content))
}

fn totals(visit: &Visit, status: &Queue) -> Markup {
    let totals = &status.totals;
    let rows = [
        (Text::Pushed, totals.pushed),
        (Text::Succeeded, totals.succeeded),
        (Text::Failed, totals.failed),
        (Text::Cancelled, totals.cancelled),
    ];
    html! {
        h2 { (visit.say(Text::Totals)) }
        p.totals { @for (text, count) in rows { span { (visit.say(text)) " " strong { (number(count)) } } " " } }
    }
}

/// The settings as JSON of the API.
fn settings_text(status: &Queue) -> String {
    json(&serde_json::to_string_pretty(&status.settings).expect("settings have only string keys"))
}

/// The form of a new job for any queue.
pub(super) fn push_form(visit: &Visit) -> Markup {
    row(visit, "/queues", &[("origin", &session::random().unwrap_or_default())], &[pushing(visit, None)])
}

/// Pushing a job, with a field for its queue if none is given.
fn pushing<'a>(visit: &Visit, queue: Option<&'a str>) -> Action<'a> {
    let typed = |name, usual| visit.typed("push", name, usual);
    let shown = queue.unwrap_or("orders");
    let segment = path_segment(shown);
    Action {
        fields: html! {
            @if queue.is_none() { (field(visit, "queue", Text::Queue, typed("queue", ""), shown)) }
            (field(visit, "kind", Text::Kind, typed("kind", ""), "default"))
            label { span { (visit.say(Text::Payload)) } textarea name="payload" rows="4" spellcheck="false" { (typed("payload", "{}")) } }
            (field(visit, "delay", Text::Delay, typed("delay", ""), "30m"))
            (field(visit, "key", Text::Key, typed("key", ""), ""))
            (field(visit, "tags", Text::Tags, typed("tags", ""), "order:17, shop:3"))
            label {
                span { (visit.say(Text::PushOptions)) }
                textarea name="options" rows="2" spellcheck="false" placeholder="{\"priority\": 10, \"max_attempts\": 3}" { (typed("options", "")) }
            }
        },
        call: Some(
            Call::post(format!("/v1/queues/{segment}/jobs")).with(&serde_json::json!({"payload": {}, "delay": "30m"})),
        ),
        command: vec!["push", "--queue", shown, "{}", "--delay", "30m"],
        ..Action::new("push", Text::PushJob)
    }
}

fn actions(visit: &Visit, status: &Queue, version: u64) -> Markup {
    let (name, segment) = (&*status.queue, path_segment(&status.queue));
    let path = |verb: &str| format!("/v1/queues/{segment}/{verb}");
    let mut offered = Vec::new();
    if visit.may(Scope::Push, name) {
        offered.push(pushing(visit, Some(name)));
    }
    if visit.may(Scope::Push, name) && status.settings.target.is_some() {
        offered.push(Action {
            call: Some(Call::post(path("jobs")).with(&test_job())),
            command: vec!["push", "--queue", name, "--kind", TEST_KIND, "--max-attempts", "1", "{\"test\":true}"],
            ..Action::new("test", Text::SendTest)
        });
    }
    if visit.may(Scope::Admin, name) {
        offered.push(if status.paused {
            let call = Some(Call::post(path("resume")));
            Action { call, command: vec!["queues", "resume", name], ..Action::new("resume", Text::Resume) }
        } else {
            Action {
                fields: field(visit, "for", Text::ForSpan, visit.typed("pause", "for", ""), "2h"),
                call: Some(Call::post(path("pause")).with(&serde_json::json!({"for": "2h"}))),
                command: vec!["queues", "pause", name, "--for", "2h"],
                ..Action::new("pause", Text::Pause)
            }
        });
        offered.push(Action {
            fields: settings::fields(visit, &status.settings),
            call: Some(
                Call::new(Method::PUT, format!("/v1/queues/{segment}")).with(&serde_json::json!({"max_running": 50})),
            ),
            command: vec!["queues", "set", name, "--max-running", "50"],
            button: Some(Text::Save),
            ..Action::new(settings::ACTION, Text::EditSettings)
        });
        offered.push(Action {
            fields: html! { label { span { (visit.say(Text::SettingsHint)) } textarea name="settings" rows="10" spellcheck="false" { (visit.typed("set", "settings", &settings_text(status))) } } },
            button: Some(Text::Save), ..Action::new("set", Text::SettingsAsJson)
        });
        offered.push(Action {
            warning: Some(Text::PurgeWarning),
            call: Some(Call::post(path("purge"))),
            command: vec!["queues", "purge", name],
            ..Action::new("purge", Text::Purge)
        });
        let ended = status.succeeded + status.failed + status.cancelled;
        let counts = [ended, status.scheduled + status.ready, status.running].map(number);
        offered.push(Action {
            warning: Some(Text::DeleteQueueWarning),
            fields: html! {
                p { (visit.language.fill(Text::DeleteQueueCounts, &counts.each_ref().map(|count| &**count))) }
                label.check { input type="checkbox" name="force" value="true"; span { (visit.say(Text::ByForce)) } }
            },
            call: Some(Call::new(Method::DELETE, format!("/v1/queues/{segment}"))),
            command: vec!["queues", "delete", name],
            ..Action::new("delete", Text::DeleteQueue)
        });
    }
    let (version, origin) = (version.to_string(), session::random().unwrap_or_default());
    row(visit, &page_path("/queues", name), &[("version", &version), ("origin", &origin)], &offered)
}

pub(in crate::dashboard) async fn act(visit: Visit, Named(name): Named, form: Form) -> Response {
    let made = made(&visit, &name, &form).await;
    visit.answer_action(made, form, |visit| page(visit, Named(name))).await
}

async fn made(visit: &Visit, name: &str, form: &Form) -> Result<Response, Problem> {
    let segment = path_segment(name);
    let to = page_path("/queues", name);
    let path = |verb: &str| format!("/v1/queues/{segment}/{verb}");
    let done = |word: &str, count| Ok(went(&to, &[(word.to_owned(), count)]));
    match form.get("do").unwrap_or_default() {
        "push" => push(visit, name, form).await,
        "pause" => {
            let body = form.get("for").map_or(serde_json::json!({}), |span| serde_json::json!({"for": span}));
            visit.api.call(Call::post(path("pause")).with(&body)).await?;
            done("paused", 1)
        }
        "resume" => {
            visit.api.call(Call::post(path("resume"))).await?;
            done("resumed", 1)
        }
        "purge" => {
            let purged: Purged = visit.api.call(Call::post(path("purge"))).await?.read();
            done("cancelled", purged.purged)
        }
        "delete" => {
            let force = if form.get("force").is_some() { "?force=true" } else { "" };
            visit.api.call(Call::new(Method::DELETE, format!("/v1/queues/{segment}{force}"))).await?;
            Ok(went("/queues", &[("deleted".to_owned(), 1)]))
        }
        "test" => {
            let mut job = test_job();
            job["origin"] = form.get("origin").into();
            let pushed: Pushed = visit.api.call(Call::post(path("jobs")).with(&job)).await?.read();
            Ok(went(&format!("/jobs/{}", pushed.id), &[("created".to_owned(), 1)]))
        }
        settings::ACTION => {
            let status: Queue = visit.get(format!("/v1/queues/{segment}")).await?.read();
            let call = Call::new(Method::PUT, format!("/v1/queues/{segment}"));
            let call = call.with_text(settings::changes(form, &status.settings)?);
            visit.api.call(call.at(Some(version(form)?))).await?;
            done("saved", 1)
        }
        "set" => {
            let version = version(form)?;
            let mut settings = members("settings", form.get("settings").unwrap_or("{}"))?;
            // A setting that was removed from the text goes back to its default.
            for name in SETTINGS {
                settings.entry(name.to_owned()).or_insert_with(|| RawValue::NULL.to_owned());
            }
            let text = serde_json::to_string(&settings).expect("settings have only string keys");
            let call = Call::new(Method::PUT, format!("/v1/queues/{segment}")).with_text(text);
            visit.api.call(call.at(Some(version))).await?;
            done("saved", 1)
        }
        other => Err(unknown(other)),
    }
}

/// A job that tries the target of a queue.
fn test_job() -> Value {
    serde_json::json!({"kind": TEST_KIND, "payload": {"test": true}, "max_attempts": 1})
}

/// The version of the settings that the form shows.
fn version(form: &Form) -> Result<u64, Problem> {
    let version = form.get("version").and_then(|version| version.parse().ok());
    version.ok_or_else(|| invalid("version", "that of the settings, in digits"))
}

/// Pushes the job that a form describes, and goes to its page.
pub(super) async fn push(visit: &Visit, queue: &str, form: &Form) -> Result<Response, Problem> {
    let call = Call::post(format!("/v1/queues/{}/jobs", path_segment(queue)));
    let answer = visit.api.call(call.with_text(pushed(form)?)).await?;
    let job: Pushed = answer.read();
    Ok(went(&page_of(&job), &[(answer.outcome().unwrap_or_default(), 1)]))
}

/// The page of a pushed job; that of its queue if it was dropped.
pub(super) fn page_of(pushed: &Pushed) -> String {
    if pushed.outcome == PushOutcome::Dropped {
        return page_path("/queues", &pushed.queue);
    }
    format!("/jobs/{}", pushed.id)
}

/// The job that a form describes.
fn pushed(form: &Form) -> Result<String, Problem> {
    // Raw, so numbers keep all their digits.
    let raw = |text: &str| to_raw_value(text).expect("text is JSON");
    let mut job = members("options", form.get("options").unwrap_or("{}"))?;
    let mut fields = Vec::new();
    if let Some(payload) = form.get("payload") {
        let payload = read(payload).map_err(|error| invalid("payload", &not_json(&error)))?;
        fields.push(("payload", payload));
    }
    for name in ["kind", "delay", "key"] {
        fields.extend(form.get(name).map(|text| (name, raw(text))));
    }
    if let Some(tags) = form.get("tags") {
        let tags: Vec<&str> = tags.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect();
        fields.push(("tags", to_raw_value(&tags).expect("texts are JSON")));
    }
    for (name, value) in fields {
        if job.insert(name.to_owned(), value).is_some() {
            return Err(invalid(name, "set once, got it in its field and in `options`"));
        }
    }
    // The reader does not see this field.
    if let Some(origin) = form.get("origin") {
        job.entry("origin".to_owned()).or_insert_with(|| raw(origin));
    }
    Ok(serde_json::to_string(&job).expect("a job has only string keys"))
}
