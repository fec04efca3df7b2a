//! One process per file: a lock on `<file>.lock`, which contains the owner's process id, and one on the file itself. The first
//! keeps others from the log and the index beside the file even if the file is gone; the second keeps them from the file by
//! whatever name. The system releases both when the process ends for any reason. The lock file remains, which means nothing.

use super::file::{self, beside};
use super::probe;
use crate::private;
use duetime_core::Error;
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Device and inode of the files that this process has open. Another name of such a file must not be opened: closing it would
/// release SQLite's own locks.
static OPEN: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// The right to use a store's file, until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _name: File,
    _file: OpenFile,
    /// The lock file, if there was none before.
    made: Option<PathBuf>,
}

impl Lock {
    /// Takes it, if no other holder in this or another process has it. The file is created if it does not exist.
    pub(super) fn take(store: &Path) -> Result<Self, Error> {
        let path = beside(store, ".lock");
        let shown = path.display();
        let unusable = |error: io::Error| {
            Error::Unusable(format!(
                "cannot write the lock file {shown:?} ({error}): give this user write access to its folder"
            ))
        };
        let made = (!path.exists()).then(|| path.clone());
        // Anyone who can open a file can lock it, so only the owner may open it.
        let mut name = private::open_lock(&path).map_err(unusable)?;
        match name.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The holder may not have written its process id yet.
                let pid = name.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0);
                return Err(Error::Held { path: store.display().to_string(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        let file = OpenFile::lock(store).inspect_err(|_| leave(made.as_deref()))?;
        name.set_len(0).and_then(|()| name.rewind()).map_err(unusable)?;
        writeln!(name, "{}", std::process::id()).map_err(unusable)?;
        Ok(Self { _name: name, _file: file, made })
    }

    /// Leaves the folder as it was, since the file is not a store. Whoever has opened the same lock file finds no store, either.
    pub(super) fn leave(&self) {
        leave(self.made.as_deref());
    }
}

/// Removes the lock file that was made.
fn leave(made: Option<&Path>) {
    if let Some(path) = made {
        let _ = fs::remove_file(path);
    }
}

/// A store's file that is locked, and registered in [`OPEN`].
#[derive(Debug)]
struct OpenFile {
    id: (u64, u64),
    file: Option<File>,
}

impl OpenFile {
    fn lock(store: &Path) -> Result<Self, Error> {
        file::create(store)?;
        let unreadable = |error: io::Error| {
            Error::Unusable(format!("{store:?} cannot be read ({error}): give this user read and write access"))
        };
        let held = |pid| Error::Held { path: store.display().to_string(), pid };
        let found = fs::metadata(store).map_err(unreadable)?;
        let id = (found.dev(), found.ino());
        if !open_files().insert(id) {
            return Err(held(std::process::id()));
        }
        let mut opened = Self { id, file: None };
        let file = opened.file.insert(File::open(store).map_err(unreadable)?);
        // Elsewhere this lock could exclude those that SQLite takes.
        if cfg!(target_os = "linux") {
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(held(probe::holder(store, None).unwrap_or(0))),
                Err(TryLockError::Error(error)) => return Err(unreadable(error)),
            }
        }
        if found.nlink() > 1 {
            return Err(Error::Unusable(format!(
                "{store:?} has {} names (hard links), and its write-ahead log is found by its name: remove the other names, or \
                 copy the file",
                found.nlink()
            )));
        }
        Ok(opened)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // Before it can be opened again.
        drop(self.file.take());
        open_files().remove(&self.id);
    }
}

fn open_files() -> MutexGuard<'static, BTreeSet<(u64, u64)>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::{Options, Sqlite};
    use super::*;

    #[test]
    fn a_file_of_another_program_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        fs::write(&text, "x".repeat(200)).unwrap();
        let database = folder.path().join("database");
        rusqlite::Connection::open(&database).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
        for path in [&text, &database] {
            let before = fs::read(path).unwrap();
            assert_eq!(Sqlite::open(path, Options::default()).err().map(|error| error.code()), Some("store_unusable"));
            assert_eq!(fs::read(path).unwrap(), before);
            assert!(!beside(path, ".lock").exists(), "{path:?}");
        }
        // A second name of a store, whether the store is open or not.
        let (store, link) = (folder.path().join("store"), folder.path().join("link"));
        let open = Sqlite::open(&store, Options::default()).unwrap();
        fs::hard_link(&store, &link).unwrap();
        assert_eq!(Sqlite::open(&link, Options::default()).err().map(|error| error.code()), Some("store_held"));
        assert!(!beside(&link, ".lock").exists());
        drop(open);
        assert_eq!(Sqlite::open(&link, Options::default()).err().map(|error| error.code()), Some("store_unusable"));
        assert!(!beside(&link, ".lock").exists());
        // One that was there before may be in use.
        fs::write(beside(&text, ".lock"), "").unwrap();
        assert!(Sqlite::open(&text, Options::default()).is_err() && beside(&text, ".lock").exists());
    }
}
