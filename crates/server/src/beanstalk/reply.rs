//! Replies, as they are written.

use duetime_core::{Error, JobId};
use std::io::Write;

/// Replies that are not sent yet.
#[derive(Debug, Default)]
pub(super) struct Reply(pub(super) Vec<u8>);

impl Reply {
    /// Adds a line.
    pub(super) fn line(&mut self, line: &str) {
        self.0.extend_from_slice(line.as_bytes());
        self.0.extend_from_slice(b"\r\n");
    }

    /// A word and a number.
    pub(super) fn number(&mut self, word: &str, number: u64) {
        write!(self.0, "{word} {number}\r\n").expect("memory takes all");
    }

    /// A job: `RESERVED` or `FOUND`.
    pub(super) fn job(&mut self, word: &str, id: JobId, body: &[u8]) {
        write!(self.0, "{word} {id} {}\r\n", body.len()).expect("memory takes all");
        self.0.extend_from_slice(body);
        self.0.extend_from_slice(b"\r\n");
    }

    /// Statistics or a list: YAML.
    pub(super) fn yaml(&mut self, yaml: Result<String, Error>) {
        match yaml {
            Ok(yaml) => write!(self.0, "OK {}\r\n{yaml}\r\n", yaml.len()).expect("memory takes all"),
            Err(error) => self.failure(&error),
        }
    }

    /// A word for what was done, or why it was not.
    pub(super) fn done<T>(&mut self, word: &str, done: Result<T, Error>) {
        match done {
            Ok(_) => self.line(word),
            Err(error) => self.failure(&error),
        }
    }

    /// The reply to an error of the engine.
    pub(super) fn failure(&mut self, error: &Error) {
        self.line(word(error));
    }
}

/// The word for what the engine could not do.
pub(super) fn word(error: &Error) -> &'static str {
    match error {
        Error::NotFound(_)
        | Error::LeaseLost(_)
        | Error::Running(_)
        | Error::Finished { .. }
        | Error::Live(_)
        | Error::NotDue(_)
        | Error::HeldBack(_)
        | Error::VersionMismatch { .. }
        | Error::KeyConflict { .. } => "NOT_FOUND",
        Error::Full(_) | Error::Backlog(_) => "OUT_OF_MEMORY",
        Error::Invalid { .. } => "BAD_FORMAT",
        error => {
            tracing::warn!(%error, "a command of a beanstalkd client failed");
            "INTERNAL_ERROR"
        }
    }
}
