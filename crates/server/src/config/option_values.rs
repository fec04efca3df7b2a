//! The source of an option's value (command line, environment or file), and its errors.

use super::keys::key;
use clap::Arg;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The source of a value, in rising precedence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Origin {
    /// The default.
    Default,
    /// A file, and the line in it, from 1.
    File {
        /// The given path.
        #[serde(rename = "file")]
        path: Arc<PathBuf>,
        /// The line.
        line: usize,
    },
    /// This variable of the environment.
    Variable { name: String },
    /// This flag, with its dashes.
    Flag { name: String },
}

impl Origin {
    /// A higher one counts.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Variable { .. } => 2,
            Self::Flag { .. } => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Self::Variable { name } => write!(f, "the variable {name}"),
            Self::Flag { name } => write!(f, "the flag {name}"),
        }
    }
}

/// The values given for an option.
pub(super) struct OptionValues {
    pub(super) values: Vec<OsString>,
    pub(super) from: Origin,
    is_switch: bool,
}

impl OptionValues {
    pub(super) fn new(values: Vec<OsString>, from: Origin, is_switch: bool) -> Self {
        Self { values, from, is_switch }
    }

    /// Whether it says anything: a switch that is off does not.
    pub(super) fn is_on(&self) -> bool {
        !self.is_switch || self.values.first().is_some_and(|value| value == "true")
    }

    /// The option with its origin.
    pub(super) fn named(&self, arg: &Arg) -> String {
        match &self.from {
            from @ (Origin::Flag { .. } | Origin::Variable { .. }) => from.to_string(),
            from => format!("`{}` ({from})", key(arg)),
        }
    }
}

/// A mistake, with its place.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mistake {
    /// The key with the mistake, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// `None` if the mistake is a combination of values.
    pub(crate) from: Option<Origin>,
    /// The expected and the given value, with the place.
    #[serde(rename = "message")]
    pub(crate) text: String,
}
