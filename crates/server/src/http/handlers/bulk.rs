//! `POST /v1/jobs/{cancel,retry,delete}`: the same for all that a selection finds.

use crate::access::{Caller, Scope};
use crate::http::app::{App, Call};
use crate::http::body::One;
use crate::http::middleware::access;
use crate::http::middleware::audit::Jobs;
use crate::http::problem::Problem;
use crate::http::reply::{self, Answered};
use axum::response::{IntoResponse, Response};
use duetime_core::api::Counts;
use duetime_core::engine::{BulkAction, Query};

/// Cancel all jobs that a selection finds.
///
/// It names at least one thing. Where it names no state, what has not ended is meant.
#[utoipa::path(
    post, path = "/v1/jobs/cancel", operation_id = "cancel_jobs", tag = "jobs",
    request_body = Query,
    responses(
        (status = 200, description = "How many came to which outcome.", body = Counts),
    ),
)]
pub(crate) async fn cancel(Call(app, caller): Call, body: One) -> Answered {
    bulk(&app, &caller, &body, BulkAction::Cancel).await
}

/// Retry all jobs that a selection finds.
///
/// It names at least one thing. Where it names no state, failed jobs are meant.
#[utoipa::path(
    post, path = "/v1/jobs/retry", operation_id = "retry_jobs", tag = "jobs",
    request_body = Query,
    responses(
        (status = 200, description = "How many came to which outcome.", body = Counts),
    ),
)]
pub(crate) async fn retry(Call(app, caller): Call, body: One) -> Answered {
    bulk(&app, &caller, &body, BulkAction::Retry).await
}

/// Delete all jobs that a selection finds.
///
/// It names at least one thing. What runs is not deleted.
#[utoipa::path(
    post, path = "/v1/jobs/delete", operation_id = "delete_jobs", tag = "jobs",
    request_body = Query,
    responses(
        (status = 200, description = "How many came to which outcome.", body = Counts),
    ),
)]
pub(crate) async fn delete(Call(app, caller): Call, body: One) -> Answered {
    bulk(&app, &caller, &body, BulkAction::Delete).await
}

async fn bulk(app: &App, caller: &Caller, body: &One, action: BulkAction) -> Answered {
    let query = body.object::<Query>()?;
    access::check_queue(caller, Scope::Change, query.queue.as_deref())?;
    Ok(match app.engine.bulk(&query, action).await.map(Counts) {
        Ok(counts) => {
            let response = reply::ok(&counts);
            audited(response, query, Some(counts))
        }
        Err(error) => audited(Problem::from(error).into_response(), query, None),
    })
}

/// The answer with what is to stand in the audit log beside it.
fn audited(mut response: Response, selection: Query, counts: Option<Counts>) -> Response {
    response.extensions_mut().insert(Jobs { selection, counts });
    response
}
