//! `POST /v1/jobs/{cancel,retry,reschedule,delete}`: the same for all that a selection finds.

use crate::access::{Caller, Scope};
use crate::http::app::App;
use crate::http::audit_log::Jobs;
use crate::http::body::One;
use crate::http::call::{Call, QueryCall};
use crate::http::middleware::access;
use crate::http::problem::Problem;
use crate::http::reply::{self, Answered};
use axum::response::{IntoResponse, Response};
use duetime_core::Due;
use duetime_core::api::{self, Reschedule, Span};
use duetime_core::engine::{BulkAction, BulkCounts, Query};

/// Cancel all jobs that a selection finds.
///
/// The selection names at least one thing. Without a state, it selects jobs that have not finished.
#[utoipa::path(
    post, path = "/v1/jobs/cancel", operation_id = "cancel_jobs", tag = "jobs",
    request_body = Query,
    responses((status = 200, description = "The number of jobs by outcome.", body = BulkCounts)),
)]
pub(crate) async fn cancel(Call(app, caller): Call, body: One) -> Answered {
    bulk(&app, &caller, body.object()?, BulkAction::Cancel).await
}

/// Retry all jobs that a selection finds.
///
/// The selection names at least one thing. Without a state, it selects failed jobs.
#[utoipa::path(
    post, path = "/v1/jobs/retry", operation_id = "retry_jobs", tag = "jobs",
    params(("spread" = Option<Span>, Query, description = "Spreads the jobs over this span from now on, at most 24 h: each has its place \
     by its id. By default all are ready at once.")),
    request_body = Query,
    responses((status = 200, description = "The number of jobs by outcome.", body = BulkCounts)),
)]
pub(crate) async fn retry(QueryCall(app, caller, text): QueryCall, body: One) -> Answered {
    let spread = api::spread(&text)?;
    let action = spread.map_or(BulkAction::Retry, BulkAction::RetryOver);
    bulk(&app, &caller, body.object()?, action).await
}

/// Reschedule all jobs that a selection finds.
///
/// The selection names at least one thing. Without a state, it selects waiting jobs. Running and finished jobs stay as they
/// are. So do, without being counted, jobs that are due at the new time already and, with the delay `0s`, jobs that are
/// due. A delay begins with the request: a repeated request postpones the jobs again. A repeated `due_at` changes nothing.
#[utoipa::path(
    post, path = "/v1/jobs/reschedule", operation_id = "reschedule_jobs", tag = "jobs",
    request_body = Reschedule,
    responses((status = 200, description = "The number of jobs by outcome.", body = BulkCounts)),
)]
pub(crate) async fn reschedule(Call(app, caller): Call, body: One) -> Answered {
    let body = body.object::<Reschedule>()?;
    let due = body.due()?;
    let action = match body.spread {
        Some(spread) => BulkAction::RescheduleOver(due, spread),
        None => BulkAction::Reschedule(due),
    };
    bulk(&app, &caller, body.selection, action).await
}

/// Delete all jobs that a selection finds.
///
/// The selection names at least one thing. Running jobs are not deleted.
#[utoipa::path(
    post, path = "/v1/jobs/delete", operation_id = "delete_jobs", tag = "jobs",
    request_body = Query,
    responses((status = 200, description = "The number of jobs by outcome.", body = BulkCounts)),
)]
pub(crate) async fn delete(Call(app, caller): Call, body: One) -> Answered {
    bulk(&app, &caller, body.object()?, BulkAction::Delete).await
}

async fn bulk(app: &App, caller: &Caller, query: Query, action: BulkAction) -> Answered {
    let queue = query.queue.as_deref();
    let check = || access::check_queue(caller, Scope::Change, queue);
    check()?;
    // A change of many takes a while, in which the right may be lost.
    Ok(match app.engine.bulk_while(&query, action, &|| check().is_ok()).await {
        Ok(counts) => {
            let response = check().map_or_else(IntoResponse::into_response, |()| reply::ok(&counts));
            audited(response, query, action, Some(counts))
        }
        Err(error) => audited(Problem::from(error).into_response(), query, action, None),
    })
}

/// The answer, with the data for its line in the audit log.
fn audited(mut response: Response, selection: Query, action: BulkAction, counts: Option<BulkCounts>) -> Response {
    let (delay, due_at) = match action {
        BulkAction::Reschedule(due) | BulkAction::RescheduleOver(due, _) => match due {
            Due::Now => (Some(Span(0)), None),
            Due::After(delay) => (Some(delay), None),
            Due::At(at) => (None, Some(at)),
        },
        BulkAction::Cancel | BulkAction::Retry | BulkAction::RetryOver(_) | BulkAction::Delete => (None, None),
    };
    response.extensions_mut().insert(Jobs { selection, delay, due_at, counts });
    response
}
