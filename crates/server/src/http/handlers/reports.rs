//! Reports: completed work, due times and failures.

use crate::access::Scope;
use crate::http::call::QueryCall;
use crate::http::middleware::access;
use crate::http::reply::{self, Answered};
use duetime_core::api::schema::QueueName;
use duetime_core::api::{DueCounts, Failures, History, HistorySpan, Parameters};
use duetime_core::engine::READING_WAIT;

/// Show throughput and lateness of the last hour or day.
///
/// Each server shows its own work since its start. If several servers share a store, add up their answers.
#[utoipa::path(
    get, path = "/v1/history", operation_id = "history", tag = "queues",
    params(
        ("queue" = Option<QueueName>, Query, description = "Only this queue; by default all queues together."),
        ("span" = Option<HistorySpan>, Query, description = "`hour` by minute, or `day` by quarter of an hour; `hour` by \
         default."),
    ),
    responses((status = 200, description = "One point for each step.", body = History)),
)]
pub(crate) async fn history(QueryCall(app, caller, query): QueryCall) -> Answered {
    let query = Parameters::read(&query, &["queue", "span"])?;
    access::check_queue(&caller, Scope::Read, query.queue.as_deref())?;
    Ok(reply::ok(&app.engine.history(query.queue.as_deref(), query.span.unwrap_or_default())?))
}

/// Show when waiting jobs come due.
///
/// Each job that has not finished is counted once, so the buckets add up to `pending`. Jobs are counted in the background.
/// If the last count is older than 10 s, and older than 20 times its duration, a request starts the next count, and waits up
/// to a second for it. If counting takes longer, the answer is the last count: see `as_of`. If there is none yet, `as_of` and
/// `buckets` are `null`: ask again.
#[utoipa::path(
    get, path = "/v1/due", operation_id = "due", tag = "queues",
    params(("queue" = Option<QueueName>, Query, description = "Only this queue; by default all queues together.")),
    responses((status = 200, description = "Jobs by due time.", body = DueCounts)),
    extensions(("x-codes" = json!(["stopping"]))),
)]
pub(crate) async fn due(QueryCall(app, caller, query): QueryCall) -> Answered {
    let Parameters { queue, .. } = Parameters::read(&query, &["queue"])?;
    access::check_queue(&caller, Scope::Read, queue.as_deref())?;
    Ok(reply::ok(&app.engine.due_counts(queue.as_deref(), READING_WAIT).await?))
}

/// Show why jobs failed.
///
/// The 1,000 most recent failures of all queues are grouped by queue, kind and message. They are read in the background, as
/// for `GET /v1/due`.
#[utoipa::path(
    get, path = "/v1/failures", operation_id = "failures", tag = "jobs",
    params(("queue" = Option<QueueName>, Query, description = "Groups of this queue; by default of all.")),
    responses((status = 200, description = "The groups, newest first.", body = Failures)),
    extensions(("x-codes" = json!(["stopping"]))),
)]
pub(crate) async fn failures(QueryCall(app, caller, query): QueryCall) -> Answered {
    let Parameters { queue, .. } = Parameters::read(&query, &["queue"])?;
    access::check_queue(&caller, Scope::Read, queue.as_deref())?;
    Ok(reply::ok(&app.engine.failures(queue.as_deref(), READING_WAIT).await?))
}
