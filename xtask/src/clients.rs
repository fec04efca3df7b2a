//! The strict checks of the packages in `clients`, where npm or pip brings the checkers. Their tests are among those of the server.

use crate::repo::Metadata;
use crate::{process, repo};

/// Runs the checks of each package; one that fails does not keep the other from running.
pub(crate) fn check(metadata: &Metadata) -> Result<(), String> {
    let failed: Vec<_> = ["node", "python"].iter().filter_map(|package| run(package, metadata).err()).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

fn run(package: &str, metadata: &Metadata) -> Result<(), String> {
    let mut command = std::process::Command::new(repo::root().join("clients").join(package).join("check.sh"));
    command.env("CARGO_TARGET_DIR", &metadata.target_directory);
    process::run(command)
}
