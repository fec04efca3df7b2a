//! One process per file: a lock on `<file>.lock`, which contains the owner's process id. The system releases the lock when
//! the process ends for any reason. The lock file remains, which means nothing.

use crate::private;
use duetime_core::Error;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The right to use a store's file, until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes it, if no other holder in this or another process has it.
    pub(super) fn take(store: &Path) -> Result<Self, Error> {
        let path = beside(store, ".lock");
        let shown = path.display();
        let unusable = |error: std::io::Error| {
            Error::Unusable(format!(
                "cannot write the lock file {shown:?} ({error}): give this user write access to its folder"
            ))
        };
        // Anyone who can open a file can lock it, so only the owner may open it.
        let mut file = private::open_lock(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The holder may not have written its process id yet.
                let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0);
                return Err(Error::Held { path: store.display().to_string(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(unusable)?;
        writeln!(file, "{}", std::process::id()).map_err(unusable)?;
        Ok(Self { _file: file })
    }
}

/// The path with this suffix.
pub(super) fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(store);
    name.push(suffix);
    PathBuf::from(name)
}
