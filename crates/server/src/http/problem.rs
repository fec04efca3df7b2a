//! Errors and their HTTP statuses: the one place that maps them. The OpenAPI document is made from the same table.

use super::chinese::{self, Wording};
use super::json;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use duetime_core::api::{self, Span, Unread};
use duetime_core::limits::SECOND_MS;
use duetime_core::{Error, Invalid, Receipt};

/// Why a request is refused, ready to be sent.
#[derive(Debug)]
pub(crate) struct Problem(Box<api::Problem>);

/// The media type of problems.
const PROBLEM_JSON: &str = "application/problem+json";
/// When to try again what could not be done just now: stores and servers come back within seconds.
const RETRY_SECONDS: u64 = 1;

/// The status and title of each code. Documented in this order.
pub(super) const CODES: [(&str, StatusCode, &str); 38] = [
    ("invalid", StatusCode::BAD_REQUEST, "The request is not valid"),
    ("malformed_json", StatusCode::BAD_REQUEST, "The body is not valid JSON"),
    ("body_unreadable", StatusCode::BAD_REQUEST, "The body cannot be read"),
    ("unauthorized", StatusCode::UNAUTHORIZED, "A valid token is needed"),
    ("forbidden", StatusCode::FORBIDDEN, "The token lacks a right"),
    ("foreign_origin", StatusCode::FORBIDDEN, "Requests from other origins are not allowed"),
    ("no_route", StatusCode::NOT_FOUND, "There is no such path"),
    ("not_found", StatusCode::NOT_FOUND, "There is no such job"),
    ("schedule_not_found", StatusCode::NOT_FOUND, "There is no such schedule"),
    ("method_not_allowed", StatusCode::METHOD_NOT_ALLOWED, "The method is not allowed"),
    ("timeout", StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time"),
    ("key_conflict", StatusCode::CONFLICT, "The key is in use"),
    ("version_mismatch", StatusCode::CONFLICT, "The version does not match"),
    ("lease_lost", StatusCode::CONFLICT, "The lease is lost"),
    ("job_running", StatusCode::CONFLICT, "The job is running"),
    ("already_finished", StatusCode::CONFLICT, "The job has finished"),
    ("not_due", StatusCode::CONFLICT, "The job is not due yet"),
    ("held_back", StatusCode::CONFLICT, "The job is held back"),
    ("job_live", StatusCode::CONFLICT, "The job has not finished"),
    ("lock_lost", StatusCode::CONFLICT, "The lock is lost"),
    ("queue_in_use", StatusCode::CONFLICT, "The queue is in use"),
    ("body_too_large", StatusCode::PAYLOAD_TOO_LARGE, "The body is too large"),
    ("media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE, "The media type is not supported"),
    ("foreign_host", StatusCode::MISDIRECTED_REQUEST, "The host is unknown"),
    ("origin_reused", StatusCode::UNPROCESSABLE_ENTITY, "The origin is in use"),
    ("lock_held", StatusCode::LOCKED, "The lock is held"),
    ("too_many_requests", StatusCode::TOO_MANY_REQUESTS, "Too many requests"),
    ("queue_full", StatusCode::TOO_MANY_REQUESTS, "The queue is full"),
    ("head_too_large", StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "The headers are too large"),
    ("internal", StatusCode::INTERNAL_SERVER_ERROR, "Internal error"),
    ("store_damaged", StatusCode::INTERNAL_SERVER_ERROR, "The store is damaged"),
    ("store_unusable", StatusCode::INTERNAL_SERVER_ERROR, "The store cannot be used"),
    ("store_unavailable", StatusCode::SERVICE_UNAVAILABLE, "The store is unavailable"),
    ("too_many_bodies", StatusCode::SERVICE_UNAVAILABLE, "Too many large bodies at once"),
    ("too_many_streams", StatusCode::SERVICE_UNAVAILABLE, "Too many event streams"),
    ("stopping", StatusCode::SERVICE_UNAVAILABLE, "The server is stopping"),
    ("backlog", StatusCode::SERVICE_UNAVAILABLE, "Outcomes cannot be recorded"),
    ("store_full", StatusCode::INSUFFICIENT_STORAGE, "The store is full"),
];

/// The status and title of a code; those of `internal` for an unknown code.
fn rendering(code: &str) -> (StatusCode, &'static str) {
    let known = CODES.iter().find(|(known, ..)| *known == code);
    known.map_or((StatusCode::INTERNAL_SERVER_ERROR, "Internal error"), |&(_, status, title)| (status, title))
}

impl Problem {
    /// For callers who may not see a job's content: without its key and the job that holds the key.
    pub(super) fn without_key(mut self) -> Self {
        self.0.detail = "the job's key is held by another job".to_owned();
        (self.0.key, self.0.holder) = (None, None);
        self
    }
}

/// A refusal by the edge itself, with one of [`CODES`].
pub(super) fn refuse(code: &str, detail: impl Into<String>) -> Problem {
    let (status, title) = rendering(code);
    Problem(Box::new(api::Problem::new(code, status.as_u16(), title, detail)))
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Error::from(invalid).into()
    }
}

impl From<Error> for Problem {
    /// A store's error may contain paths, addresses and statements. It is logged, and the answer says so.
    fn from(error: Error) -> Self {
        let error = match error {
            Error::Full(_) => withheld(&error, Error::Full),
            Error::Unavailable(_) => withheld(&error, Error::Unavailable),
            Error::Damaged(_) => withheld(&error, Error::Damaged),
            Error::Unusable(_) => withheld(&error, Error::Unusable),
            // A store is opened before anything is served.
            Error::Held { .. } => return internal(&error),
            error => error,
        };
        if !CODES.iter().any(|(code, ..)| *code == error.code()) {
            return internal(&error);
        }
        let (status, title) = rendering(error.code());
        let mut problem = Self(Box::new(api::Problem::of(&error, status.as_u16(), title)));
        if matches!(error, Error::QueueFull { .. }) {
            problem.0.retry_after = Some(Span(RETRY_SECONDS * SECOND_MS));
        }
        // Schedules and settings have versions only for those who ask for one.
        if matches!(error, Error::Changed { .. }) { problem.of_precondition() } else { problem }
    }
}

/// The reason, as answers have it.
pub(super) const WITHHELD: &str = "see the server's log for the reason";

fn withheld(error: &Error, without: fn(String) -> Error) -> Error {
    tracing::warn!(code = error.code(), "{error}");
    without(WITHHELD.to_owned())
}

fn internal(error: &Error) -> Problem {
    tracing::error!(code = error.code(), "{error}");
    refuse("internal", "the server failed to handle this request; see its log")
}

impl From<Unread> for Problem {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Malformed(why) => refuse("malformed_json", format!("in the body: {why}")),
            Unread::Invalid(error) => error.into(),
        }
    }
}

impl From<Problem> for api::Problem {
    fn from(problem: Problem) -> Self {
        *problem.0
    }
}

impl Problem {
    /// The problem of one lease among many, which it names.
    pub(super) fn of_lease(receipt: Receipt, problem: impl Into<Self>) -> Self {
        let mut problem = problem.into();
        problem.0.receipt = Some(receipt);
        problem
    }

    /// The token makes too many requests; there is room again in `wait_ms`.
    pub(crate) fn too_many(wait_ms: u64) -> Self {
        let wait = Span(wait_ms);
        let mut problem =
            refuse("too_many_requests", format!("the rate limit of this token is reached; try again in {wait}"));
        problem.0.retry_after = Some(wait);
        problem
    }

    /// The same, with the status for a version that was named in `If-Match`.
    pub(super) fn of_precondition(mut self) -> Self {
        if self.0.code == "version_mismatch" {
            self.0.status = StatusCode::PRECONDITION_FAILED.as_u16();
        }
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() {
            tracing::warn!(code = self.0.code, status = self.0.status, "{}", self.0.detail);
        }
        let mut response = json::with_type(status, PROBLEM_JSON, &self.0);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"duetime\""));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
        }
        if let Some(Span(wait_ms)) = self.0.retry_after {
            // In whole seconds, as HTTP has it.
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait_ms.div_ceil(1_000)));
        }
        response.extensions_mut().insert(Sent(self.0));
        response
    }
}

/// The problem that an answer is, for those who tell it in another language.
#[derive(Clone)]
pub(super) struct Sent(Box<api::Problem>);

impl Sent {
    /// The same answer, with a problem in Chinese.
    pub(super) fn in_chinese(mut answer: Response) -> Response {
        let Some(Self(mut problem)) = answer.extensions_mut().remove::<Self>() else { return answer };
        problem.tell();
        let (_, body) = json::with_type(answer.status(), PROBLEM_JSON, &problem).into_parts();
        answer.headers_mut().remove(CONTENT_LENGTH);
        *answer.body_mut() = body;
        chinese::mark(&mut answer);
        answer
    }
}
