//! One queue: how it stands, its settings, and what can be done with it.

use super::due;
use super::history;
use crate::access::Scope;
use crate::dashboard::api::{Call, Problem};
use crate::dashboard::form::Form;
use crate::dashboard::html;
use crate::dashboard::html::{Action, allowed, distance, field, instant, number};
use crate::dashboard::session;
use crate::dashboard::text::Text;
use crate::dashboard::visit::{Visit, went};
use axum::extract::Path;
use axum::http::Method;
use axum::response::Response;
use duetime_core::api::{self, Purged, Pushed, Queue, SETTINGS, path_segment};
use maud::{Markup, html};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

pub(in crate::dashboard) async fn page(visit: Visit, Path(name): Path<String>) -> Response {
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
                @if let Some(until) = status.paused_until { (visit.say(Text::Until)) " " (instant(visit, until)) }
            }
        }
        ul.cards {
            @for (text, count, state) in cards {
                li { a href=(of(state)) { strong { (number(count)) } span { (visit.say(text)) } } }
            }
            li { div { strong { @if let Some(due) = status.oldest_due_at { (distance(visit, due)) } @else { "–" } } span { (visit.say(Text::OldestReady)) } } }
        }
        (totals(visit, &status))
        div.actions { (actions(visit, &status, answer.version)) }
        (due::charts(visit, Some(name)).await?)
        (history::charts(visit, Some(name)).await?)
        h2 { (visit.say(Text::Settings)) }
        pre { (settings_text(&status)) }
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
        dl.totals { @for (text, count) in rows { div { dt { (visit.say(text)) } dd { (number(count)) } } } }
    }
}

/// The settings as JSON of the API.
fn settings_text(status: &Queue) -> String {
    html::json(&serde_json::to_string_pretty(&status.settings).expect("settings have only string keys"))
}

fn actions(visit: &Visit, status: &Queue, version: u64) -> Markup {
    let (name, segment) = (&*status.queue, path_segment(&status.queue));
    let to = format!("/queues/{segment}");
    let path = |verb: &str| format!("/v1/queues/{segment}/{verb}");
    let version = version.to_string();
    let hidden = [("version", version.as_str())];
    html! {
        (allowed(visit, Scope::Push, name, || Action {
            fields: html! {
                (field(visit, "kind", Text::Kind, "", "default"))
                label { span { (visit.say(Text::Payload)) } textarea name="payload" rows="4" spellcheck="false" required { "{}" } }
                (field(visit, "delay", Text::Delay, "", "30m"))
                (field(visit, "key", Text::Key, "", ""))
                (field(visit, "tags", Text::Tags, "", "order:17, shop:3"))
            },
            call: Some(Call::post(path("jobs")).with(&json!({"payload": {}, "delay": "30m"}))),
            command: vec!["push", name, "{}", "--delay", "30m"],
            ..Action::new("push", Text::PushJob)
        }.show(visit, &to, &[("origin", &session::random().unwrap_or_default())])))
        (allowed(visit, Scope::Admin, name, || html! {
            @if status.paused {
                (Action { call: Some(Call::post(path("resume"))), command: vec!["queues", "resume", name], ..Action::new("resume", Text::Resume) }.show(visit, &to, &[]))
            } @else {
                (Action {
                    fields: field(visit, "for", Text::ForSpan, "", "2h"),
                    call: Some(Call::post(path("pause")).with(&json!({"for": "2h"}))),
                    command: vec!["queues", "pause", name, "--for", "2h"],
                    ..Action::new("pause", Text::Pause)
                }.show(visit, &to, &[]))
            }
            (Action {
                fields: html! { label { span { (visit.say(Text::SettingsHint)) } textarea name="settings" rows="10" spellcheck="false" { (settings_text(status)) } } },
                call: Some(Call::new(Method::PUT, format!("/v1/queues/{segment}")).with(&json!({"max_running": 50}))),
                command: vec!["queues", "set", name, "--max-running", "50"],
                ..Action::new("set", Text::EditSettings)
            }.show(visit, &to, &hidden))
            (Action {
                warning: Some(Text::PurgeWarning),
                call: Some(Call::post(path("purge"))),
                command: vec!["queues", "purge", name],
                ..Action::new("purge", Text::Purge)
            }.show(visit, &to, &[]))
        }))
    }
}

pub(in crate::dashboard) async fn act(mut visit: Visit, Path(name): Path<String>, form: Form) -> Response {
    match made(&visit, &name, &form).await {
        Ok(response) => response,
        Err(problem) => {
            visit.problem = Some(problem);
            page(visit, Path(name)).await
        }
    }
}

async fn made(visit: &Visit, name: &str, form: &Form) -> Result<Response, Problem> {
    let segment = path_segment(name);
    let to = format!("/queues/{segment}");
    let path = |verb: &str| format!("/v1/queues/{segment}/{verb}");
    let done = |word: &str, count| Ok(went(&to, &[(word.to_owned(), count)]));
    match form.get("do").unwrap_or_default() {
        "push" => {
            let answer = visit.api.call(Call::post(path("jobs")).with_text(pushed(form)?)).await?;
            let job: Pushed = answer.read();
            Ok(went(&format!("/jobs/{}", job.id), &[(answer.outcome().unwrap_or_default(), 1)]))
        }
        "pause" => {
            let body = form.get("for").map_or(json!({}), |span| json!({"for": span}));
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
        "set" => {
            let settings = value("settings", form.get("settings").unwrap_or("{}"))?;
            let Value::Object(settings) = settings else { return Err(invalid("settings", "an object")) };
            // A setting that was removed from the text goes back to its default.
            let mut all: Map<String, Value> = SETTINGS.into_iter().map(|name| (name.to_owned(), Value::Null)).collect();
            all.extend(settings);
            let version = form.get("version").and_then(|version| version.parse().ok());
            let call = Call::new(Method::PUT, format!("/v1/queues/{segment}")).with(&all.into());
            // Without settings so far there is nothing that a version could be compared with.
            visit.api.call(call.at(version.filter(|&version: &u64| version > 0))).await?;
            done("saved", 1)
        }
        other => Err(invalid("do", &format!("an action of this page, got {other:?}"))),
    }
}

/// The job that a form describes.
fn pushed(form: &Form) -> Result<String, Problem> {
    #[derive(Serialize)]
    struct Push<'a> {
        payload: &'a RawValue,
        #[serde(flatten)]
        rest: Map<String, Value>,
    }
    let payload = form.get("payload").unwrap_or("null");
    let payload = serde_json::from_str(payload).map_err(|error| invalid("payload", &format!("JSON: {error}")))?;
    let mut rest = Map::new();
    for name in ["kind", "delay", "key", "origin"] {
        rest.extend(form.get(name).map(|text| (name.to_owned(), Value::from(text))));
    }
    if let Some(tags) = form.get("tags") {
        let tags: Vec<&str> = tags.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect();
        rest.insert("tags".to_owned(), tags.into());
    }
    Ok(serde_json::to_string(&Push { payload, rest }).expect("a job has only string keys"))
}

/// The JSON in a field.
pub(super) fn value(field: &str, text: &str) -> Result<Value, Problem> {
    serde_json::from_str(text).map_err(|error| invalid(field, &format!("JSON: {error}")))
}

pub(super) fn invalid(field: &str, expected: &str) -> Problem {
    let detail = format!("expected `{field}` to be {expected}");
    api::Problem::new("invalid", 400, "The request is not valid", detail).into()
}
