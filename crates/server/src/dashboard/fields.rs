//! The texts of a form's fields, and what is wrong with them.

use super::api::Problem;
use duetime_core::api::{self, Unread, read};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_with::serde_as;
use std::collections::BTreeMap;

/// The members of an object, as they were typed.
#[serde_as]
#[derive(Deserialize)]
struct Members(#[serde_as(as = "serde_with::Map<_, _>")] Vec<(String, Box<RawValue>)>);

/// The members of the JSON object in a field.
pub(super) fn members(field: &str, text: &str) -> Result<BTreeMap<String, Box<RawValue>>, Problem> {
    let wrong = |why: String| invalid(field, &format!("a JSON object: {why}"));
    let Members(typed) = read(text).map_err(|error| match error {
        Unread::Malformed(why) => wrong(why),
        Unread::Invalid(_) => invalid(field, "a JSON object such as {\"a\": 1}"),
    })?;
    let mut members = BTreeMap::new();
    for (name, value) in typed {
        if members.contains_key(&name) {
            return Err(wrong(format!("`{name}` is given twice")));
        }
        members.insert(name, value);
    }
    Ok(members)
}

/// The JSON in a field.
pub(super) fn value(field: &str, text: &str) -> Result<Value, Problem> {
    read(text).map_err(|error| invalid(field, &not_json(&error)))
}

/// What is wrong with a field that should be JSON.
pub(super) fn not_json(error: &Unread) -> String {
    let why = match error {
        Unread::Malformed(why) => why.clone(),
        Unread::Invalid(error) => error.to_string(),
    };
    format!("JSON: {why}")
}

/// An action that the page does not have.
pub(super) fn unknown(action: &str) -> Problem {
    invalid("do", &format!("an action of this page, got {action:?}"))
}

pub(super) fn invalid(field: &str, expected: &str) -> Problem {
    let detail = format!("`{field}` must be {expected}");
    api::Problem::new("invalid", 400, "The request is not valid", detail).into()
}
