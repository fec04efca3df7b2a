//! Replies, as they are written.

use duetime_core::{Error, JobId};
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

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

    /// A word for the result, or for the reason of a refusal.
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

/// Failed commands are logged in one line for this long: a store that is unavailable fails each command of each client.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The failed commands of this process that were not logged yet.
static UNLOGGED: Mutex<Unlogged> = Mutex::new(Unlogged { logged_at: None, commands: 0 });

struct Unlogged {
    logged_at: Option<Instant>,
    commands: u64,
}

impl Unlogged {
    /// Counts a failed command. Answers the number of commands to log in a line now.
    fn add(&mut self, now: Instant) -> Option<u64> {
        self.commands += 1;
        if self.logged_at.is_some_and(|at| now.saturating_duration_since(at) < LOG_EVERY) {
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.commands))
    }
}

fn log(error: &Error) {
    let commands = UNLOGGED.lock().unwrap_or_else(PoisonError::into_inner).add(Instant::now());
    if let Some(commands) = commands {
        tracing::warn!(%error, commands, "commands of beanstalkd clients failed");
    }
}

/// There is no room for a job.
pub(super) const OUT_OF_MEMORY: &str = "OUT_OF_MEMORY";

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
        Error::Full(_) | Error::LimitReached(_) | Error::Backlog(_) | Error::QueueFull { .. } => OUT_OF_MEMORY,
        Error::Invalid { .. } => "BAD_FORMAT",
        error => {
            log(error);
            "INTERNAL_ERROR"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failed_commands_are_logged_together() {
        let mut unlogged = Unlogged { logged_at: None, commands: 0 };
        let begin = Instant::now();
        assert_eq!(unlogged.add(begin), Some(1));
        assert_eq!(unlogged.add(begin), None);
        assert_eq!(unlogged.add(begin + LOG_EVERY / 2), None);
        assert_eq!(unlogged.add(begin + LOG_EVERY), Some(3));
        assert_eq!(unlogged.add(begin + LOG_EVERY), None);
    }
}
