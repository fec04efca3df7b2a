//! The end of a command, and how it settles the job.

use duetime::{Handled, HandlerError};
use duetime_core::api::Span;
use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// The exit status that says "not even next time" (`EX_DATAERR` of sysexits.h).
const DATA_ERROR: i32 = 65;

/// Why a command was ended from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It ran for too long.
    TimeLimit(Duration),
    /// The job was cancelled, or its lease was lost.
    Cancelled,
    /// The worker was told to stop twice.
    Forced,
}

/// The outcome of the job. `said` is the end of the command's standard error.
pub(super) fn handled(status: ExitStatus, said: &str, cause: Option<Cause>) -> Handled {
    let why = reason(status, cause);
    let message = if said.is_empty() { why } else { format!("{why}: {said}") };
    match cause {
        None if status.success() => Ok(()),
        None if status.code() == Some(DATA_ERROR) => Err(HandlerError::final_(message)),
        Some(Cause::Forced) => Err(HandlerError::release(Duration::ZERO)),
        _ => Err(HandlerError::new(message)),
    }
}

/// How the command ended, in words.
pub(super) fn reason(status: ExitStatus, cause: Option<Cause>) -> String {
    match cause {
        None => told(status),
        Some(Cause::Forced) => "ended, and its job released: the worker was stopped".to_owned(),
        Some(Cause::Cancelled) => "ended: the job was cancelled, or its lease was lost".to_owned(),
        Some(Cause::TimeLimit(limit)) => {
            let limit = Span(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
            format!("ended: it ran longer than {limit}")
        }
    }
}

fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(number)) => {
            let name =
                Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |signal| signal.to_string());
            let dump = if status.core_dumped() { " (core dumped)" } else { "" };
            format!("killed by {name}{dump}")
        }
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the form that `wait` returns: the exit code in the second byte, the signal in the first.
    fn message(raw: i32, said: &str, cause: Option<Cause>) -> String {
        format!("{:?}", handled(ExitStatus::from_raw(raw), said, cause))
    }

    #[test]
    fn statuses_are_told() {
        assert!(handled(ExitStatus::from_raw(0), "warning", None).is_ok());
        let failed = message(3 << 8, "no such order", None);
        assert!(failed.contains("exit status 3: no such order") && failed.contains("is_final: false"), "{failed}");
        assert!(message(65 << 8, "", None).contains("is_final: true"));
        assert!(message(11, "", None).contains("killed by SIGSEGV"));
    }

    #[test]
    fn what_was_ended_has_not_succeeded() {
        let limit = Some(Cause::TimeLimit(Duration::from_secs(90)));
        assert!(message(0, "", limit).contains("longer than 1m30s"));
        assert!(message(15, "", Some(Cause::Cancelled)).contains("cancelled"));
        assert!(message(15, "", Some(Cause::Forced)).contains("Release"));
    }
}
