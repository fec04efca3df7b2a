//! Files that only their owner can read, whatever the umask: stores, locks, backups, exports, tokens.
//!
//! New files are created exclusively, so data is never written through a link or a file that somebody else placed there.

use nix::libc::O_NOFOLLOW;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Read and write for the owner, nothing for others.
const MODE: u32 = 0o600;
/// The permission bits of a mode.
const PERMISSIONS: u32 = 0o7777;

/// Creates a new file.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if there is a file or a link; the system's errors.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(path)
}

/// Opens a file for locking, and creates it if it is missing. Its permissions are restricted, so that nobody else can lock
/// it.
///
/// # Errors
/// The system's errors, also for a link.
pub fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(MODE).custom_flags(O_NOFOLLOW).open(path)?;
    if file.metadata()?.mode() & PERMISSIONS != MODE {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    Ok(file)
}

/// A file that gets its final name once it is complete and on disk. Until then it has a random name in the same folder, and
/// is removed when this is dropped.
#[derive(Debug)]
pub struct Draft {
    file: NamedTempFile,
    target: PathBuf,
}

impl Draft {
    /// Creates an empty draft of this file.
    ///
    /// # Errors
    /// The system's errors, such as a folder that cannot be written to.
    pub fn of(target: &Path) -> io::Result<Self> {
        let name = target.file_name().ok_or_else(|| io::Error::from(ErrorKind::IsADirectory))?;
        let (mut prefix, suffix) = (std::ffi::OsString::from("."), ".part");
        prefix.push(name);
        prefix.push(".");
        // `tempfile` creates files exclusively, with mode 0600.
        let file = tempfile::Builder::new().prefix(&prefix).suffix(suffix).tempfile_in(folder(target))?;
        Ok(Self { file, target: target.to_owned() })
    }

    /// The same, with the owner, group and mode of the file that it will replace, if there is one.
    ///
    /// # Errors
    /// The same; also if this user cannot give a file that owner or group.
    pub fn like(target: &Path) -> io::Result<Self> {
        let draft = Self::of(target)?;
        if let Ok(found) = std::fs::symlink_metadata(target)
            && found.is_file()
        {
            let (file, new) = (draft.file.as_file(), draft.file.as_file().metadata()?);
            let other = |found, new| (found != new).then_some(found);
            fchown(file, other(found.uid(), new.uid()), other(found.gid(), new.gid()))?;
            // After the change of owner, for which the system clears some bits.
            file.set_permissions(Permissions::from_mode(found.mode() & PERMISSIONS))?;
        }
        Ok(draft)
    }

    /// Its path until it has its final name.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives it its final name, and replaces any file of that name.
    ///
    /// # Errors
    /// The system's errors. The previous file then remains.
    pub fn replace(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist(&self.target)?;
        File::open(folder(&self.target))?.sync_all()
    }

    /// Gives it its final name, which must not exist yet.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`]; the system's errors.
    pub fn keep(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist_noclobber(&self.target)?;
        File::open(folder(&self.target))?.sync_all()
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & PERMISSIONS
    }

    #[test]
    fn a_draft_has_its_name_once_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut draft = Draft::of(&path).unwrap();
        draft.write_all(b"one").unwrap();
        assert!(!path.exists() && mode(draft.path()) == MODE);
        draft.keep().unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"one".to_vec(), MODE));
        assert_eq!(Draft::of(&path).unwrap().keep().unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(Draft::of(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_file_that_is_replaced_by_its_like_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "one").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let mut draft = Draft::like(&path).unwrap();
        draft.write_all(b"two").unwrap();
        draft.replace().unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o640));
        Draft::of(&path).unwrap().replace().unwrap();
        assert_eq!(mode(&path), MODE);
    }

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        fs::write(&target, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        assert_eq!(create(&link).unwrap_err().kind(), ErrorKind::AlreadyExists);
        open_lock(&link).unwrap_err();
        let mut draft = Draft::of(&link).unwrap();
        draft.write_all(b"ours").unwrap();
        draft.replace().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
        assert_eq!((fs::read(&link).unwrap(), mode(&link)), (b"ours".to_vec(), MODE));
    }

    #[test]
    fn a_lock_that_others_could_open_is_closed_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        open_lock(&path).unwrap();
        assert_eq!(mode(&path), MODE);
    }
}
