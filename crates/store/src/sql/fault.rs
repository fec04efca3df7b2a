//! Errors of SQL servers, classified by what to do next.

use crate::place;
use duetime_core::Error;
use std::time::Duration;

/// An error of one attempt.
#[derive(Debug)]
pub(super) enum Fault {
    /// A conflict with another transaction: a retry may succeed.
    Race(String),
    /// The connection is broken or could not be made.
    Lost(String),
    /// A permanent error, ready to be returned.
    Known(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Known(error)
    }
}

impl Fault {
    /// A row with a value that was never written there.
    pub(super) fn damaged(what: &str, got: impl std::fmt::Display) -> Self {
        Self::Known(Error::Damaged(format!("{what} has the invalid value {got}; restore a backup of the database")))
    }

    /// Adds which server it was, if no connection could be made.
    pub(super) fn at(self, at: &str) -> Self {
        match self {
            Self::Lost(text) => Self::Lost(place::advised(format!("{at}: {text}"))),
            fault => fault,
        }
    }

    /// The server accepts connections but does not answer: it may be another kind of server.
    pub(super) fn silent(place: &str, waited: Duration, expected: &str) -> Self {
        Self::Lost(format!(
            "{place}: no answer within {} s (check that {expected}, and not another kind of server, listens at this host and \
             port)",
            waited.as_secs()
        ))
    }

    /// The URL requires TLS, but the server does not support it.
    pub(super) fn without_tls(server: &str) -> Self {
        Self::Known(Error::Unusable(format!(
            "{server}: the server does not accept TLS; set it up there, or take `sslmode` out of the URL"
        )))
    }

    /// The error to return once no more attempts are made.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Known(error) => error,
            Self::Lost(text) => Error::Unavailable(text),
            Self::Race(text) => Error::Unavailable(format!("other transactions interfered too often ({text})")),
        }
    }
}
