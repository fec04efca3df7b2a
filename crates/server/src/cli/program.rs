//! The program that a command runs, found before anything is done.

use super::exit::{Failure, NOT_EXECUTABLE, NOT_FOUND, Result, TRY_LATER, USAGE};
use nix::unistd::{AccessFlags, access};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// A program and its arguments.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// The name it was called by.
    pub(super) name: OsString,
    /// Its file.
    pub(super) path: PathBuf,
    /// Its arguments.
    pub(super) arguments: Vec<OsString>,
}

impl Program {
    /// Finds the program of a command, in `PATH` if it is not a path itself.
    pub(super) fn find(command: &[OsString]) -> Result<Self> {
        let (name, arguments) =
            command.split_first().ok_or_else(|| Failure::new(USAGE, "there is no command after `--`"))?;
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let path = find_in(name, &folders)?;
        Ok(Self { name: name.clone(), path, arguments: arguments.to_vec() })
    }

    /// Why it could not be started, and what was done about it.
    pub(super) fn not_started(&self, error: &io::Error, done: &str) -> Failure {
        let code = match error.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => TRY_LATER,
            _ => NOT_EXECUTABLE,
        };
        Failure::new(code, format!("{:?} cannot be started: {error}; {done}", self.path))
    }
}

fn find_in(name: &OsStr, folders: &OsStr) -> Result<PathBuf> {
    let is_path = Path::new(name).components().count() > 1 || name.as_encoded_bytes().contains(&b'/');
    let places: Vec<PathBuf> = if is_path {
        vec![PathBuf::from(name)]
    } else {
        std::env::split_paths(folders).map(|folder| folder.join(name)).collect()
    };
    let files: Vec<&PathBuf> = places.iter().filter(|place| place.is_file()).collect();
    if let Some(&file) = files.iter().find(|file| access(file.as_path(), AccessFlags::X_OK).is_ok()) {
        // A command may be run from another folder later, so its path must not depend on this one.
        return Ok(std::path::absolute(file)?);
    }
    Err(match files.first() {
        Some(file) => Failure::new(NOT_EXECUTABLE, format!("{} is not executable", file.display()))
            .hint("make it executable with `chmod +x`, or put its interpreter before it; nothing was started"),
        None => Failure::new(NOT_FOUND, format!("the command {} was not found", name.display()))
            .hint("check the name, PATH and the current folder; nothing was started"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_path() {
        assert_eq!(find_in(OsStr::new("sh"), OsStr::new("/nowhere:/bin")).unwrap(), Path::new("/bin/sh"));
        assert_eq!(find_in(OsStr::new("/bin/sh"), OsStr::new("")).unwrap(), Path::new("/bin/sh"));
        assert!(find_in(OsStr::new("no-such-program"), OsStr::new("/bin")).is_err());
        assert!(find_in(OsStr::new("/etc/passwd"), OsStr::new("/bin")).unwrap_err().to_string().contains("executable"));
        assert!(find_in(OsStr::new("/bin"), OsStr::new("/bin")).is_err());
    }
}
