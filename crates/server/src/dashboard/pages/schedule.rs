//! One schedule: its next run, the result of the last run, and the actions on it.

use super::queue::{invalid, unknown, value};
use super::schedules::timing;
use crate::access::Scope;
use crate::dashboard::api::{Call, Problem};
use crate::dashboard::form::Form;
use crate::dashboard::html::{Action, allowed, field, instant, job, json, queue, shown, state};
use crate::dashboard::session;
use crate::dashboard::text::Text;
use crate::dashboard::visit::{Named, Visit, page_path, went};
use axum::http::Method;
use axum::response::Response;
use duetime_core::api::{JobBody, Pushed, Runs, path_segment};
use duetime_core::schedule::{ClockChange, ScheduleStatus};
use maud::{Markup, html};
use serde_json::json;

pub(in crate::dashboard) async fn page(visit: Visit, Named(name): Named) -> Response {
    let rendered = render(&visit, &name).await;
    visit.answer(rendered)
}

fn api(name: &str) -> String {
    format!("/v1/schedules/{}", path_segment(name))
}

async fn render(visit: &Visit, name: &str) -> Result<(String, Markup), Problem> {
    let answer = visit.get(api(name)).await?;
    let status: ScheduleStatus = answer.read();
    let schedule = &status.schedule;
    let Runs { runs } = visit.get(format!("{}/next", api(name))).await?.read();
    let became = match status.last.as_ref().and_then(|last| last.job) {
        // Its record may be gone by now.
        Some(id) => visit.get(format!("/v1/jobs/{id}")).await.ok().map(|answer| answer.read::<JobBody<'_>>().state),
        None => None,
    };
    let content = html! {
        p.lead { code { (shown(&timing(&schedule.timing))) } " → " (queue(&schedule.job.queue)) " · " (shown(&schedule.job.kind)) }
        @if schedule.paused == Some(true) {
            p.notice.warn {
                (visit.say(Text::ScheduleIsPaused)) " "
                @if let Some(until) = schedule.paused_until { (visit.say(Text::Until)) " " (instant(visit, until)) }
            }
        }
        div.actions { (actions(visit, &status)) }
        h2 { (visit.say(Text::LastRun)) }
        @if let Some(last) = &status.last {
            p {
                (instant(visit, last.at)) " – " (last.outcome.word())
                @if let Some(id) = last.job { " " (job(id)) }
                @if let Some(became) = became { " " (state(visit, became)) }
            }
        } @else { p.empty { (visit.say(Text::NeverRan)) } }
        h2 { (visit.say(Text::NextRuns)) }
        @if runs.is_empty() { p.empty { (visit.say(Text::NoNextRun)) } } @else {
            ol.plan {
                @for run in &runs {
                    li {
                        (instant(visit, run.at)) br; small { (shown(&run.local)) }
                        @if let Some(change) = run.clock_change {
                            " " span.badge.warn { (visit.say(if change == ClockChange::Gap { Text::ClockGap } else { Text::ClockFold })) }
                        }
                    }
                }
            }
        }
        h2 { (visit.say(Text::Settings)) }
        pre { (text(&status)) }
    };
    Ok((name.to_owned(), content))
}

fn text(status: &ScheduleStatus) -> String {
    json(&serde_json::to_string_pretty(&status.schedule).expect("a schedule has only string keys"))
}

fn actions(visit: &Visit, status: &ScheduleStatus) -> Markup {
    let name = &*status.name;
    let (to, version) = (page_path("/schedules", name), status.version.to_string());
    let hidden = [("version", version.as_str())];
    let path = |verb: &str| format!("{}/{verb}", api(name));
    let at = |call: Call| Some(call.at(Some(status.version)));
    let origin = session::random().unwrap_or_default();
    allowed(visit, Scope::Admin, &status.schedule.job.queue, || {
        html! {
            (Action { call: Some(Call::post(path("run"))), command: vec!["schedules", "run", name], ..Action::new("run", Text::RunNow) }.show(visit, &to, &[("version", &version), ("origin", &origin)]))
            @if status.schedule.paused == Some(true) {
                (Action { call: at(Call::post(path("resume"))), command: vec!["schedules", "resume", name], ..Action::new("resume", Text::Resume) }.show(visit, &to, &hidden))
            } @else {
                (Action {
                    fields: field(visit, "for", Text::ForSpan, visit.typed("pause", "for", ""), "2h"),
                    call: at(Call::post(path("pause")).with(&json!({"for": "2h"}))),
                    command: vec!["schedules", "pause", name, "--for", "2h"],
                    ..Action::new("pause", Text::Pause)
                }.show(visit, &to, &hidden))
            }
            (Action {
                fields: html! { label { span { (visit.say(Text::Schedule)) } textarea name="schedule" rows="12" spellcheck="false" required { (visit.typed("set", "schedule", &text(status))) } } },
                ..Action::new("set", Text::Edit)
            }.show(visit, &to, &hidden))
            (Action {
                warning: Some(Text::DeleteScheduleWarning),
                call: Some(Call::new(Method::DELETE, api(name)).at(Some(status.version))),
                command: vec!["schedules", "delete", name],
                ..Action::new("delete", Text::Delete)
            }.show(visit, &to, &hidden))
        }
    })
}

pub(in crate::dashboard) async fn act(visit: Visit, Named(name): Named, form: Form) -> Response {
    let made = made(&visit, &name, &form).await;
    visit.answer_action(made, form, |visit| page(visit, Named(name))).await
}

async fn made(visit: &Visit, name: &str, form: &Form) -> Result<Response, Problem> {
    let version = form.get("version").and_then(|version| version.parse().ok());
    let Some(version) = version else { return Err(invalid("version", "that of the schedule, in digits")) };
    let path = |verb: &str| format!("{}/{verb}", api(name));
    match form.get("do").unwrap_or_default() {
        "set" => set(visit, name, form, Some(version)).await,
        "run" => {
            let origin = form.get("origin").unwrap_or_default();
            let answer = visit.api.call(Call::post(path("run")).named(origin)).await?;
            let pushed: Pushed = answer.read();
            Ok(went(&format!("/jobs/{}", pushed.id), &[(answer.outcome().unwrap_or_default(), 1)]))
        }
        "pause" => {
            let body = form.get("for").map_or(json!({}), |span| json!({"for": span}));
            visit.api.call(Call::post(path("pause")).at(Some(version)).with(&body)).await?;
            Ok(went(&visit.here, &[("paused".to_owned(), 1)]))
        }
        "resume" => {
            visit.api.call(Call::post(path("resume")).at(Some(version))).await?;
            Ok(went(&visit.here, &[("resumed".to_owned(), 1)]))
        }
        "delete" => {
            visit.api.call(Call::new(Method::DELETE, api(name)).at(Some(version))).await?;
            Ok(went("/schedules", &[("deleted".to_owned(), 1)]))
        }
        other => Err(unknown(other)),
    }
}

/// Sets a schedule to what a form holds: a new one, or over this version.
pub(super) async fn set(visit: &Visit, name: &str, form: &Form, version: Option<u64>) -> Result<Response, Problem> {
    let text = form.get("schedule").unwrap_or_default();
    value("schedule", text)?;
    let call = Call::new(Method::PUT, api(name)).with_text(text.to_owned());
    let call = if version.is_some() { call.at(version) } else { call.if_new() };
    visit.api.call(call).await?;
    Ok(went(&page_path("/schedules", name), &[("saved".to_owned(), 1)]))
}
