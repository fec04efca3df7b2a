//! The form of a queue's settings: a field for each, with the words of the command line. An empty field is the default.

use crate::dashboard::api::Problem;
use crate::dashboard::fields::invalid;
use crate::dashboard::form::Form;
use crate::dashboard::html::field;
use crate::dashboard::text::Text;
use crate::dashboard::untrusted::shown;
use crate::dashboard::visit::Visit;
use crate::queue_settings::values;
use crate::rate::parse_rate;
use crate::retry_rule::{parse_backoff, parse_exhausted};
use duetime_core::Target;
use duetime_core::engine::QueueSettings;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

/// The name of the action.
pub(super) const ACTION: &str = "edit";
/// The names of the fields, their labels, and what is possible or usual.
const FIELDS: [(&str, Text, &str); 14] = [
    ("max_running", Text::SetMaxRunning, "20"),
    ("rate", Text::SetRate, "100/s, 100/s,burst=20"),
    ("max_waiting", Text::SetMaxWaiting, "10000"),
    ("when_full", Text::SetWhenFull, "refuse, drop"),
    ("retry", Text::SetRetry, "15s, 15s, 30s, 3m, …"),
    ("max_attempts", Text::SetMaxAttempts, "5"),
    ("when_exhausted", Text::SetWhenExhausted, "keep, drop, restart, move:QUEUE"),
    ("jitter", Text::SetJitter, "0.1"),
    ("max_age", Text::SetMaxAge, "2d"),
    ("max_crashes", Text::SetMaxCrashes, "3"),
    ("lease", Text::SetLease, "60s"),
    ("succeeded", Text::SetKeepSucceeded, "24h"),
    ("failed", Text::SetKeepFailed, "30d"),
    ("target", Text::SetTarget, "https://shop.example/hook"),
];

/// The fields of the form.
pub(super) fn fields(visit: &Visit, settings: &QueueSettings) -> Markup {
    html! {
        p.empty { (visit.say(Text::SetHint)) }
        div.grid {
            @for (name, label, hint) in FIELDS { (field(visit, name, label, visit.typed(ACTION, name, &text(settings, name)), hint)) }
        }
    }
}

/// The settings that differ from the defaults.
pub(super) fn list(visit: &Visit, settings: &QueueSettings) -> Markup {
    let set = FIELDS.map(|(name, label, _)| (label, text(settings, name)));
    let set: Vec<_> = set.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    html! {
        @if set.is_empty() { p.empty { (visit.say(Text::SettingsDefault)) } } @else {
            dl.facts { @for (label, text) in set { div { dt { (visit.say(label)) } dd { (shown(&text)) } } } }
        }
    }
}

/// The text of a setting; empty if it has its default.
fn text(settings: &QueueSettings, name: &str) -> String {
    let text = values(settings).into_iter().find_map(|(of, value)| value.filter(|_| of == name)).unwrap_or_default();
    match (name, &settings.target) {
        ("retry", _) => text.trim_start_matches("steps:").replace(',', ", "),
        ("target", Some(Target::Url(endpoint))) => endpoint.url.to_string(),
        _ => text,
    }
}

/// The changes that the form asks for, as JSON of the API. A field that was not edited changes nothing.
pub(super) fn changes(form: &Form, settings: &QueueSettings) -> Result<String, Problem> {
    let mut changes = Map::new();
    let edited = |name: &str| {
        let typed = form.all(name).next()?.trim();
        (typed != text(settings, name)).then_some(typed)
    };
    for (name, ..) in FIELDS {
        if let Some(text) = edited(name) {
            let value = if text.is_empty() { Value::Null } else { value(name, text, settings)? };
            changes.insert(name.to_owned(), value);
        }
    }
    // The two times are one setting.
    let times = ["succeeded", "failed"].map(|name| (name, changes.remove(name)));
    if times.iter().any(|(_, time)| time.is_some()) {
        let kept = serde_json::to_value(settings.retention).expect("times are JSON");
        let time = |(name, new): &(&str, Option<Value>)| new.clone().unwrap_or_else(|| kept[*name].clone());
        let [succeeded, failed] = &times;
        let retention = json!({"succeeded": time(succeeded), "failed": time(failed)});
        changes.insert("retention".to_owned(), retention);
    }
    Ok(Value::Object(changes).to_string())
}

/// The value of a setting, as typed. The API checks the rest.
fn value(name: &str, text: &str, settings: &QueueSettings) -> Result<Value, Problem> {
    let refused = |why: String| invalid(name, &format!("{}, got {text:?}", why.trim_start_matches("expected ")));
    let of = |value: Result<Value, serde_json::Error>| value.expect("settings are JSON");
    Ok(match name {
        "max_running" | "max_waiting" | "max_attempts" | "max_crashes" | "jitter" => {
            let number = serde_json::from_str::<Value>(text).ok().filter(Value::is_number);
            number.unwrap_or_else(|| Value::from(text))
        }
        "rate" => of(serde_json::to_value(parse_rate(text).map_err(refused)?)),
        "retry" => of(serde_json::to_value(parse_backoff(text).map_err(refused)?)),
        "when_exhausted" => of(serde_json::to_value(parse_exhausted(text).map_err(refused)?)),
        "target" if text.starts_with('{') => {
            serde_json::from_str(text).map_err(|error| refused(format!("a URL or JSON: {error}")))?
        }
        "target" => {
            // Its headers and its time limit stay.
            let old = settings.target.as_ref().filter(|target| matches!(target, Target::Url(_)));
            let mut target = old.map_or_else(|| json!({}), |target| of(serde_json::to_value(target)));
            target["url"] = text.into();
            target
        }
        _ => Value::from(text),
    })
}
