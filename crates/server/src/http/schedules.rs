//! Schedules: list, show, set, delete.

use super::app::App;
use super::body::One;
use super::problem::Problem;
use super::reply;
use super::segment::{Schedule, Segment};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use duetime::wire::{ScheduleBody, ScheduleShown, Schedules, dry_run};

pub(super) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    let schedules = app.engine.schedules().await?;
    Ok(reply::ok(&Schedules { schedules: schedules.iter().map(ScheduleShown::from).collect() }))
}

pub(super) async fn get(
    State(app): State<App>,
    Segment(Schedule(name)): Segment<Schedule>,
) -> Result<Response, Problem> {
    Ok(reply::schedule(&app.engine.schedule(&name).await?))
}

pub(super) async fn put(
    State(app): State<App>,
    Segment(Schedule(name)): Segment<Schedule>,
    RawQuery(query): RawQuery,
    body: One,
) -> Result<Response, Problem> {
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

pub(super) async fn delete(
    State(app): State<App>,
    Segment(Schedule(name)): Segment<Schedule>,
) -> Result<Response, Problem> {
    app.engine.delete_schedule(&name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
