//! The packages in `clients`, built once for all tests, in the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Tests run in several processes, and one builds for all.
const LOCK: &str = "lock";

/// The interpreter of a virtual environment that has the Python package, and what its tests need.
pub(crate) fn python() -> PathBuf {
    Path::new(built("python/venv.sh", None).trim()).join("bin/python")
}

/// The folder of the built Node package. `bin/node` in it is a Node that can run it.
pub(crate) fn node() -> PathBuf {
    let folder = target().join("node");
    built("node/build.sh", Some(&folder));
    folder
}

/// The file that a program in PHP requires in place of `vendor/autoload.php`.
pub(crate) fn php() -> PathBuf {
    clients().join("php/src/autoload.php")
}

/// What a script prints.
fn built(script: &str, argument: Option<&Path>) -> String {
    let target = target();
    std::fs::create_dir_all(&target).unwrap();
    let mut command = Command::new("flock");
    command.arg(target.join(LOCK)).arg(clients().join(script)).args(argument);
    command.env("CARGO_TARGET_DIR", target.parent().unwrap());
    let output = command.output().expect("flock, of util-linux");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "clients/{script}: {}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").canonicalize().unwrap()
}

/// `clients` in cargo's target folder.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("clients")
}
