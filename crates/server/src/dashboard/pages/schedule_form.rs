//! The form of a schedule: fields for when it runs and what it pushes. All else stays as it is, and can be set as JSON.

use super::runs::next_runs;
use crate::dashboard::api::{Call, Problem};
use crate::dashboard::fields::{invalid, members, not_json};
use crate::dashboard::form::Form;
use crate::dashboard::html::field;
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::{json, shown};
use crate::dashboard::visit::Visit;
use axum::http::Method;
use duetime_core::api::{path_segment, read};
use duetime_core::schedule::{Missed, Overlap, Schedule, ScheduleStatus};
use duetime_core::{NewJob, Timing};
use maud::{Markup, html};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;

/// The name of the action.
pub(super) const ACTION: &str = "edit";
/// Runs that a preview shows.
const PREVIEWED: usize = 5;
/// The name of a schedule that has none yet, and of its queue.
const UNNAMED: &str = "preview";

/// The fields; those of a new schedule if there is none.
pub(super) fn fields(visit: &Visit, schedule: Option<&Schedule>) -> Markup {
    let typed = |name, usual: &str| visit.typed(ACTION, name, usual).to_owned();
    let text = |name, label, usual: &str, hint| field(visit, name, label, &typed(name, usual), hint);
    let (cron, zone, every) = match schedule.map(|schedule| &schedule.timing) {
        Some(Timing::Cron { expression, time_zone }) => (expression.to_string(), time_zone.to_string(), String::new()),
        Some(Timing::Every(span)) => (String::new(), String::new(), span.to_string()),
        None => ("0 3 * * *".to_owned(), String::new(), String::new()),
    };
    let job = schedule.map(|schedule| &schedule.job);
    let spread = schedule.and_then(|schedule| schedule.spread).map_or_else(String::new, |spread| spread.to_string());
    let is_skipped = schedule.is_some_and(|schedule| schedule.missed == Missed::Skip);
    let is_alone = schedule.is_some_and(|schedule| schedule.overlap == Overlap::Skip);
    html! {
        div.grid {
            @if schedule.is_none() { label { span { (visit.say(Text::Name)) } input name="name" value=(typed("name", "")) required autocomplete="off"; } }
            (text("cron", Text::Cron, &cron, ""))
            (text("time_zone", Text::TimeZone, &zone, "UTC"))
            (text("every", Text::OrEvery, &every, "5m"))
        }
        small { (visit.say(Text::CronHint)) }
        div #preview role="status" { @if let Some(preview) = &visit.preview { (preview) } }
        div.grid {
            (text("queue", Text::Queue, job.map_or("", |job| &job.queue), "reports"))
            (text("kind", Text::Kind, job.map_or("", |job| &job.kind), "default"))
            (choice(visit, "missed", Text::MissedRuns, [("once", Text::MissedOnce), ("skip", Text::MissedSkip)], is_skipped))
            (choice(visit, "overlap", Text::OverlappingRun, [("allow", Text::OverlapAllow), ("skip", Text::OverlapSkip)], is_alone))
            (text("spread", Text::SpreadRuns, &spread, "5m"))
        }
        @if let Some(payload) = job.map_or(Some("{}".to_owned()), payload_text) {
            label { span { (visit.say(Text::Payload)) } textarea name="payload" rows="3" spellcheck="false" { (typed("payload", &payload)) } }
        }
    }
}

/// The button that shows what the form would do.
pub(super) fn preview_button(visit: &Visit) -> Markup {
    html! { button.plain type="submit" name="preview" value="yes" formnovalidate { (visit.say(Text::Preview)) } }
}

/// A choice of two words, of which the second may be the present one.
fn choice(visit: &Visit, name: &str, label: Text, words: [(&str, Text); 2], is_second: bool) -> Markup {
    let usual = words[usize::from(is_second)].0;
    let chosen = visit.typed(ACTION, name, usual);
    html! {
        label {
            span { (visit.say(label)) }
            select name=(name) { @for (word, text) in words { option value=(word) selected[word == chosen] { (visit.say(text)) } } }
        }
    }
}

/// The payload as its field shows it; `None` if it is binary.
fn payload_text(job: &NewJob) -> Option<String> {
    std::str::from_utf8(&job.payload).ok().map(json)
}

/// The schedule that the form describes, as JSON of the API. What has no field is taken from the old one.
pub(super) fn described(form: &Form, old: Option<&Schedule>, queue_usual: Option<&str>) -> Result<String, Problem> {
    let mut schedule = match old {
        Some(old) => members("schedule", &serde_json::to_string(old).expect("a schedule is JSON"))?,
        None => BTreeMap::new(),
    };
    let mut job = match schedule.get("job") {
        Some(job) => members("job", job.get())?,
        None => BTreeMap::new(),
    };
    let raw = |text: &str| to_raw_value(text).expect("text is JSON");
    let put = |members: &mut BTreeMap<String, Box<RawValue>>, name: &str, text: Option<&str>| match text {
        Some(text) => drop(members.insert(name.to_owned(), raw(text))),
        None => drop(members.remove(name)),
    };
    for name in ["cron", "time_zone", "every", "missed", "overlap", "spread"] {
        put(&mut schedule, name, form.get(name));
    }
    put(&mut job, "queue", form.get("queue").or(queue_usual));
    put(&mut job, "kind", form.get("kind"));
    // A payload that was not edited stays as it is, byte for byte.
    let before = old.and_then(|old| payload_text(&old.job));
    if let Some(text) = form.all("payload").next().filter(|text| before.as_deref().map(str::trim) != Some(text.trim()))
    {
        job.remove("payload_base64");
        let payload: Box<RawValue> = read(text).map_err(|error| invalid("payload", &not_json(&error)))?;
        job.insert("payload".to_owned(), payload);
    }
    schedule.insert("job".to_owned(), to_raw_value(&job).expect("a job is JSON"));
    Ok(serde_json::to_string(&schedule).expect("a schedule is JSON"))
}

/// The next runs of what the form describes, or why there are none.
pub(super) async fn preview(visit: &Visit, name: Option<&str>, form: &Form, old: Option<&Schedule>) -> Markup {
    let runs = async {
        let path = format!("/v1/schedules/{}?dry_run=true", path_segment(name.unwrap_or(UNNAMED)));
        let answer =
            visit.api.call(Call::new(Method::PUT, path).with_text(described(form, old, Some(UNNAMED))?)).await?;
        Ok::<ScheduleStatus, Problem>(answer.read())
    };
    let status = match runs.await {
        Ok(status) => status,
        Err(problem) => return html! { p.warning { (shown(&problem.detail)) } },
    };
    let runs = status.runs(PREVIEWED).unwrap_or_default();
    html! {
        strong { (visit.say(Text::NextRuns)) }
        @if status.schedule.timing.is_either_day() { p.notice { (visit.say(Text::EitherDay)) } }
        (next_runs(visit, &runs))
    }
}
