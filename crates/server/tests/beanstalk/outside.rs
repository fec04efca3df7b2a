//! Real clients, and Debian's beanstalkd itself: `cargo xtask outside`.

use super::corners::converse_all;
use super::script::Pieces;
use super::server::{Alone, free_port};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Beside other clients, beanstalkd 1.12 may end a time to run only when the next client comes.
const LATE_THERE: &str = "a time to run ends";

/// The conversations are what beanstalkd itself says, but for those that say that they are ours.
#[test]
fn beanstalkd_converses_so_too() {
    for pieces in [Pieces::Lines, Pieces::Together] {
        let server = Alone::run(Command::new("/usr/bin/beanstalkd"), free_port(), &[]);
        converse_all(server.address, pieces, |heading| !heading.ends_with("(ours)") && heading != LATE_THERE);
    }
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/beanstalk/clients");

/// Runs a client's program against a server of its own.
fn run(mut command: Command, script: &str) {
    let server = Alone::start(&[]);
    let port = server.address.port().to_string();
    let ran = command.arg(format!("{FOLDER}/{script}")).arg(&port).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.ends_with("all is well\n"), "{out}\n{err}");
}

/// A folder for what registries give, kept beside what was built.
fn installed(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn succeeds(command: &mut Command) {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn greenstalk_works() {
    let folder = installed("greenstalk");
    let mut pip = Command::new("/usr/bin/python3");
    succeeds(pip.args(["-m", "pip", "install", "-q", "--target"]).arg(&folder).arg("greenstalk==2.1.1"));
    let mut python = Command::new("/usr/bin/python3");
    python.env("PYTHONPATH", &folder).env("PYTHONDONTWRITEBYTECODE", "1");
    run(python, "with_greenstalk.py");
}

#[test]
fn jackd_works() {
    let folder = installed("jackd");
    succeeds(Command::new("npm").args(["install", "--silent", "--prefix"]).arg(&folder).arg("jackd@2.2.2"));
    let mut node = Command::new("node");
    node.env("JACKD", folder.join("node_modules/jackd"));
    run(node, "with_jackd.cjs");
}

#[test]
fn pheanstalk_of_debian_works() {
    run(Command::new("/usr/bin/php"), "with_pheanstalk.php");
}

#[test]
fn the_worker_of_laravel_works() {
    run(Command::new("/usr/bin/php"), "with_laravel.php");
}
