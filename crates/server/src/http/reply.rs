//! Answers in JSON.

use super::app::App;
use super::chinese::{self, Wording};
use super::etag;
use super::json::with_type;
use super::problem::Problem;
use crate::dashboard::Language;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, ETAG, HeaderValue};
use axum::http::{HeaderMap, Response as HttpResponse, StatusCode};
use axum::response::Response;
use duetime_core::api::JobBody;
use duetime_core::schedule::ScheduleStatus;
use duetime_core::{Error, Job};
use serde::Serialize;

/// The result of a request.
pub(super) type Answered = Result<Response, Problem>;

/// 200 with this body.
pub(super) fn ok(body: &impl Serialize) -> Response {
    with_status(StatusCode::OK, body)
}

/// 200 with this body, whose words are in this language.
pub(super) fn told(language: Language, mut body: impl Wording + Serialize) -> Response {
    match language {
        Language::English => ok(&body),
        Language::Chinese => {
            body.tell();
            let mut response = ok(&body);
            chinese::mark(&mut response);
            response
        }
    }
}

/// This status with this body.
pub(super) fn with_status(status: StatusCode, body: &impl Serialize) -> Response {
    with_type(status, "application/json", body)
}

/// 200 with a body that is JSON already.
pub(super) fn json(body: Bytes) -> Response {
    let mut response = HttpResponse::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A job with its version as `ETag`.
pub(super) fn job(app: &App, job: &Job) -> Response {
    versioned(ok(&JobBody::new(job, app.engine.now())), job.version)
}

/// The same, or 304 without a body if the caller already has this version.
pub(super) fn unless_known(response: Response, version: u64, headers: &HeaderMap) -> Response {
    if !etag::is_known(version, headers) {
        return versioned(response, version);
    }
    let mut response = HttpResponse::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    versioned(response, version)
}

/// A schedule with its version as `ETag`.
pub(super) fn schedule(status: &ScheduleStatus) -> Response {
    versioned(ok(status), status.version)
}

/// An answer with this version as `ETag`.
pub(super) fn versioned(mut response: Response, version: u64) -> Response {
    let etag = HeaderValue::try_from(format!("\"{version}\"")).expect("digits are allowed in a header");
    response.headers_mut().insert(ETAG, etag);
    response
}

/// The answer to a batch of one.
pub(super) fn only<T>(answers: Vec<Result<T, Error>>) -> Result<T, Error> {
    let mut answers = answers.into_iter();
    let answer = answers.next().expect("an answer to each");
    assert!(answers.next().is_none(), "one answer to each");
    answer
}
