//! Copies of a live store.
//!
//! A copy is written under another name and renamed once it is complete, so a backup of the same name is replaced atomically
//! or not at all. Other files of that name are left alone: a store in use, or a file of another program.

use super::fault::{self, Fault};
use super::file::beside;
use super::probe::{FileState, probe};
use crate::private::Draft;
use duetime_core::Error;
use rusqlite::Connection;
use std::path::Path;

/// Writes everything that is committed now to a file that can be opened as a store. If it fails, an existing file remains.
pub(super) fn backup(connection: &Connection, to: &Path) -> Result<(), Fault> {
    let shown = to.display().to_string();
    check_target(to, &shown)?;
    let unwritable = |error: std::io::Error| {
        Error::Unusable(format!("cannot write {shown} ({error}): name a file in a folder where this user may write"))
    };
    let draft = Draft::of(to).map_err(unwritable)?;
    let name = draft.path().to_str().ok_or_else(|| Error::Unusable(format!("the name {shown} is not valid UTF-8")))?;
    // SQLite treats an empty file as a new database.
    connection.execute("VACUUM INTO ?1", [name]).map_err(|error| fault::explain(&error, &shown))?;
    let placed = draft.replace();
    placed.map_err(|error| Error::Unavailable(format!("writing {shown} to disk failed ({error})")).into())
}

/// Whether there is no file of this name, or an earlier backup.
fn check_target(to: &Path, shown: &str) -> Result<(), Error> {
    let refused = |why: &str| Err(Error::Unusable(format!("{shown} exists and {why}")));
    let Ok(found) = to.symlink_metadata() else { return Ok(()) };
    if !found.is_file() {
        return refused("is not a file: name another one");
    }
    if beside(to, ".lock").exists() || beside(to, "-wal").exists() {
        return refused(
            "is in use as a store (there is a .lock or -wal file beside it): name another one, or remove that file if this \
             is an old backup",
        );
    }
    match probe(to) {
        Ok(probed) if matches!(probed.state, FileState::Schema(_)) => Ok(()),
        _ => refused("is not a backup of Duetime: name another one"),
    }
}
