//! Recurring jobs.

use super::runs::local;
use super::schedule::{self, timing};
use super::schedule_form;
use crate::access::Scope;
use crate::dashboard::action::Action;
use crate::dashboard::api::Problem;
use crate::dashboard::fields::invalid;
use crate::dashboard::form::Form;
use crate::dashboard::html::{empty, instant, next_page, queue, table};
use crate::dashboard::paths::{page_path, with_query};
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::shown;
use crate::dashboard::visit::Visit;
use axum::response::Response;
use duetime_core::Timing;
use duetime_core::api::Schedules;
use maud::{Markup, html};

/// An example for the form of a new schedule.
const EXAMPLE: &str = r#"{
  "cron": "0 3 * * *",
  "time_zone": "Europe/Berlin",
  "job": {"queue": "reports", "kind": "nightly", "payload": {}}
}"#;

pub(in crate::dashboard) async fn page(visit: Visit) -> Response {
    let rendered = render(&visit).await;
    visit.answer(rendered)
}

async fn render(visit: &Visit) -> Result<(String, Markup), Problem> {
    let answer = visit.get(with_query("/v1/schedules", visit.asked_all(&["cursor"]))).await?;
    let Schedules { schedules, next_cursor } = answer.read();
    let heads = [Text::Name, Text::Timing, Text::Queue, Text::Kind, Text::NextRun, Text::LastRun];
    let rows = html! {
        @for status in &schedules {
            tr {
                th scope="row" {
                    a href=(page_path("/schedules", &status.name)) { (shown(&status.name)) }
                    @if status.schedule.paused == Some(true) { " " span.badge.warn { (visit.say(Text::Paused)) } }
                }
                td { code { (shown(&timing(&status.schedule.timing))) } }
                td.extra { (queue(&status.schedule.job.queue)) }
                td.extra { (shown(&status.schedule.job.kind)) }
                td { @if let Some(&next) = status.next.first() {
                    (instant(visit, next.0))
                    // As a clock in the schedule's zone shows it.
                    @if matches!(status.schedule.timing, Timing::Cron { .. }) {
                        @for run in status.runs(1).unwrap_or_default() { br.extra; small.extra { (shown(&local(&run.local))) } }
                    }
                } @else { "–" } }
                td.extra { @if let Some(last) = &status.last { (instant(visit, last.at.0)) } @else { "–" } }
            }
        }
    };
    let content = html! {
        @if visit.api.caller.has(Scope::Admin) {
            div.actions {
                (Action { fields: schedule_form::fields(visit, None), others: schedule_form::preview_button(visit), button: Some(Text::Save), ..Action::new(schedule_form::ACTION, Text::NewSchedule) }.show(visit, "/schedules", &[]))
                (Action {
                    fields: html! {
                        label { span { (visit.say(Text::Name)) } input name="name" value=(visit.typed("set", "name", "")) required autocomplete="off"; }
                        label { span { (visit.say(Text::Schedule)) } textarea name="schedule" rows="8" spellcheck="false" required { (visit.typed("set", "schedule", EXAMPLE)) } }
                    },
                    button: Some(Text::Save), ..Action::new("set", Text::NewScheduleAsJson)
                }.show(visit, "/schedules", &[]))
            }
        }
        @if schedules.is_empty() { (empty(visit, Text::NoSchedules)) } @else { (table(visit, &heads, &rows)) }
        (next_page(visit, next_cursor.as_deref()))
    };
    Ok((visit.say(Text::Schedules).to_owned(), content))
}

pub(in crate::dashboard) async fn act(mut visit: Visit, form: Form) -> Response {
    if form.get("preview").is_some() {
        let preview = schedule_form::preview(&visit, form.get("name"), &form, None).await;
        visit.keep(preview, form);
        return page(visit).await;
    }
    let made = match (form.get("do"), form.get("name")) {
        (Some(schedule_form::ACTION), Some(name)) => match schedule_form::described(&form, None, None) {
            Ok(text) => schedule::save(&visit, name, text, None).await,
            Err(problem) => Err(problem),
        },
        (Some("set"), Some(name)) => schedule::set(&visit, name, &form, None).await,
        (Some("set" | schedule_form::ACTION), None) => Err(invalid("name", "1 to 255 bytes, got nothing")),
        (other, _) => Err(invalid("do", &format!("an action of this page, got {other:?}"))),
    };
    visit.answer_action(made, form, page).await
}
