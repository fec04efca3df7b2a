//! A rolling upgrade from an older version to this one, on one Redis beside each kind of ledger.
//!
//! The tests are in `crates/server/tests/upgrade`. This command builds the older binary from a copy of its files below
//! `target/upgrade`, which is kept for the next run.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repo::Metadata;
use crate::{process, repo, setup};

/// Names the older binary to the test.
const OLD_BINARY: &str = "DUETIME_OLD_BIN";

/// Upgrades from this revision, showing the progress.
pub(crate) fn run(revision: &str) -> Result<(), String> {
    setup::install_missing()?;
    let mut command = Command::new("git");
    command.args(["rev-parse", "--verify", "--end-of-options", &format!("{revision}^{{commit}}")]);
    command.current_dir(repo::root());
    let commit = process::output(command)?.trim().to_owned();
    let binary = older_binary(&Metadata::read()?.target_directory.join("upgrade").join(&commit), &commit)?;
    let which = ["-p", "duetime-server", "--all-features", "--test", "upgrade"];
    let mut test = process::cargo(["test"].iter().chain(&which));
    test.args(["--", "--nocapture", "--test-threads=1"]).env(OLD_BINARY, binary);
    process::run(test)
}

/// Builds a commit's server, in a folder with its own target.
fn older_binary(folder: &Path, commit: &str) -> Result<PathBuf, String> {
    let (source, target) = (folder.join("src"), folder.join("out"));
    std::fs::create_dir_all(&source).map_err(|error| format!("{} cannot be made: {error}", source.display()))?;
    let archive = folder.join("src.tar");
    let mut pack = Command::new("git");
    pack.args(["archive", "--format=tar", "--output"]).arg(&archive).arg(commit).current_dir(repo::root());
    process::run(pack)?;
    let mut unpack = Command::new("tar");
    unpack.args(["-x", "-f"]).arg(&archive).arg("-C").arg(&source);
    process::run(unpack)?;
    let mut build = process::cargo(["build", "--locked", "-p", "duetime-server", "--target-dir"]);
    build.arg(&target).current_dir(&source);
    process::run(build)?;
    Ok(target.join("debug/duetime"))
}
