//! What can go wrong between us and a server, as far as it decides what is done next.

use crate::place;
use duetime_core::Error;
use std::time::Duration;

/// An error of one attempt.
#[derive(Debug)]
pub(super) enum Fault {
    /// Another transaction came between: the same again may succeed.
    Race(String),
    /// The connection is of no use any more, or there is none.
    Lost(String),
    /// An error that stays, ready to be answered.
    Known(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Known(error)
    }
}

impl Fault {
    /// A row that holds what was never written there.
    pub(super) fn damaged(what: &str, got: impl std::fmt::Display) -> Self {
        Self::Known(Error::Damaged(format!("{what} has the invalid value {got}; restore a backup of the database")))
    }

    /// Says which server it was, if no connection could be made.
    pub(super) fn at(self, at: &str) -> Self {
        match self {
            Self::Lost(text) => Self::Lost(place::advised(format!("{at}: {text}"))),
            fault => fault,
        }
    }

    /// A server that accepts connections and does not answer: perhaps it is another kind of server.
    pub(super) fn silent(place: &str, waited: Duration, expected: &str) -> Self {
        Self::Lost(format!(
            "{place}: no answer within {} s (check that {expected}, and not another kind of server, listens at this host and \
             port)",
            waited.as_secs()
        ))
    }

    /// The server has no TLS, and the URL asks for it.
    pub(super) fn without_tls(server: &str) -> Self {
        Self::Known(Error::Unusable(format!(
            "{server}: the server does not accept TLS; set it up there, or take `sslmode` out of the URL"
        )))
    }

    /// What to answer when nothing more is tried.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Known(error) => error,
            Self::Lost(text) => Error::Unavailable(text),
            Self::Race(text) => Error::Unavailable(format!("other transactions interfered too often ({text})")),
        }
    }
}
