//! Reads the repository: its root, its files, and cargo's metadata of its packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::process;

/// The root of the repository, independent of the current folder.
pub(crate) fn root() -> PathBuf {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_dir.parent().unwrap_or(manifest_dir).to_path_buf()
}

/// A text file of the repository.
pub(crate) struct Source {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All text files that are tracked or about to be (new and not ignored), in order of their paths.
pub(crate) fn sources() -> Result<Vec<Source>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let listing = process::output(git)?;
    let mut paths: Vec<_> = listing.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    // Files that are not UTF-8 are not text, and listed files that are missing have just been deleted. Both are skipped.
    let read =
        |path: &str| Some(Source { path: path.to_owned(), text: std::fs::read_to_string(root().join(path)).ok()? });
    Ok(paths.into_iter().filter_map(read).collect())
}

/// The part of `cargo metadata` that the checks use.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    pub(crate) target_directory: PathBuf,
}

/// A package of the workspace or one that it depends on.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// The registry or repository that it comes from; `None` for a path.
    pub(crate) source: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency as the manifest states it.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) rename: Option<String>,
}

impl Dependency {
    /// The name under which the package's sources know it, before `-` becomes `_`.
    pub(crate) fn local_name(&self) -> &str {
        self.rename.as_deref().unwrap_or(&self.name)
    }
}

impl Metadata {
    /// The packages that are built on this platform; fails if `Cargo.lock` is not up to date.
    pub(crate) fn read() -> Result<Self, String> {
        let host = host()?;
        let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &host];
        let text = process::output(process::cargo(arguments))?;
        serde_json::from_str(&text)
            .map_err(|error| format!("`cargo metadata` answered what we do not understand: {error}"))
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }
}

/// The target triple of this machine, as rustc calls it.
pub(crate) fn host() -> Result<String, String> {
    let mut rustc = Command::new("rustc");
    rustc.arg("-vV");
    let text = process::output(rustc)?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| "`rustc -vV` names no host".to_owned())
}
