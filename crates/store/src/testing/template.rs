//! New databases, made once for each boot of the machine and copied after that: making one takes a second or more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of a new database called so; `make` makes it in an empty folder.
///
/// # Panics
///
/// If it cannot be made.
pub(super) fn template(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let user = nix::unistd::geteuid();
    let path = std::env::temp_dir().join(format!("duetime-{name}-{user}-{}", boot.trim()));
    if !path.exists() {
        let folder = tempfile::Builder::new().prefix("duetime-template-").tempdir().expect("a folder");
        open(folder.path());
        make(folder.path());
        // Of several tests that make one at the same time the first wins.
        if fs::rename(folder.path(), &path).is_ok() {
            let _ = folder.keep();
        }
    }
    path
}

/// Copies it, with its owner.
///
/// # Panics
///
/// If that fails.
pub(super) fn copy(template: &Path, to: &Path) {
    run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(template).arg(to));
}

/// Runs a command to its end.
///
/// # Panics
///
/// With what it printed, if it fails.
pub(super) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}: {printed}", output.status);
}

/// Lets other users enter a folder.
pub(super) fn open(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("a folder of ours");
}
