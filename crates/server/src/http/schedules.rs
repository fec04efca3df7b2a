//! Schedules: list, show, set, delete.
//!
//! The `ETag` says whether what was set has changed. Nothing is conditional on it: a header that asks for that is refused,
//! not passed over.

use super::access;
use super::app::App;
use super::body::One;
use super::problem::Problem;
use super::reply;
use super::segment::{Schedule, Segment};
use crate::access::{Caller, Scope};
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
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    let mut schedules = app.engine.schedules().await?;
    schedules.retain(|status| caller.may(Scope::Read, &status.schedule.job.queue));
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
    caller: Caller,
) -> Result<Response, Problem> {
    let status = app.engine.schedule(&name).await?;
    access::check(&caller, Scope::Read, &status.schedule.job.queue)?;
    Ok(reply::schedule(&status))
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
    caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: One,
) -> Result<Response, Problem> {
    check_unconditional(&headers)?;
    let is_dry = dry_run(&query.unwrap_or_default())?;
    let schedule = body.object::<ScheduleBody<'_>>()?.into_schedule()?;
    drop(body);
    let job = &schedule.job;
    access::check(&caller, Scope::Admin, &job.queue)?;
    access::check_ends_of(&caller, Scope::Admin, job)?;
    check_present(&app, &caller, &name).await?;
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
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_unconditional(&headers)?;
    check_present(&app, &caller, &name).await?;
    app.engine.delete_schedule(&name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Whether the schedule that has this name now, if any, may be changed: its jobs may go to another queue than those of the
/// one that takes its place.
async fn check_present(app: &App, caller: &Caller, name: &str) -> Result<(), Problem> {
    if caller.may_all(Scope::Admin) {
        return Ok(());
    }
    match app.engine.schedule(name).await {
        Ok(status) => access::check(caller, Scope::Admin, &status.schedule.job.queue),
        Err(Error::NoSchedule(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn check_unconditional(headers: &HeaderMap) -> Result<(), Error> {
    match headers.get(IF_MATCH) {
        None => Ok(()),
        Some(_) => Err(Error::invalid("If-Match", "left out: schedules are set and deleted as they are", "one")),
    }
}
