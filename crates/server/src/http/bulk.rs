//! `POST /v1/jobs/{cancel,retry,delete}`: the same for all that a selection finds.

use super::access;
use super::app::App;
use super::body::One;
use super::problem::Problem;
use super::reply;
use crate::access::{Caller, Scope};
use axum::extract::State;
use axum::response::Response;
use duetime::wire::{Counts, Selection};
use duetime_core::engine::{BulkAction, Query};

/// Cancel all jobs that a selection finds.
///
/// It names at least one thing. Where it names no state, what has not ended is meant.
#[utoipa::path(
    post, path = "/v1/jobs/cancel", operation_id = "cancel_jobs", tag = "jobs",
    request_body = Selection,
    responses(
        (status = 200, description = "How many came to which outcome.", body = Counts<'_>),
    ),
)]
pub(super) async fn cancel(State(app): State<App>, caller: Caller, body: One) -> Result<Response, Problem> {
    bulk(&app, &caller, &body, BulkAction::Cancel).await
}

/// Retry all jobs that a selection finds.
///
/// It names at least one thing. Where it names no state, failed jobs are meant.
#[utoipa::path(
    post, path = "/v1/jobs/retry", operation_id = "retry_jobs", tag = "jobs",
    request_body = Selection,
    responses(
        (status = 200, description = "How many came to which outcome.", body = Counts<'_>),
    ),
)]
pub(super) async fn retry(State(app): State<App>, caller: Caller, body: One) -> Result<Response, Problem> {
    bulk(&app, &caller, &body, BulkAction::Retry).await
}

/// Delete all jobs that a selection finds.
///
/// It names at least one thing. What runs is not deleted.
#[utoipa::path(
    post, path = "/v1/jobs/delete", operation_id = "delete_jobs", tag = "jobs",
    request_body = Selection,
    responses(
        (status = 200, description = "How many came to which outcome.", body = Counts<'_>),
    ),
)]
pub(super) async fn delete(State(app): State<App>, caller: Caller, body: One) -> Result<Response, Problem> {
    bulk(&app, &caller, &body, BulkAction::Delete).await
}

async fn bulk(app: &App, caller: &Caller, body: &One, action: BulkAction) -> Result<Response, Problem> {
    let query = Query::from(body.object::<Selection>()?);
    access::check_query(caller, Scope::Change, &query)?;
    let counts = app.engine.bulk(&query, action).await?;
    Ok(reply::ok(&Counts::from(counts)))
}
