//! `POST /v1/queues/{queue}/jobs` and `POST /v1/jobs`: push one job, or an array. Jobs that name no trace belong to that of the
//! request, and the header `Idempotency-Key` gives an origin to those that name none.

use crate::access::{Caller, Scope};
use crate::dashboard::Language;
use crate::http::app::App;
use crate::http::batch;
use crate::http::body::Batch;
use crate::http::call::Call;
use crate::http::middleware::access;
use crate::http::middleware::sending::Room;
use crate::http::middleware::trace;
use crate::http::problem::Problem;
use crate::http::reply::{self, Answered};
use crate::http::segment::{Name, Segment};
use axum::http::header::{HeaderValue, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use duetime_core::api::schema::{Key, PushAnswers, Pushes, PushesAnywhere};
use duetime_core::api::{self, Answer, Push, Pushed};
use duetime_core::engine::{self, PushOutcome};
use duetime_core::limits::ORIGIN_BYTES_MAX;
use duetime_core::model::name;
use duetime_core::{Error, NewJob};
use std::sync::Arc;

/// Push jobs.
///
/// The body is one job, or an array of at most 10,000. For an array, the answer has one result per job, in order. A push is
/// acknowledged once it is recorded. With the header `Idempotency-Key`, the request can be repeated safely: while the
/// record of the first job is kept, the answer names that job, with the outcome `repeated`. The same origin with other content
/// is refused. A job without a `trace` belongs
/// to the trace of the request. A job with a `target` also needs the right `target`.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/jobs", operation_id = "push", tag = "push",
    params(("Idempotency-Key" = Option<Key>, Header, description = "Makes the request repeatable: the origin of the job, or \
     for an array the prefix of the origins.")),
    request_body = Pushes,
    responses(
        (status = 201, description = "The job was pushed.", body = api::Pushed, headers(("location" = String, description = "The path of the job."))),
        (status = 200, description = "Another job has the key and was kept or replaced; or the push is a repeat; or a \
         full queue dropped the job; or the results of an array.", body = PushAnswers, headers(("location" = String, description = "The \
         path of the job, if the body was one job."))),
    ),
    extensions(("x-codes" = json!(["key_conflict", "origin_reused", "job_running", "queue_full"]))),
)]
pub(crate) async fn push(
    Call(app, caller): Call,
    Segment(Name(queue)): Segment<Name>,
    headers: HeaderMap,
    body: Batch,
) -> Answered {
    // Checked before any answer about the jobs.
    access::check(&caller, Scope::Push, &queue)?;
    push_into(&app, &caller, Some(queue), &headers, body).await
}

/// Push jobs into several queues.
///
/// Works as a push into one queue, but each job names its queue. The caller needs the right `push` for each of them.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "push_anywhere", tag = "push",
    params(("Idempotency-Key" = Option<Key>, Header, description = "As for a push into one queue.")),
    request_body = PushesAnywhere,
    responses(
        (status = 201, description = "The job was pushed.", body = api::Pushed, headers(("location" = String, description = "The path of the job."))),
        (status = 200, description = "Another job has the key and was kept or replaced; or the push is a repeat; or a \
         full queue dropped the job; or the results of an array.", body = PushAnswers, headers(("location" = String, description = "The \
         path of the job, if the body was one job."))),
    ),
    extensions(("x-codes" = json!(["key_conflict", "origin_reused", "job_running", "queue_full"]))),
)]
pub(crate) async fn push_anywhere(Call(app, caller): Call, headers: HeaderMap, body: Batch) -> Answered {
    push_into(&app, &caller, None, &headers, body).await
}

/// Pushes into the queue of the path, or into those that the jobs name.
async fn push_into(app: &App, caller: &Caller, path: Option<Arc<str>>, headers: &HeaderMap, body: Batch) -> Answered {
    let (trace, origin) = (trace::of(headers), idempotency_key(headers)?);
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
        let mut batch = batch::read(body.text(), into_job)?;
        let _parsed = body.parsed();
        let room = Room::of_batch(app, &batch).await?;
        if let Some(origin) = &origin {
            for (place, job) in batch.placed().filter(|(_, job)| job.origin.is_none()) {
                job.origin = Some(Arc::from(format!("{origin}-{place}")));
            }
        }
        let (jobs, merge) = batch.split();
        let answers = app.engine.push(jobs).await?;
        let now = app.engine.now();
        let answer = |answer: Result<engine::Pushed, Error>| {
            Answer::from(answer.map(|pushed| Pushed::new(&pushed, now)).map_err(Problem::from))
        };
        return Ok(room.hold_done(reply::told(Language::of(headers), merge.answers(answers.into_iter().map(answer)))));
    }
    let mut job = into_job(body.object::<Push<'_>>()?)?;
    job.origin = job.origin.or(origin);
    let _parsed = body.parsed();
    let pushed = reply::only(app.engine.push(vec![job]).await?)?;
    Ok(answer(app, &pushed))
}

/// The answer to a push of one job.
pub(super) fn answer(app: &App, pushed: &engine::Pushed) -> Response {
    let status = match pushed.outcome {
        PushOutcome::Created => StatusCode::CREATED,
        PushOutcome::Kept | PushOutcome::Replaced | PushOutcome::Repeated | PushOutcome::Dropped => StatusCode::OK,
    };
    let mut response = reply::with_status(status, &Pushed::new(pushed, app.engine.now()));
    if pushed.outcome == PushOutcome::Dropped {
        return response;
    }
    let location =
        HeaderValue::try_from(format!("/v1/jobs/{}", pushed.job.id)).expect("digits are allowed in a header");
    response.headers_mut().insert(LOCATION, location);
    response
}

/// The header `Idempotency-Key`, which leaves room for places of an array behind it.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<Arc<str>>, Error> {
    const MAX: usize = ORIGIN_BYTES_MAX - "-9999".len();
    let refused =
        |got: String| Err(Error::invalid("Idempotency-Key", format!("1 to {MAX} visible ASCII characters"), got));
    let mut values = headers.get_all("idempotency-key").iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => refused("several".to_owned()),
        (Some(value), None) => match value.to_str() {
            Ok(key) if (1..=MAX).contains(&key.len()) => Ok(Some(Arc::from(key))),
            Ok(key) => refused(format!("{} characters", key.len())),
            Err(_) => refused("other characters".to_owned()),
        },
    }
}
