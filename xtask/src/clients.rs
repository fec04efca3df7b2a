//! The packages in `clients`: each runs its own tests (`test.sh`), and its own strict checks (`check.sh`).

use std::path::Path;
use std::process::Command;

use crate::repo::Metadata;
use crate::{process, repo};

/// Those with tests.
const TESTED: [&str; 4] = ["laravel", "node", "php", "python"];
/// Those whose checkers npm or pip brings.
const CHECKED: [&str; 2] = ["node", "python"];

/// Runs the tests of each package, against the binary that cargo built for our own tests.
pub(crate) fn test(metadata: &Metadata) -> Result<(), String> {
    each(&TESTED, "test.sh", metadata)
}

/// Runs the strict checks.
pub(crate) fn check(metadata: &Metadata) -> Result<(), String> {
    each(&CHECKED, "check.sh", metadata)
}

/// One that fails does not keep the others from running.
fn each(packages: &[&str], script: &str, metadata: &Metadata) -> Result<(), String> {
    let failed: Vec<_> = packages.iter().filter_map(|package| run(package, script, metadata).err()).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

fn run(package: &str, script: &str, metadata: &Metadata) -> Result<(), String> {
    let target: &Path = &metadata.target_directory;
    let mut command = Command::new(repo::root().join("clients").join(package).join(script));
    command.env("CARGO_TARGET_DIR", target).env("DUETIME_BIN", target.join("debug/duetime"));
    process::run(command)
}
