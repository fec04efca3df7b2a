//! Probes a file without changing it or waiting for a lock: its header, and the process that holds it.

use super::file::beside;
use super::{file, schema};
use duetime_core::Error;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Offsets of `user_version` and `application_id` in the header of an SQLite file: big-endian, 4 bytes.
const USER_VERSION: usize = 60;
const APPLICATION_ID: usize = 68;
/// Bytes of that header.
const HEAD_BYTES: usize = 100;

/// The schema version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// There is no file yet, or an empty one.
    Nothing,
    /// Its first page is still in the log, which only SQLite reads: it is new, or its process was killed.
    InLog,
    /// It has this schema.
    Schema(usize),
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeReport {
    /// Its full path.
    pub path: PathBuf,
    /// Its schema version.
    pub state: FileState,
    /// The schema version of this program.
    pub schema_known: usize,
    /// Bytes of the file and its log.
    pub bytes: u64,
    /// Bytes of the log. If no process holds the file, the last one was killed, or did not wait for the copy at its end.
    pub log_bytes: u64,
    /// The process that holds it, if the system can tell.
    pub held_by: Option<u32>,
}

/// Probes the store in a file. Not for a process that has the file open: closing an SQLite file releases all locks that the
/// process holds on it.
///
/// # Errors
/// [`Error::Unusable`] if the file is not a store or cannot be read; [`Error::Damaged`].
pub fn probe(path: &Path) -> Result<ProbeReport, Error> {
    let path = file::locate(path)?;
    file::check_head(&path)?;
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    let log = bytes(&beside(&path, "-wal"));
    let state = match head(&path)? {
        None => FileState::Nothing,
        Some((schema, application)) if log > 0 && !schema::is_ours(schema, application) => FileState::InLog,
        Some((schema, application)) => {
            schema::judge(schema, application, true, &path.display().to_string())?;
            FileState::Schema(schema)
        }
    };
    let all = bytes(&path) + log;
    let lock = beside(&path, ".lock");
    let named = fs::read_to_string(&lock).ok().and_then(|text| text.trim().parse().ok());
    let held_by = holder(&lock, named).or_else(|| holder(&path, None));
    Ok(ProbeReport { state, schema_known: schema::known(), bytes: all, log_bytes: log, held_by, path })
}

/// The schema version and the application id; `None` if there is nothing yet.
fn head(path: &Path) -> Result<Option<(usize, i32)>, Error> {
    let unreadable = |error: std::io::Error| Error::Unusable(format!("{path:?} cannot be read ({error})"));
    if !path.exists() {
        return Ok(None);
    }
    let mut head = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(unreadable)?;
    let number =
        |place: usize| head.get(place..place + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
    let (Some(schema), Some(application)) = (number(USER_VERSION), number(APPLICATION_ID)) else { return Ok(None) };
    Ok(Some((usize::try_from(schema).unwrap_or(usize::MAX), application)))
}

/// The process that has locked a file, from the system's list of locks; the `named` one, if it is given. Trying the lock could
/// make a server that is just starting fail.
pub(super) fn holder(file: &Path, named: Option<u32>) -> Option<u32> {
    let inode = fs::metadata(file).ok()?.ino();
    // Such as `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`.
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let of_ours =
            words.get(1) == Some(&"FLOCK") && words.get(5)?.rsplit(':').next()?.parse::<u64>().ok() == Some(inode);
        let pid = words.get(4)?.parse::<u32>().ok();
        // Inside a container the process may have another number, or none.
        of_ours.then(|| named.or(pid)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_looked_at_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let probed = probe(&path).unwrap();
        assert_eq!((probed.state, probed.bytes, probed.held_by), (FileState::Nothing, 0, None));
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing was made");
        let mut connection = rusqlite::Connection::open(&path).unwrap();
        schema::migrate(&mut connection, "it").unwrap();
        connection.close().unwrap();
        let probed = probe(&path).unwrap();
        assert_eq!((probed.state, probed.held_by), (FileState::Schema(schema::known()), None));
        assert_eq!(probed.bytes, fs::metadata(&path).unwrap().len());
    }

    #[test]
    fn who_holds_a_lock_is_told_by_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let lock = super::super::Lock::take(&path).unwrap();
        assert_eq!(probe(&path).unwrap().held_by, Some(std::process::id()));
        drop(lock);
        assert_eq!(probe(&path).unwrap().held_by, None);
    }

    #[test]
    fn what_is_no_store_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        fs::write(&path, "x".repeat(200)).unwrap();
        let error = probe(&path).unwrap_err();
        assert_eq!(error.code(), "store_unusable");
        assert!(error.to_string().contains("is not an SQLite file: name another file"), "{error}");
        for damaged in [&[0; 200][..], b"SQLite format 3\0 cut"] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(probe(&path).unwrap_err().code(), "store_damaged");
        }
        fs::remove_file(&path).unwrap();
        rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
        assert!(probe(&path).unwrap_err().to_string().contains("another program"));
        assert_eq!(probe(folder.path()).unwrap_err().code(), "store_unusable");
    }
}
