//! `GET /v1/jobs`: find, and peek.

use super::access;
use super::app::App;
use super::problem::Problem;
use super::reply;
use crate::access::{Caller, Scope};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use duetime::wire::{Find, Page};
use duetime_core::limits::PAGE_JOBS_DEFAULT;

pub(super) async fn find(
    State(app): State<App>,
    caller: Caller,
    RawQuery(text): RawQuery,
) -> Result<Response, Problem> {
    let find: Find = text.unwrap_or_default().parse()?;
    access::check_query(&caller, Scope::Read, &find.query)?;
    let limit = find.limit.unwrap_or(PAGE_JOBS_DEFAULT);
    let listed = app.engine.find(&find.query, find.cursor.as_deref(), limit).await?;
    Ok(reply::ok(&Page::new(&listed, app.engine.now())))
}
