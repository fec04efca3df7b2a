//! One schedule: its next run, the result of the last run, and the actions on it.

use super::runs::next_runs;
use super::schedule_form;
use crate::access::Scope;
use crate::dashboard::action::{Action, actions as row};
use crate::dashboard::api::{Call, Problem};
use crate::dashboard::fields::{invalid, unknown, value};
use crate::dashboard::figures::exact;
use crate::dashboard::form::Form;
use crate::dashboard::html::{allowed, field, instant, job, queue, state};
use crate::dashboard::paths::{page_path, went};
use crate::dashboard::session;
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::{json, shown};
use crate::dashboard::visit::{Named, Visit};
use axum::http::Method;
use axum::response::Response;
use duetime_core::Timing;
use duetime_core::api::{JobBody, Pushed, Runs, path_segment};
use duetime_core::schedule::ScheduleStatus;
use maud::{Markup, html};

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
        @if schedule.timing.is_either_day() { p.notice { (visit.say(Text::EitherDay)) } }
        @if schedule.paused == Some(true) {
            p.notice.warn {
                (visit.say(Text::ScheduleIsPaused)) " "
                @if let Some(until) = schedule.paused_until { (visit.say(Text::Until)) " " (instant(visit, until.0)) }
            }
        }
        (actions(visit, &status))
        h2 { (visit.say(Text::LastRun)) }
        @if let Some(last) = &status.last {
            p {
                (instant(visit, last.at.0)) " – " (last.outcome.word())
                @if let Some(id) = last.job { " " (job(id)) }
                @if let Some(became) = became { " " (state(visit, became)) }
            }
        } @else { p.empty { (visit.say(Text::NeverRan)) } }
        // Until somebody resumes it, nobody can tell.
        @if !(runs.is_empty() && schedule.paused == Some(true)) {
            h2 { (visit.say(Text::NextRuns)) }
            (next_runs(visit, &runs))
        }
        h2 { (visit.say(Text::Settings)) }
        pre { (text(&status)) }
    };
    Ok((name.to_owned(), content))
}

/// When it runs, as it was set.
pub(super) fn timing(timing: &Timing) -> String {
    match timing {
        Timing::Cron { expression, time_zone } => format!("{expression} · {time_zone}"),
        Timing::Every(ms) => format!("every {}", exact(ms.0)),
    }
}

fn text(status: &ScheduleStatus) -> String {
    json(&serde_json::to_string_pretty(&status.schedule).expect("a schedule has only string keys"))
}

fn actions(visit: &Visit, status: &ScheduleStatus) -> Markup {
    let name = &*status.name;
    let post = |verb: &str| Call::post(format!("{}/{verb}", api(name)));
    let at = |call: Call| Some(call.at(Some(status.version)));
    let run =
        Action { call: Some(post("run")), command: vec!["schedules", "run", name], ..Action::new("run", Text::RunNow) };
    let pause = if status.schedule.paused == Some(true) {
        Action {
            call: at(post("resume")),
            command: vec!["schedules", "resume", name],
            ..Action::new("resume", Text::Resume)
        }
    } else {
        Action {
            fields: field(visit, "for", Text::ForSpan, visit.typed("pause", "for", ""), "2h"),
            call: at(post("pause").with(&serde_json::json!({"for": "2h"}))),
            command: vec!["schedules", "pause", name, "--for", "2h"],
            ..Action::new("pause", Text::Pause)
        }
    };
    let edit = Action {
        fields: schedule_form::fields(visit, Some(&status.schedule)),
        others: schedule_form::preview_button(visit),
        button: Some(Text::Save),
        ..Action::new(schedule_form::ACTION, Text::Edit)
    };
    let set = Action {
        fields: html! { label { span { (visit.say(Text::Schedule)) } textarea name="schedule" rows="12" spellcheck="false" required { (visit.typed("set", "schedule", &text(status))) } } },
        button: Some(Text::Save),
        ..Action::new("set", Text::ScheduleAsJson)
    };
    let delete = Action {
        warning: Some(Text::DeleteScheduleWarning),
        call: at(Call::new(Method::DELETE, api(name))),
        command: vec!["schedules", "delete", name],
        ..Action::new("delete", Text::Delete)
    };
    let (version, origin) = (status.version.to_string(), session::random().unwrap_or_default());
    let hidden = [("version", version.as_str()), ("origin", &origin)];
    allowed(visit, Scope::Admin, &status.schedule.job.queue, || {
        row(visit, &page_path("/schedules", name), &hidden, &[run, pause, edit, set, delete])
    })
}

pub(in crate::dashboard) async fn act(mut visit: Visit, Named(name): Named, form: Form) -> Response {
    if form.get("preview").is_some() {
        let old = visit.get(api(&name)).await.ok().map(|answer| answer.read::<ScheduleStatus>().schedule);
        let preview = schedule_form::preview(&visit, Some(&name), &form, old.as_ref()).await;
        visit.keep(preview, form);
        return page(visit, Named(name)).await;
    }
    let made = made(&visit, &name, &form).await;
    visit.answer_action(made, form, |visit| page(visit, Named(name))).await
}

async fn made(visit: &Visit, name: &str, form: &Form) -> Result<Response, Problem> {
    let version = form.get("version").and_then(|version| version.parse().ok());
    let Some(version) = version else { return Err(invalid("version", "that of the schedule, in digits")) };
    let path = |verb: &str| format!("{}/{verb}", api(name));
    match form.get("do").unwrap_or_default() {
        schedule_form::ACTION => {
            let status: ScheduleStatus = visit.get(api(name)).await?.read();
            save(visit, name, schedule_form::described(form, Some(&status.schedule), None)?, Some(version)).await
        }
        "set" => set(visit, name, form, Some(version)).await,
        "run" => {
            let origin = form.get("origin").unwrap_or_default();
            let answer = visit.api.call(Call::post(path("run")).named(origin)).await?;
            let pushed: Pushed = answer.read();
            Ok(went(&super::queue::page_of(&pushed), &[(answer.outcome().unwrap_or_default(), 1)]))
        }
        "pause" => {
            let body = form.get("for").map_or(serde_json::json!({}), |span| serde_json::json!({"for": span}));
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
    let mut text = form.get("schedule").unwrap_or_default().to_owned();
    value("schedule", &text)?;
    if version.is_some() {
        // A payload that was not edited stays as it is, byte for byte.
        let status: ScheduleStatus = visit.get(api(name)).await?.read();
        if let Ok(payload) = std::str::from_utf8(&status.schedule.job.payload) {
            let seen = json(payload);
            if seen != payload {
                text = text.replacen(&seen, payload, 1);
            }
        }
    }
    save(visit, name, text, version).await
}

/// Sets a schedule to this JSON: a new one, or over this version.
pub(super) async fn save(visit: &Visit, name: &str, text: String, version: Option<u64>) -> Result<Response, Problem> {
    let call = Call::new(Method::PUT, api(name)).with_text(text);
    let call = if version.is_some() { call.at(version) } else { call.if_new() };
    visit.api.call(call).await?;
    Ok(went(&page_path("/schedules", name), &[("saved".to_owned(), 1)]))
}
