//! A folder with the files of a package, before they are packed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{process, repo};

pub(super) struct Stage(PathBuf);

impl Stage {
    /// An empty folder; its former content is removed.
    pub(super) fn new(folder: PathBuf) -> Result<Self, String> {
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(&folder, &error)),
            _ => {}
        }
        fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
        Ok(Self(folder))
    }

    /// A path in the folder; of `""` the folder itself.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.0.clone() } else { self.0.join(path) }
    }

    /// Copies a file of the repository.
    pub(super) fn copy(&self, from: &str, to: &str) -> Result<(), String> {
        let (from, to) = (repo::root().join(from), self.path(to));
        make_parent(&to)?;
        fs::copy(&from, to).map(drop).map_err(|error| failed(&from, &error))
    }

    pub(super) fn write(&self, to: &str, text: &str) -> Result<(), String> {
        write(&self.path(to), text)
    }

    pub(super) fn chmod(&self, mode: &str, path: &str) -> Result<(), String> {
        process::run(self.command("chmod", ["-R", mode, path].map(str::to_owned)))
    }

    /// A program that is run in the folder.
    pub(super) fn command(&self, program: &str, arguments: impl IntoIterator<Item = String>) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.0);
        command
    }

    /// All files, in order, by their paths from the folder.
    pub(super) fn files(&self) -> Result<Vec<String>, String> {
        let mut files = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(|error| failed(&folder, &error))? {
                let path = entry.map_err(|error| failed(&folder, &error))?.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push(path.strip_prefix(&self.0).unwrap_or(&path).display().to_string());
                }
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Its size when it is installed, in KiB, as Debian estimates it.
    pub(super) fn kib(&self) -> Result<u64, String> {
        let size = |path: String| fs::metadata(self.path(&path)).map_err(|error| failed(&self.path(&path), &error));
        self.files()?.into_iter().map(|path| Ok(size(path)?.len().div_ceil(1024))).sum()
    }
}

/// Writes a file, and its folder if it is not there.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    make_parent(path)?;
    fs::write(path, text).map_err(|error| failed(path, &error))
}

/// Makes the folder that a file is in.
pub(super) fn make_parent(path: &Path) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))
}

/// An error of a file or folder.
pub(super) fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
