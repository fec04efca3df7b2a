//! The API's call for an action on a job.

use crate::dashboard::api::{Call, Problem};
use crate::dashboard::fields::{invalid, unknown};
use axum::http::Method;
use duetime_core::api::{Span, Timestamp};
use serde_json::{Value, json};

/// The call of an action on a job, and the word for its effect.
pub(super) fn call(id: &str, action: &str, due: Option<&str>) -> Result<(Call, &'static str), Problem> {
    let post = |word| (Call::post(format!("{}/{action}", to_api(id))), word);
    Ok(match action {
        "run" => post("run"),
        "retry" => post("retried"),
        "cancel" => post("cancelled"),
        "reschedule" => (Call::new(Method::PATCH, to_api(id)).with(&when(due)?), "rescheduled"),
        "delete" => (Call::new(Method::DELETE, to_api(id)), "deleted"),
        other => return Err(unknown(other)),
    })
}

/// The path of a job in the API.
pub(super) fn to_api(id: &str) -> String {
    format!("/v1/jobs/{id}")
}

/// The API's field for a new due time.
pub(super) fn when(due: Option<&str>) -> Result<Value, Problem> {
    let due = due.unwrap_or_default().trim();
    if due.parse::<Span>().is_ok() {
        return Ok(json!({ "delay": due }));
    }
    let expected = "a delay such as 30m or an instant such as 2026-11-20T10:00:00Z";
    let at: Timestamp = due.parse().map_err(|_| invalid("delay", &format!("{expected}, got {due:?}")))?;
    Ok(json!({ "due_at": at }))
}
