//! Findings, each with advice.

use comfy_table::{Cell, Color};
use serde::Serialize;

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// No problem.
    Ok,
    /// It works, and something should be done.
    Warning,
    /// A server would not work.
    Problem,
}

impl Status {
    /// The word, coloured.
    pub(super) fn cell(self) -> Cell {
        match self {
            Self::Ok => Cell::new("ok").fg(Color::Green),
            Self::Warning => Cell::new("warning").fg(Color::Yellow),
            Self::Problem => Cell::new("problem").fg(Color::Red),
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The name of the check.
    pub(super) check: &'static str,
    pub(super) status: Status,
    /// The result of the check.
    pub(super) finding: String,
    /// The advice; `None` if all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, finding: impl Into<String>) -> Self {
        Self { check, status: Status::Ok, finding: finding.into(), advice: None }
    }

    pub(super) fn warning(check: &'static str, finding: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, status: Status::Warning, finding: finding.into(), advice: Some(advice.into()) }
    }

    pub(super) fn problem(check: &'static str, finding: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, status: Status::Problem, finding: finding.into(), advice: Some(advice.into()) }
    }

    /// From the text of a warning whose advice follows its last semicolon.
    pub(super) fn of_warning(check: &'static str, text: &str) -> Self {
        match text.rsplit_once("; ") {
            Some((finding, advice)) => Self::warning(check, finding, advice),
            None => Self::warning(check, text, "see ARCHITECTURE.md"),
        }
    }
}
