//! Schedules: list, show, set, delete.
//!
//! The `ETag` says whether what was set has changed. Nothing is conditional on it: a header that asks for that is refused,
//! not passed over.

use super::app::App;
use super::body::One;
use super::problem::Problem;
use super::reply;
use super::segment::{Schedule, Segment};
use axum::extract::{RawQuery, State};
use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use duetime::wire::schema::{ETag, ScheduleName};
use duetime::wire::{ScheduleBody, ScheduleShown, Schedules, dry_run};
use duetime_core::Error;

/// List the schedules.
///
/// By name.
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "list_schedules", tag = "schedules",
    responses(
        (status = 200, description = "The schedules.", body = Schedules<'_>),
    ),
)]
pub(super) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    let schedules = app.engine.schedules().await?;
    Ok(reply::ok(&Schedules { schedules: schedules.iter().map(ScheduleShown::from).collect() }))
}

/// Show a schedule.
///
/// With its next ten runs, and what came of the last one.
#[utoipa::path(
    get, path = "/v1/schedules/{name}", operation_id = "get_schedule", tag = "schedules",
    params(
        ("name" = ScheduleName, Path, description = "The schedule."),
    ),
    responses(
        (status = 200, description = "The schedule.", body = ScheduleShown<'_>, headers(("etag" = ETag, description = "Its version."))),
    ),
    extensions(("x-codes" = json!(["schedule_not_found"]))),
)]
pub(super) async fn get(
    State(app): State<App>,
    Segment(Schedule(name)): Segment<Schedule>,
) -> Result<Response, Problem> {
    Ok(reply::schedule(&app.engine.schedule(&name).await?))
}

/// Set a schedule, or make it.
///
/// Where it ticks at other times than before, the next tick is the first from now on.
#[utoipa::path(
    put, path = "/v1/schedules/{name}", operation_id = "set_schedule", tag = "schedules",
    params(
        ("name" = ScheduleName, Path, description = "The schedule."),
        ("dry_run" = Option<bool>, Query, description = "With `true` nothing is changed: the answer is what it would be."),
    ),
    request_body = ScheduleBody<'_>,
    responses(
        (status = 200, description = "The schedule as it is now.", body = ScheduleShown<'_>, headers(("etag" = ETag, description = "Its version."))),
    ),
)]
pub(super) async fn put(
    State(app): State<App>,
    Segment(Schedule(name)): Segment<Schedule>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: One,
) -> Result<Response, Problem> {
    check_unconditional(&headers)?;
    let is_dry = dry_run(&query.unwrap_or_default())?;
    let schedule = body.object::<ScheduleBody<'_>>()?.into_schedule()?;
    drop(body);
    let status = if is_dry {
        app.engine.preview_schedule(&name, schedule).await?
    } else {
        app.engine.set_schedule(&name, schedule).await?
    };
    Ok(reply::schedule(&status))
}

/// Delete a schedule.
///
/// A tick that was begun may still be pushed, and what was pushed stays.
#[utoipa::path(
    delete, path = "/v1/schedules/{name}", operation_id = "delete_schedule", tag = "schedules",
    params(
        ("name" = ScheduleName, Path, description = "The schedule."),
    ),
    responses(
        (status = 204, description = "It is gone."),
    ),
    extensions(("x-codes" = json!(["schedule_not_found"]))),
)]
pub(super) async fn delete(
    State(app): State<App>,
    Segment(Schedule(name)): Segment<Schedule>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_unconditional(&headers)?;
    app.engine.delete_schedule(&name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn check_unconditional(headers: &HeaderMap) -> Result<(), Error> {
    match headers.get(IF_MATCH) {
        None => Ok(()),
        Some(_) => Err(Error::invalid("If-Match", "left out: schedules are set and deleted as they are", "one")),
    }
}
