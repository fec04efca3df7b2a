//! Errors of a call, each with a stable code.

use duetime_core::JobId;
use duetime_core::api::Span;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The answer of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a call.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine refused the call, here or on the server.
    #[error(transparent)]
    Core(#[from] duetime_core::Error),
    /// No connection to the server: nothing was sent, so the call can be repeated.
    #[error("cannot connect to the server {server}: {message}; nothing was sent")]
    Unreachable {
        /// Its address.
        server: Arc<str>,
        /// The problem.
        message: String,
    },
    /// The server's certificate is not trusted: nothing was sent.
    #[error("the certificate of {server} is not trusted: {why}")]
    Untrusted {
        /// Its address.
        server: Arc<str>,
        /// The reason.
        why: String,
    },
    /// The connection broke, or the time limit passed, after the request may have been sent. It may or may not have been
    /// carried out.
    #[error("no answer from the server {server}: {message}; the request may or may not have been carried out")]
    OutcomeUnknown {
        /// Its address.
        server: Arc<str>,
        /// The problem.
        message: String,
    },
    /// The server refused the call for a reason outside the engine, such as a missing right. Nothing was changed.
    #[error("the server answered {status} ({code}): {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The stable code.
        code: String,
        /// The message of the server.
        message: String,
    },
    /// The server's answer cannot be read: it is not a Duetime server, or a newer one.
    #[error("unexpected answer from the server: {0}")]
    Protocol(String),
    /// The payload cannot be written as JSON.
    #[error("the payload cannot be serialized as JSON: {0}")]
    Payload(#[source] Arc<serde_json::Error>),
    /// The job has not ended within the time limit of [`wait`](crate::client::Jobs::wait). It goes on.
    #[error("the job {id} ({kind}) has not ended within {}; wait again, or ask `why` it does not run", Span(time_limit.as_millis().try_into().unwrap_or(u64::MAX)))]
    NotEnded {
        /// The job.
        id: JobId,
        /// Its kind.
        kind: Arc<str>,
        /// The time limit.
        time_limit: Duration,
    },
    /// The database refused a row of the inbox. Roll the transaction back.
    #[error("the database rejected the row: {0}")]
    Sql(String),
    /// The address is not of the form `http://host:port`, or `https://host:port` with the feature `tls`.
    #[error(
        "the address of a server must be a URL without a path, such as http://127.0.0.1:7300 or https://jobs.example, got {0}"
    )]
    Address(String),
    /// The token is malformed. It is not shown.
    #[error("the token is invalid: it must be one that `duetime token create` printed, without spaces")]
    Token,
    /// Root certificates cannot be used.
    #[error("cannot use the root certificates {}: {why}", file.display())]
    Roots {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: String,
    },
}

impl From<duetime_core::Invalid> for Error {
    fn from(invalid: duetime_core::Invalid) -> Self {
        Self::Core(invalid.into())
    }
}

/// One answer for each item of a request, in order.
pub type Answers<T> = Vec<Result<T, Error>>;

impl Error {
    /// The stable code.
    pub fn code(&self) -> &str {
        match self {
            Self::Core(error) => error.code(),
            Self::Unreachable { .. } => "unreachable",
            Self::Untrusted { .. } => "untrusted",
            Self::OutcomeUnknown { .. } => "outcome_unknown",
            Self::Refused { code, .. } => code,
            Self::Protocol(_) => "protocol",
            Self::Payload(_) => "payload",
            Self::NotEnded { .. } => "not_ended",
            Self::Sql(_) => "sql",
            Self::Address(_) => "address",
            Self::Token => "token",
            Self::Roots { .. } => "roots",
        }
    }

    /// Whether the job or the schedule that the call names does not exist, or no longer does.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Core(duetime_core::Error::NotFound(_) | duetime_core::Error::NoSchedule(_)))
    }

    /// Whether the same call may succeed later. After [`Error::OutcomeUnknown`] a repeated call may be carried out twice:
    /// repeat a push only if it has a key or an origin.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Core(error) => error.is_retryable(),
            Self::Unreachable { .. } | Self::OutcomeUnknown { .. } | Self::NotEnded { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            Self::Protocol(_) | Self::Payload(_) | Self::Sql(_) | Self::Untrusted { .. } => false,
            Self::Address(_) | Self::Token | Self::Roots { .. } => false,
        }
    }
}

/// Converts answers of the engine to answers of a client.
#[cfg(feature = "engine")]
pub(crate) fn answers<T>(answers: duetime_core::engine::Answers<T>) -> Answers<T> {
    answers.into_iter().map(|answer| answer.map_err(Error::from)).collect()
}

/// Returns the only answer to a request with one item.
pub(crate) fn only<T>(mut answers: Answers<T>) -> Result<T, Error> {
    match answers.pop() {
        Some(answer) if answers.is_empty() => answer,
        _ => Err(Error::Protocol("expected one answer".to_owned())),
    }
}
