//! The causes of an [`Error`](super::Error), with their details.

use super::{Error, ErrorKind};
use duetime_core::api::Span;
use duetime_core::{Error as CoreError, JobId};
use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Statuses of a server that say what kind of error it is.
const UNAUTHENTICATED: u16 = 401;
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;
const PRECONDITION: u16 = 412;
const TOO_MANY: u16 = 429;
const NO_ROOM: u16 = 507;

/// The cause of an error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Cause {
    /// The engine refused the call, here or on the server.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// No connection to the server: nothing was sent, so the call can be repeated.
    #[error("cannot connect to the server {server}: {message}; nothing was sent: repeat the call once it runs there")]
    Unreachable {
        /// Its address.
        server: Arc<str>,
        /// The problem.
        message: String,
    },
    /// The server's certificate is not trusted: nothing was sent.
    #[error("the certificate of {server} is not trusted: {why}; if it is the right one, name its root certificate")]
    Untrusted {
        /// Its address.
        server: Arc<str>,
        /// The reason.
        why: String,
    },
    /// The connection broke, or the time limit passed, after the request may have been sent. It may or may not have been
    /// carried out.
    #[error(
        "no answer from the server {server}: {message}; the request may or may not have been carried out: look before you \
         repeat it"
    )]
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
    #[error(
        "unexpected answer from the server: {0}; check that this is the address of a Duetime server of the same version"
    )]
    Protocol(String),
    /// The server speaks another protocol than the address says.
    #[error("unexpected answer from the server: {0}")]
    Scheme(String),
    /// The payload cannot be written as JSON.
    #[error("the payload cannot be serialized as JSON: {0}; use `push_raw` for other formats")]
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
    /// The database refused a row of the inbox.
    #[error("the database rejected the row: {message}; roll the transaction back")]
    Sql {
        /// Its message.
        message: String,
        /// Its error.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// Some jobs of a [`push_all`](crate::Client::push_all) were not pushed. The others are.
    #[error("{failed} of {count} jobs were not pushed, the others were; the first of them is number {number}: {first}")]
    SomeFailed {
        /// How many failed.
        failed: usize,
        /// How many there were.
        count: usize,
        /// The place of the first one that failed, from 1.
        number: usize,
        /// Its error.
        #[source]
        first: Error,
    },
    /// The address is not of the form `http://host:port/path`, or `https://…` with the feature `tls`.
    #[error(
        "the address of a server must be a URL such as http://127.0.0.1:7300 or https://shop.example/duetime, got {0}"
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

impl Cause {
    pub(super) fn code(&self) -> &str {
        match self {
            Self::Core(error) => error.code(),
            Self::Unreachable { .. } => "unreachable",
            Self::Untrusted { .. } => "untrusted",
            Self::OutcomeUnknown { .. } => "outcome_unknown",
            Self::Refused { code, .. } => code,
            Self::Protocol(_) | Self::Scheme(_) => "protocol",
            Self::Payload(_) => "payload",
            Self::NotEnded { .. } => "not_ended",
            Self::Sql { .. } => "sql",
            Self::SomeFailed { first, .. } => first.code(),
            Self::Address(_) => "address",
            Self::Token => "token",
            Self::Roots { .. } => "roots",
        }
    }

    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::Core(error) => of_core(error),
            Self::Unreachable { .. } => ErrorKind::Unavailable,
            Self::Untrusted { .. } | Self::Protocol(_) | Self::Scheme(_) => ErrorKind::Protocol,
            Self::OutcomeUnknown { .. } => ErrorKind::OutcomeUnknown,
            Self::Refused { status, .. } => match *status {
                UNAUTHENTICATED | FORBIDDEN => ErrorKind::Unauthorized,
                NOT_FOUND => ErrorKind::NotFound,
                CONFLICT | PRECONDITION => ErrorKind::Conflict,
                TOO_MANY => ErrorKind::RateLimited,
                NO_ROOM => ErrorKind::Full,
                500.. => ErrorKind::Unavailable,
                _ => ErrorKind::Invalid,
            },
            Self::NotEnded { .. } => ErrorKind::TimedOut,
            Self::Sql { .. } => ErrorKind::Database,
            Self::SomeFailed { first, .. } => first.kind(),
            Self::Payload(_) | Self::Address(_) | Self::Token | Self::Roots { .. } => ErrorKind::Invalid,
        }
    }

    pub(super) fn is_retryable(&self) -> bool {
        match self {
            Self::Core(error) => error.is_retryable(),
            Self::Unreachable { .. } | Self::OutcomeUnknown { .. } | Self::NotEnded { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || *status == TOO_MANY,
            Self::Protocol(_) | Self::Scheme(_) | Self::Payload(_) | Self::Sql { .. } | Self::Untrusted { .. } => false,
            Self::Address(_) | Self::Token | Self::Roots { .. } => false,
            Self::SomeFailed { first, .. } => first.is_retryable(),
        }
    }

    /// The job that the error is about.
    pub(super) fn job(&self) -> Option<JobId> {
        match self {
            Self::NotEnded { id, .. } => Some(*id),
            Self::SomeFailed { first, .. } => first.job(),
            Self::Core(error) => match error {
                CoreError::NotFound(id)
                | CoreError::KeyConflict { holder: id, .. }
                | CoreError::OriginReused { first: id, .. }
                | CoreError::VersionMismatch { id, .. }
                | CoreError::Running(id)
                | CoreError::Finished { id, .. }
                | CoreError::NotDue(id)
                | CoreError::HeldBack(id)
                | CoreError::Live(id) => Some(*id),
                CoreError::LeaseLost(receipt) => Some(receipt.id),
                _ => None,
            },
            _ => None,
        }
    }
}

fn of_core(error: &CoreError) -> ErrorKind {
    match error {
        CoreError::Invalid(_) | CoreError::Unusable(_) => ErrorKind::Invalid,
        CoreError::NotFound(_) | CoreError::NoSchedule(_) => ErrorKind::NotFound,
        CoreError::KeyConflict { .. }
        | CoreError::OriginReused { .. }
        | CoreError::VersionMismatch { .. }
        | CoreError::Changed { .. }
        | CoreError::Running(_)
        | CoreError::Finished { .. }
        | CoreError::NotDue(_)
        | CoreError::HeldBack(_)
        | CoreError::Live(_)
        | CoreError::LockHeld { .. }
        | CoreError::QueueInUse { .. } => ErrorKind::Conflict,
        CoreError::LeaseLost(_) | CoreError::LockLost { .. } => ErrorKind::Lost,
        CoreError::Full(_) | CoreError::LimitReached(_) | CoreError::QueueFull { .. } | CoreError::Backlog(_) => {
            ErrorKind::Full
        }
        CoreError::Damaged(_) => ErrorKind::Damaged,
        CoreError::Unavailable(_) | CoreError::Stopping | CoreError::Held { .. } => ErrorKind::Unavailable,
        // Each code has its kind: see the tests.
        _ => ErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime_core::{Receipt, State};

    /// An error of each code that the engine has, with its kind.
    fn of_each_code() -> Vec<(CoreError, ErrorKind)> {
        let (id, name) = (JobId::from_sequence(7), Arc::<str>::from("a"));
        let text = String::new;
        vec![
            (CoreError::invalid("a", "b", "c"), ErrorKind::Invalid),
            (CoreError::NotFound(id), ErrorKind::NotFound),
            (CoreError::KeyConflict { queue: name.clone(), key: name.clone(), holder: id }, ErrorKind::Conflict),
            (
                CoreError::OriginReused { queue: name.clone(), origin: name.clone(), first: id, differs: Vec::new() },
                ErrorKind::Conflict,
            ),
            (CoreError::VersionMismatch { id, current: 1 }, ErrorKind::Conflict),
            (CoreError::Changed { kind: "queue", name: name.clone(), current: 1 }, ErrorKind::Conflict),
            (CoreError::LeaseLost(Receipt { id, epoch: 1 }), ErrorKind::Lost),
            (CoreError::Running(id), ErrorKind::Conflict),
            (CoreError::Finished { id, state: State::Succeeded }, ErrorKind::Conflict),
            (CoreError::NotDue(id), ErrorKind::Conflict),
            (CoreError::HeldBack(id), ErrorKind::Conflict),
            (CoreError::Live(id), ErrorKind::Conflict),
            (CoreError::LockHeld { name: name.clone(), expires_in: Span(1) }, ErrorKind::Conflict),
            (CoreError::LockLost { name: name.clone(), owner: name.clone(), fence: 1 }, ErrorKind::Lost),
            (
                CoreError::QueueInUse { queue: name.clone(), waiting: 1, running: 0, schedules: Vec::new() },
                ErrorKind::Conflict,
            ),
            (CoreError::QueueFull { queue: name.clone(), max_waiting: 1 }, ErrorKind::Full),
            (CoreError::NoSchedule(name), ErrorKind::NotFound),
            (CoreError::Full(text()), ErrorKind::Full),
            (CoreError::LimitReached(text()), ErrorKind::Full),
            (CoreError::Unavailable(text()), ErrorKind::Unavailable),
            (CoreError::Damaged(text()), ErrorKind::Damaged),
            (CoreError::Held { path: text(), pid: 1 }, ErrorKind::Unavailable),
            (CoreError::Unusable(text()), ErrorKind::Invalid),
            (CoreError::Stopping, ErrorKind::Unavailable),
            (CoreError::Backlog(1), ErrorKind::Full),
        ]
    }

    #[test]
    fn each_code_has_its_kind() {
        let errors = of_each_code();
        assert!(errors.iter().map(|(error, _)| error.code()).eq(CoreError::CODES.iter().copied()));
        for (error, kind) in errors {
            assert_eq!(Cause::from(error.clone()).kind(), kind, "{}", error.code());
        }
    }

    #[test]
    fn an_error_of_many_jobs_is_that_of_the_first() {
        let id = JobId::from_sequence(7);
        let answers = |errors: &[CoreError]| errors.iter().map(|error| Err::<(), _>(error.clone().into())).collect();
        let some = [vec![Ok(())], answers(&[CoreError::Live(id), CoreError::Stopping])].concat();
        let error = super::super::all(some).unwrap_err();
        assert_eq!((error.kind(), error.code(), error.job()), (ErrorKind::Conflict, "job_live", Some(id)));
        let said = error.to_string();
        assert!(
            said.starts_with("2 of 3 jobs were not pushed, the others were; the first of them is number 2: "),
            "{said}"
        );
        assert!(!error.is_retryable() && std::error::Error::source(&error).is_some());
        assert_eq!(
            super::super::all(answers(&[CoreError::Stopping])).unwrap_err().to_string(),
            CoreError::Stopping.to_string()
        );
        assert_eq!(super::super::all(vec![Ok(1), Ok(2)]).unwrap(), [1, 2]);
    }

    #[test]
    fn what_a_server_refuses_has_a_kind_by_its_status() {
        for (status, kind) in [
            (400, ErrorKind::Invalid),
            (401, ErrorKind::Unauthorized),
            (403, ErrorKind::Unauthorized),
            (404, ErrorKind::NotFound),
            (409, ErrorKind::Conflict),
            (412, ErrorKind::Conflict),
            (413, ErrorKind::Invalid),
            (429, ErrorKind::RateLimited),
            (503, ErrorKind::Unavailable),
            (507, ErrorKind::Full),
        ] {
            let cause = Cause::Refused { status, code: "a".to_owned(), message: String::new() };
            assert_eq!(cause.kind(), kind, "{status}");
        }
    }
}
