//! A file that an option names and that cannot be used.

use std::path::{Path, PathBuf};

/// The file, and why it cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {why}", file.display())]
pub(crate) struct FileError {
    what: &'static str,
    file: PathBuf,
    why: String,
}

impl FileError {
    /// `what` is what the message begins with, such as `the tokens in`.
    pub(crate) fn new(what: &'static str, file: &Path, why: impl Into<String>) -> Self {
        Self { what, file: file.to_owned(), why: why.into() }
    }
}
