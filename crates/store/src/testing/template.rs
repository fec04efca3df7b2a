//! New databases, created once for each boot of the machine and then copied, because creating one takes a second or more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Returns the folder of a new database of this name; `make` creates it in an empty folder.
///
/// # Panics
///
/// If it cannot be created.
pub(super) fn template(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let user = nix::unistd::geteuid();
    let path = std::env::temp_dir().join(format!("duetime-{name}-{user}-{}", boot.trim()));
    if !path.exists() {
        let folder = tempfile::Builder::new().prefix("duetime-template-").tempdir().expect("a folder");
        open(folder.path());
        make(folder.path());
        // If several tests create one at the same time, the first wins.
        if fs::rename(folder.path(), &path).is_ok() {
            let _ = folder.keep();
        }
    }
    path
}

/// The owner of a folder: a process id.
const OWNER: &str = "owner";

/// Creates a folder of this process that others may enter. Folders left behind by killed tests, or by servers that ran until
/// the end of their process, are removed first, because databases are large.
pub(super) fn folder(prefix: &str) -> TempDir {
    for left in fs::read_dir(std::env::temp_dir()).into_iter().flatten().filter_map(Result::ok) {
        let is_ours = left.file_name().to_string_lossy().starts_with(prefix);
        let owner = fs::read_to_string(left.path().join(OWNER));
        // A folder without an owner is being created, or is a template.
        if is_ours && owner.is_ok_and(|owner| !Path::new("/proc").join(owner).exists()) {
            let _ = fs::remove_dir_all(left.path());
        }
    }
    let folder = tempfile::Builder::new().prefix(prefix).tempdir().expect("a folder");
    open(folder.path());
    fs::write(folder.path().join(OWNER), std::process::id().to_string()).expect("a file in a new folder");
    folder
}

/// Copies a folder, including its owner.
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
/// With the output of the command, if it fails.
pub(super) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}: {printed}", output.status);
}

/// Lets other users enter a folder.
fn open(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("a folder of ours");
}
