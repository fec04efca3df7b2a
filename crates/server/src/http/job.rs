//! One job: read, change, remove, cancel, retry, run.

use super::access;
use super::app::App;
use super::body::{Batch, One};
use super::problem::Problem;
use super::segment::Segment;
use super::{etag, reply};
use crate::access::{Caller, Scope};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use duetime::wire::{Cancelled, Nothing, Patch};
use duetime_core::{Error, JobId, engine};

pub(super) async fn get(
    State(app): State<App>,
    Segment(id): Segment<JobId>,
    caller: Caller,
) -> Result<Response, Problem> {
    access::check_jobs(&app, &caller, Scope::Read, &[id]).await?;
    Ok(reply::job(&app, &app.engine.job(id).await?))
}

pub(super) async fn patch(
    State(app): State<App>,
    Segment(id): Segment<JobId>,
    caller: Caller,
    headers: HeaderMap,
    body: Batch,
) -> Result<Response, Problem> {
    access::check_jobs(&app, &caller, Scope::Change, &[id]).await?;
    let target = etag::target(id, &headers)?;
    let patch = engine::Patch::try_from(body.object::<Patch<'_>>()?)?;
    drop(body);
    let job = app.engine.update(target, patch).await.map_err(conditional)?;
    Ok(reply::job(&app, &job))
}

pub(super) async fn delete(
    State(app): State<App>,
    Segment(id): Segment<JobId>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    access::check_jobs(&app, &caller, Scope::Change, &[id]).await?;
    let target = etag::target(id, &headers)?;
    reply::only(app.engine.delete(vec![target]).await).map_err(conditional)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn cancel(
    State(app): State<App>,
    Segment(id): Segment<JobId>,
    caller: Caller,
    headers: HeaderMap,
    body: One,
) -> Result<Response, Problem> {
    body.object::<Nothing>()?;
    access::check_jobs(&app, &caller, Scope::Change, &[id]).await?;
    let target = etag::target(id, &headers)?;
    let outcome = reply::only(app.engine.cancel(vec![target]).await).map_err(conditional)?;
    Ok(reply::ok(&Cancelled { outcome }))
}

pub(super) async fn retry(
    State(app): State<App>,
    Segment(id): Segment<JobId>,
    caller: Caller,
    headers: HeaderMap,
    body: One,
) -> Result<Response, Problem> {
    body.object::<Nothing>()?;
    access::check_jobs(&app, &caller, Scope::Change, &[id]).await?;
    let target = etag::target(id, &headers)?;
    let job = reply::only(app.engine.retry(vec![target]).await).map_err(conditional)?;
    Ok(reply::job(&app, &job))
}

pub(super) async fn run(
    State(app): State<App>,
    Segment(id): Segment<JobId>,
    caller: Caller,
    headers: HeaderMap,
    body: One,
) -> Result<Response, Problem> {
    body.object::<Nothing>()?;
    access::check_jobs(&app, &caller, Scope::Change, &[id]).await?;
    let target = etag::target(id, &headers)?;
    let job = app.engine.run(target).await.map_err(conditional)?;
    Ok(reply::job(&app, &job))
}

/// Only `If-Match` asks for a version here.
fn conditional(error: Error) -> Problem {
    Problem::from(error).of_precondition()
}
