//! Where a value comes from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a value comes from, in rising precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Nobody said anything.
    Default,
    /// A file, and the line in it, from 1.
    File {
        /// As it was named.
        path: Arc<PathBuf>,
        /// The line.
        line: usize,
    },
    /// This variable of the environment.
    Variable(String),
    /// This flag, with its dashes.
    Flag(String),
}

impl Origin {
    /// A higher one counts.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Variable(_) => 2,
            Self::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Self::Variable(name) => write!(f, "the variable {name}"),
            Self::Flag(flag) => write!(f, "the flag {flag}"),
        }
    }
}
