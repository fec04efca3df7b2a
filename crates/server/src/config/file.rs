//! Which file is read, and its text.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Far more than all options take.
const BYTES_MAX: u64 = 1 << 20;

/// The first of these files that is there; one that cannot be looked at counts as there, so that reading it tells why.
pub(super) fn find(candidates: &[&str]) -> Option<PathBuf> {
    let is_there = |path: &&&str| !matches!(Path::new(path).metadata(), Err(error) if is_missing(error.kind()));
    candidates.iter().find(is_there).map(PathBuf::from)
}

fn is_missing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The text of a file.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut text = String::new();
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| format!("cannot read {shown}: {error}"))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(format!("expected at most {BYTES_MAX} bytes in {shown}, got more"));
    }
    Ok(text)
}
