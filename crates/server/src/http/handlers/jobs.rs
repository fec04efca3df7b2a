//! One job: read, change, remove, cancel, retry, run.

use crate::access::{Caller, Scope};
use crate::http::app::App;
use crate::http::body::{Batch, Empty, Unread};
use crate::http::call::{Changing, QueryCall};
use crate::http::limits::JOB_ANSWER_BYTES;
use crate::http::middleware::access;
use crate::http::middleware::sending::Room;
use crate::http::problem::Problem;
use crate::http::redaction;
use crate::http::reply::{self, Answered};
use crate::http::segment::Segment;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use duetime_core::api::{Cancelled, JobBody, Nothing, Parameters, Patch, Span};
use duetime_core::{Error, JobId, engine};

/// Show a job.
///
/// A finished job can be shown for as long as its record is kept. With `wait`, the answer comes once the job has ended: it has
/// succeeded, failed, expired or been cancelled. After the wait, the job is shown as it is.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", operation_id = "get_job", tag = "jobs",
    params(("wait" = Option<String>, Query, description = "The time to wait for the end of the job, at most 60 s; by default \
     the request does not wait.")),
    responses((status = 200, description = "The job.", body = JobBody<'_>)),
    extensions(("x-codes" = json!(["not_found", "too_many_bodies"]))),
)]
pub(crate) async fn get(
    QueryCall(app, caller, query): QueryCall,
    Segment(id): Segment<JobId>,
    headers: HeaderMap,
) -> Answered {
    let wait = Parameters::read(&query, &["wait"])?.wait.unwrap_or_default();
    access::check_job(&app, &caller, Scope::Read, id).await?;
    if wait > Span(0) {
        until_ended(&app, &caller, id, wait).await?;
    }
    let room = Room::new(&app, JOB_ANSWER_BYTES).await?;
    let mut job = app.engine.job(id).await?;
    redaction::job(&caller, &mut job);
    room.hold(reply::unless_known(reply::job(&app, &job), job.version, &headers)).await
}

/// Waits until a job has ended, for as long as the caller may read it and the server does not stop.
async fn until_ended(app: &App, caller: &Caller, id: JobId, wait: Span) -> Result<(), Problem> {
    let queue = app.engine.job(id).await?.queue;
    let check = || access::check(caller, Scope::Read, &queue);
    tokio::select! {
        biased;
        // Boxed, since this future waits for long: the futures around it hold it twice and stay small.
        ended = Box::pin(app.engine.ended(id, wait)) => drop(ended?),
        () = app.stopping.cancelled() => {}
        problem = caller.until_lost(check) => return Err(problem),
    }
    check()
}

/// Change a waiting job.
///
/// Fields that are left out stay unchanged. A new payload needs the right `push` for the job's queue too. If the token lacks
/// the right `read`, the answer leaves out payload, result, key, tags, target and messages.
#[utoipa::path(
    patch, path = "/v1/jobs/{id}", operation_id = "change_job", tag = "jobs",
    request_body = Option<Patch<'_>>,
    responses((status = 200, description = "The job after the change.", body = JobBody<'_>)),
    extensions(("x-codes" = json!(["not_found", "version_mismatch", "job_running", "already_finished"]))),
)]
pub(crate) async fn patch(Changing(app, caller, job, body): Changing<Batch>) -> Answered {
    let patch = engine::Patch::try_from(body.object::<Patch<'_>>()?)?;
    let _parsed = body.parsed();
    let room = Room::new(&app, JOB_ANSWER_BYTES).await?;
    if patch.payload.is_some() {
        access::check_payload(&app, &caller, job.id).await?;
    }
    let job = app.engine.update(job, patch).await.map_err(conditional)?;
    Ok(room.hold_done(redaction::changed(&app, &caller, job)))
}

/// Delete a job and its record.
///
/// A running job cannot be deleted.
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", operation_id = "delete_job", tag = "jobs",
    responses((status = 204, description = "Deleted.")),
    extensions(("x-codes" = json!(["not_found", "version_mismatch", "job_running"]))),
)]
pub(crate) async fn delete(Changing(app, _, job, Unread): Changing<Unread>) -> Answered {
    reply::only(app.engine.delete(vec![job]).await).map_err(conditional)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Cancel a job.
///
/// A waiting job is cancelled at once. For a running job, its worker is asked to stop when it next extends the lease.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs",
    request_body = Option<Nothing>,
    responses((status = 200, description = "The result.", body = Cancelled)),
    extensions(("x-codes" = json!(["not_found", "version_mismatch"]))),
)]
pub(crate) async fn cancel(Changing(app, _, job, Empty): Changing<Empty>) -> Answered {
    let outcome = reply::only(app.engine.cancel(vec![job]).await).map_err(conditional)?;
    Ok(reply::ok(&Cancelled { outcome }))
}

/// Retry a finished job.
///
/// It is due now, at attempt 0. If the token lacks the right `read`, the answer leaves out payload, result, key, tags,
/// target and messages.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/retry", operation_id = "retry_job", tag = "jobs",
    request_body = Option<Nothing>,
    responses((status = 200, description = "The job after the change.", body = JobBody<'_>)),
    extensions(("x-codes" = json!(["not_found", "version_mismatch", "job_live", "key_conflict"]))),
)]
pub(crate) async fn retry(Changing(app, caller, job, Empty): Changing<Empty>) -> Answered {
    let room = Room::new(&app, JOB_ANSWER_BYTES).await?;
    let job = reply::only(app.engine.retry(vec![job]).await).map_err(|error| redaction::refused(&caller, error))?;
    Ok(room.hold_done(redaction::changed(&app, &caller, job)))
}

/// Run a waiting job now.
///
/// If the token lacks the right `read`, the answer leaves out payload, result, key, tags, target and messages.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/run", operation_id = "run_job", tag = "jobs",
    request_body = Option<Nothing>,
    responses((status = 200, description = "The job after the change.", body = JobBody<'_>)),
    extensions(("x-codes" = json!(["not_found", "version_mismatch", "job_running", "already_finished"]))),
)]
pub(crate) async fn run(Changing(app, caller, job, Empty): Changing<Empty>) -> Answered {
    let room = Room::new(&app, JOB_ANSWER_BYTES).await?;
    let job = app.engine.run(job).await.map_err(conditional)?;
    Ok(room.hold_done(redaction::changed(&app, &caller, job)))
}

/// Only `If-Match` asks for a version here.
fn conditional(error: Error) -> Problem {
    Problem::from(error).of_precondition()
}
