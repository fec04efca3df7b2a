//! Real clients, and Debian's beanstalkd itself: `cargo xtask outside`.

use super::corners::converse_all;
use super::script::Pieces;
use super::server::{Alone, free_port};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Beside other clients, beanstalkd 1.12 may end a time to run only when the next client comes.
const LATE_THERE: &str = "a time to run ends";

/// The conversations match beanstalkd itself, except those marked as ours.
#[test]
fn beanstalkd_converses_so_too() {
    for pieces in [Pieces::Lines, Pieces::Together] {
        let server = Alone::original(free_port(), &[]);
        converse_all(server.address, pieces, |heading| !heading.ends_with("(ours)") && heading != LATE_THERE);
    }
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/beanstalk/clients");

/// Runs a client's program against its own server.
fn run(mut command: Command, script: &str) {
    let server = Alone::start(&[]);
    let port = server.address.port().to_string();
    let ran = command.arg(format!("{FOLDER}/{script}")).arg(&port).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.ends_with("all is well\n"), "{out}\n{err}");
}

/// A folder for downloads from registries, kept beside the build output.
fn installed(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn succeeds(command: &mut Command) {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Python with a package of its registry.
fn python_with(name: &str, version: &str) -> Command {
    let folder = installed(name);
    let mut pip = Command::new("/usr/bin/python3");
    pip.args(["-m", "pip", "install", "-q", "--upgrade", "--target"]).arg(&folder).arg(format!("{name}=={version}"));
    succeeds(&mut pip);
    let mut python = Command::new("/usr/bin/python3");
    python.env("PYTHONPATH", &folder).env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

#[test]
fn greenstalk_works() {
    run(python_with("greenstalk", "2.1.1"), "with_greenstalk.py");
}

#[test]
fn pystalk_works() {
    run(python_with("pystalk", "0.9.1"), "with_pystalk.py");
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

/// Also across a kill of the server.
#[test]
fn the_worker_of_laravel_works() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let start = || Some(Alone::at(port, folder.path()));
    let mut server = start();
    let mut php = Command::new("/usr/bin/php");
    php.arg(format!("{FOLDER}/with_laravel.php")).arg(port.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut php = php.spawn().unwrap();
    let (mut to_php, from_php) = (php.stdin.take().unwrap(), BufReader::new(php.stdout.take().unwrap()));
    let mut said = Vec::new();
    for line in from_php.lines().map(Result::unwrap) {
        if line == "restart" {
            drop(server.take());
            server = start();
            to_php.write_all(b"\n").unwrap();
        }
        said.push(line);
    }
    assert!(php.wait().unwrap().success(), "{said:?}");
    assert_eq!(said, ["restart", "all is well"]);
}
