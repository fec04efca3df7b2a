//! Copies of a live store.

use super::fault::{self, Fault};
use duetime_core::Error;
use rusqlite::Connection;
use std::fs::{self, File};
use std::path::Path;

/// Writes all that is committed now to a new file, which can be opened as a store. Where it fails, no file is left.
pub(super) fn backup(connection: &Connection, to: &Path) -> Result<(), Fault> {
    let shown = to.display();
    // Claims the name, so that nothing is overwritten; SQLite writes into an empty file.
    File::create_new(to).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Unusable(format!("{shown} exists: name a new file")),
        _ => Error::Unusable(format!("{shown} cannot be written ({error}): name a file in a folder that can be")),
    })?;
    copy(connection, to).inspect_err(|_| {
        // Whether or not this works, the first error is the one to tell.
        let _ = fs::remove_file(to);
    })
}

fn copy(connection: &Connection, to: &Path) -> Result<(), Fault> {
    let shown = to.display().to_string();
    let name = to.to_str().ok_or_else(|| Error::Unusable(format!("{shown}: name a file in UTF-8")))?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(|error| fault::told(&error, &shown))?;
    let synced = File::open(to).and_then(|file| file.sync_all()).and_then(|()| match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    });
    synced.map_err(|error| Error::Unavailable(format!("writing {shown} to disk failed ({error})")))?;
    Ok(())
}
