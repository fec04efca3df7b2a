//! `POST /v1/queues/{queue}/jobs` and `POST /v1/jobs`: push one job, or an array. Jobs that name no trace belong to that of the request.

use super::access;
use super::app::{App, Call};
use super::batch;
use super::body::Batch;
use super::problem::Problem;
use super::reply::{self, Answered};
use super::segment::{Name, Segment};
use super::trace;
use crate::access::{Caller, Scope};
use axum::http::header::{HeaderValue, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use duetime_core::api::schema::{PushAnswers, Pushes, PushesAnywhere};
use duetime_core::api::{self, Answer, Push, Pushed};
use duetime_core::engine::{self, PushOutcome};
use duetime_core::{Error, NewJob, name};
use std::sync::Arc;

/// Push jobs.
///
/// One job, or an array of at most 10,000 that are answered one by one, in order. It is acknowledged once it is
/// recorded. Jobs that name no trace belong to that of the request. A job with a target also needs the right `target`.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/jobs", operation_id = "push", tag = "jobs",
    request_body = Pushes,
    responses(
        (status = 201, description = "The job was made.", body = api::Pushed, headers(("location" = String, description = "The path of the job."))),
        (status = 200, description = "The key was held, and the job that holds it is kept or replaced; or answers to an array.", body = PushAnswers, headers(("location" = String, description = "The path of the job, where one was pushed."))),
    ),
    extensions(("x-codes" = json!(["key_conflict", "job_running"]))),
)]
pub(super) async fn push(
    Call(app, caller): Call,
    Segment(Name(queue)): Segment<Name>,
    headers: HeaderMap,
    body: Batch,
) -> Answered {
    // Before anything is said of the jobs.
    access::check(&caller, Scope::Push, &queue)?;
    push_into(&app, &caller, Some(queue), &headers, body).await
}

/// Push jobs into several queues.
///
/// As the push into one queue, but each job names its queue. Each needs the right `push` for its queue.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "push_anywhere", tag = "jobs",
    request_body = PushesAnywhere,
    responses(
        (status = 201, description = "The job was made.", body = api::Pushed, headers(("location" = String, description = "The path of the job."))),
        (status = 200, description = "The key was held, and the job that holds it is kept or replaced; or answers to an array.", body = PushAnswers, headers(("location" = String, description = "The path of the job, where one was pushed."))),
    ),
    extensions(("x-codes" = json!(["key_conflict", "job_running"]))),
)]
pub(super) async fn push_anywhere(Call(app, caller): Call, headers: HeaderMap, body: Batch) -> Answered {
    push_into(&app, &caller, None, &headers, body).await
}

/// Pushes into the queue of the path, or into those that the jobs name.
async fn push_into(app: &App, caller: &Caller, path: Option<Arc<str>>, headers: &HeaderMap, body: Batch) -> Answered {
    let trace = trace::of(headers);
    let queue = path.clone().unwrap_or_else(|| Arc::from(name::QUEUE_DEFAULT));
    let into_job = |job: Push<'_>| -> Result<NewJob, Problem> {
        let mut job = job.into_job(&queue)?;
        match &path {
            None => access::check(caller, Scope::Push, &job.queue)?,
            Some(path) if job.queue != *path => {
                let expected = format!("left out, or {path:?} as in the path");
                return Err(Error::invalid("queue", expected, format!("{:?}", job.queue)).into());
            }
            Some(_) => {}
        }
        job.options.trace = job.options.trace.or_else(|| trace.clone());
        access::check_ends_of(app, caller, Scope::Push, &job)?;
        Ok(job)
    };
    if body.text().trim_ascii_start().starts_with('[') {
        let batch = batch::read(body.text(), into_job)?;
        drop(body);
        let (jobs, merge) = batch.split();
        let answers = app.engine.push(jobs).await?;
        let now = app.engine.now();
        let answer = |answer: Result<engine::Pushed, Error>| {
            Answer::from(answer.map(|pushed| Pushed::new(&pushed, now)).map_err(Problem::from))
        };
        return Ok(reply::ok(&merge.answers(answers.into_iter().map(answer))));
    }
    let job = into_job(body.object::<Push<'_>>()?)?;
    drop(body);
    let pushed = reply::only(app.engine.push(vec![job]).await?)?;
    let status = match pushed.outcome {
        PushOutcome::Created => StatusCode::CREATED,
        PushOutcome::Kept | PushOutcome::Replaced => StatusCode::OK,
    };
    let mut response = reply::with_status(status, &Pushed::new(&pushed, app.engine.now()));
    let location =
        HeaderValue::try_from(format!("/v1/jobs/{}", pushed.job.id)).expect("digits are allowed in a header");
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}
