//! Errors and their HTTP statuses: the one place that maps them.

use super::reply;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use duetime::wire;
use duetime_core::Error;

/// Why a request is refused, ready to be sent.
#[derive(Debug)]
pub(crate) struct Problem(Box<wire::Problem>);

/// Status and title of an engine's error.
fn rendering(error: &Error) -> (StatusCode, &'static str) {
    match error {
        Error::Invalid { .. } => (StatusCode::BAD_REQUEST, "The request is not valid"),
        Error::NotFound(_) => (StatusCode::NOT_FOUND, "There is no such job"),
        Error::KeyConflict { .. } => (StatusCode::CONFLICT, "The key is held"),
        Error::VersionMismatch { .. } => (StatusCode::CONFLICT, "The job has changed"),
        Error::LeaseLost(_) => (StatusCode::CONFLICT, "The lease has ended"),
        Error::Running(_) => (StatusCode::CONFLICT, "The job is running"),
        Error::Finished { .. } => (StatusCode::CONFLICT, "The job has ended"),
        Error::NotDue(_) => (StatusCode::CONFLICT, "The job is not due"),
        Error::HeldBack(_) => (StatusCode::CONFLICT, "The job is held back"),
        Error::Live(_) => (StatusCode::CONFLICT, "The job has not ended"),
        Error::LockHeld { .. } => (StatusCode::LOCKED, "The lock is held"),
        Error::LockLost { .. } => (StatusCode::CONFLICT, "The lock is lost"),
        Error::NoSchedule(_) => (StatusCode::NOT_FOUND, "There is no such schedule"),
        Error::Full(_) => (StatusCode::INSUFFICIENT_STORAGE, "The store is full"),
        Error::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "The store is not available"),
        Error::Damaged(_) => (StatusCode::INTERNAL_SERVER_ERROR, "The store is damaged"),
        Error::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "The server is stopping"),
        Error::Backlog(_) => (StatusCode::SERVICE_UNAVAILABLE, "Outcomes cannot be recorded"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "Internal error"),
    }
}

/// What the edge itself refuses.
pub(super) enum Refusal {
    /// The path names nothing.
    NoRoute,
    /// The path knows no such method.
    Method,
    /// The body is no JSON.
    MalformedJson,
    /// The body is JSON of another form.
    Invalid,
    /// The body has another media type or is encoded.
    MediaType,
    /// The body is too large.
    BodyTooLarge,
    /// The head is too large.
    HeadTooLarge,
    /// The body did not come in time.
    Timeout,
    /// The body ended early, or is not framed as HTTP asks.
    Body,
    /// A page of another origin asks.
    Origin,
    /// The request is for another host.
    Host,
    /// As many streams of events are open as may be.
    TooManyStreams,
    /// A fault of the server.
    Internal,
}

impl Refusal {
    fn rendering(&self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::NoRoute => ("no_route", StatusCode::NOT_FOUND, "There is nothing here"),
            Self::Method => ("method_not_allowed", StatusCode::METHOD_NOT_ALLOWED, "Another method is expected"),
            Self::MalformedJson => ("malformed_json", StatusCode::BAD_REQUEST, "The body is not JSON"),
            Self::Invalid => ("invalid", StatusCode::BAD_REQUEST, "The request is not valid"),
            Self::MediaType => ("media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE, "Another media type is expected"),
            Self::BodyTooLarge => ("body_too_large", StatusCode::PAYLOAD_TOO_LARGE, "The body is too large"),
            Self::HeadTooLarge => {
                ("head_too_large", StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "The head is too large")
            }
            Self::Timeout => ("timeout", StatusCode::REQUEST_TIMEOUT, "The body did not come in time"),
            Self::Body => ("body_unreadable", StatusCode::BAD_REQUEST, "The body cannot be read"),
            Self::Origin => ("foreign_origin", StatusCode::FORBIDDEN, "Pages of other origins are refused"),
            Self::Host => ("foreign_host", StatusCode::MISDIRECTED_REQUEST, "This is another host"),
            Self::TooManyStreams => {
                ("too_many_streams", StatusCode::SERVICE_UNAVAILABLE, "There are too many streams of events")
            }
            Self::Internal => ("internal", StatusCode::INTERNAL_SERVER_ERROR, "Internal error"),
        }
    }

    /// The problem, in these words.
    pub(super) fn because(&self, detail: impl Into<String>) -> Problem {
        let (code, status, title) = self.rendering();
        Problem(Box::new(wire::Problem::new(code, status.as_u16(), title, detail)))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, title) = rendering(&error);
        Self(Box::new(wire::Problem::of(&error, status.as_u16(), title)))
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        let refusal = if error.is_data() { Refusal::Invalid } else { Refusal::MalformedJson };
        refusal.because(format!("in the body: {error}"))
    }
}

impl From<Problem> for wire::Problem {
    fn from(problem: Problem) -> Self {
        *problem.0
    }
}

impl Problem {
    /// The same, where the request named the version in `If-Match`.
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
        reply::with_type(status, "application/problem+json", &self.0)
    }
}
