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

pub(super) async fn cancel(State(app): State<App>, caller: Caller, body: One) -> Result<Response, Problem> {
    bulk(&app, &caller, &body, BulkAction::Cancel).await
}

pub(super) async fn retry(State(app): State<App>, caller: Caller, body: One) -> Result<Response, Problem> {
    bulk(&app, &caller, &body, BulkAction::Retry).await
}

pub(super) async fn delete(State(app): State<App>, caller: Caller, body: One) -> Result<Response, Problem> {
    bulk(&app, &caller, &body, BulkAction::Delete).await
}

async fn bulk(app: &App, caller: &Caller, body: &One, action: BulkAction) -> Result<Response, Problem> {
    let query = Query::from(body.object::<Selection>()?);
    access::check_query(caller, Scope::Change, &query)?;
    let counts = app.engine.bulk(&query, action).await?;
    Ok(reply::ok(&Counts::from(counts)))
}
