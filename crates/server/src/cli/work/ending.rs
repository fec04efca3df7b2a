//! The end of a command, and how it settles the job.

use duetime::JobError;
use duetime::worker::Handled;
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

/// Ends of what programs write when they fail that do not say why: hints, versions, and the stack of PHP.
const TRAILERS: [&str; 4] = ["note: ", "Node.js v", "Stack trace:", "#"];

/// The line that says why a program failed: the last one that is neither a frame of a stack, which is indented, nor such an end.
fn last_line(said: &str) -> &str {
    let lines = || said.lines().rev().filter(|line| !line.trim().is_empty());
    let says_why = |line: &&str| {
        !line.starts_with(char::is_whitespace) && !TRAILERS.iter().any(|trailer| line.starts_with(trailer))
    };
    lines().find(says_why).or_else(|| lines().next()).unwrap_or_default().trim()
}

/// The outcome of the job. `said` is the end of the command's standard error.
pub(super) fn handled(status: ExitStatus, said: &str, cause: Option<Cause>) -> Handled {
    let why = reason(status, cause);
    // Lists and groups of failures show only the first line.
    let message = match (last_line(said), said.trim()) {
        ("", _) => why,
        (last, said) if last == said => format!("{why}: {said}"),
        (last, said) => format!("{why}: {last}\n{said}"),
    };
    match cause {
        None if status.success() => Ok(()),
        None if status.code() == Some(DATA_ERROR) => Err(JobError::fatal(message)),
        Some(Cause::Forced) => Err(JobError::release(Duration::ZERO)),
        _ => Err(JobError::new(message)),
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
    fn the_first_line_of_a_message_is_the_error_of_the_program() {
        let python =
            "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: no order 7\n";
        let node = "/a.js:1\nthrow new Error(\"x\")\n^\n\nError: no order\n    at a.js:1:7\n\nNode.js v18.19.0";
        let rust = "thread 'main' panicked at src/main.rs:2:5:\nno order\nnote: run with `RUST_BACKTRACE=1`";
        let java = "Exception in thread \"main\" java.lang.Error: no order\n\tat A.main(A.java:1)";
        let php =
            "PHP Fatal error:  Uncaught Exception: no order in a.php:3\nStack trace:\n#0 {main}\n  thrown in a.php";
        for (said, first) in [
            (python, "ValueError: no order 7"),
            (node, "Error: no order"),
            (rust, "no order"),
            (java, "Exception in thread \\\"main\\\" java.lang.Error: no order"),
            (php, "PHP Fatal error:  Uncaught Exception: no order in a.php:3"),
            ("warning\nno order\n\n", "no order"),
            ("  indented\n  again", "again"),
        ] {
            let message = message(1 << 8, said, None);
            assert!(message.contains(&format!("exit status 1: {first}\\n")), "{message}");
            let begin = said.trim().lines().next().unwrap().replace('"', "\\\"");
            assert!(message.contains(&begin), "the rest is kept: {message}");
        }
    }

    #[test]
    fn what_was_ended_has_not_succeeded() {
        let limit = Some(Cause::TimeLimit(Duration::from_secs(90)));
        assert!(message(0, "", limit).contains("longer than 1m30s"));
        assert!(message(15, "", Some(Cause::Cancelled)).contains("cancelled"));
        assert!(message(15, "", Some(Cause::Forced)).contains("Release"));
    }
}
