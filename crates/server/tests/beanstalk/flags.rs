//! `duetime beanstalk` with beanstalkd's flags.

use super::script::Talk;
use super::server::{Alone, free_port};
use crate::common::binary;
use nix::sys::signal::Signal;
use nix::unistd::{Uid, User};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

#[test]
fn beanstalkds_flags_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/wal");
    let path = path.to_str().unwrap();
    let server = Alone::start(&["-b", path, "-f", "50", "-n", "-s", "10485760", "-z", "10", "-V", "-V"]);
    let mut talk = Talk::open(server.address);
    talk.send(b"put 1 0 1 11\r\n12345678901\r\nput 1 0 1 10\r\n1234567890\r\n");
    assert_eq!(talk.line(), "JOB_TOO_BIG");
    assert!(talk.line().starts_with("INSERTED "));
    assert_eq!(talk.stats("stats").unwrap()["max-job-size"], "10");
    drop(server);
    drop(Alone::start(&["-b", path, "-F"]));
    for wrong in [&["-l", "nowhere"][..], &["-z", "999999999"], &["-p", "99999"], &["-u", "nobody-of-that-name"]] {
        let port = free_port().to_string();
        let mut command = Command::new(binary());
        command.env_clear().arg("beanstalk").args(wrong);
        if wrong[0] != "-p" {
            command.args(["-p", &port]);
        }
        let ended = command.output().unwrap();
        assert!(!ended.status.success(), "{wrong:?}");
        let err = String::from_utf8(ended.stderr).unwrap();
        assert!(err.contains(wrong[0]) && err.contains(wrong[1]), "{err}");
    }
    let version = Command::new(binary()).args(["beanstalk", "-v"]).output().unwrap();
    assert_eq!(String::from_utf8(version.stdout).unwrap(), format!("duetime {}\n", env!("CARGO_PKG_VERSION")));
}

/// All of the process: root may become anybody, others may not.
#[test]
fn the_server_becomes_another_user() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let arguments = ["-u", "nobody", "-b", folder.path().to_str().unwrap()];
    if !Uid::effective().is_root() {
        let ended = Command::new(binary()).env_clear().args(["beanstalk", "-p", "0"]).args(arguments).output().unwrap();
        let err = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success() && err.contains("cannot switch to the user \"nobody\" of -u"), "{err}");
        return;
    }
    let server = Alone::start(&arguments);
    let mut talk = Talk::open(server.address);
    talk.send(b"put 1 0 1 1\r\na\r\n");
    assert!(talk.line().starts_with("INSERTED "));
    let nobody = User::from_name("nobody").unwrap().unwrap();
    for task in std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let ids = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>()
        };
        assert_eq!((ids("Uid:"), ids("Gid:")), (vec![nobody.uid.as_raw(); 4], vec![nobody.gid.as_raw(); 4]));
        assert!(!ids("Groups:").contains(&0), "{status}");
    }
    assert_eq!(std::fs::metadata(folder.path().join("duetime.db")).unwrap().uid(), nobody.uid.as_raw());
}

#[test]
fn a_socket_in_the_file_system_is_listened_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listen = format!("unix:{}", path.display());
    let start = || {
        let mut command = Command::new(binary());
        command.env_clear().args(["beanstalk", "-l", &listen]).stdin(Stdio::null());
        let child = command.spawn().unwrap();
        while UnixStream::connect(&path).is_err() {
            std::thread::yield_now();
        }
        child
    };
    let mut child = start();
    let mut talk = UnixStream::connect(&path).unwrap();
    talk.write_all(b"put 1 0 1 1\r\na\r\nquit\r\n").unwrap();
    let mut answer = String::new();
    talk.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("INSERTED "), "{answer}");
    child.kill().unwrap();
    child.wait().unwrap();
    // A socket that a killed process left behind is replaced.
    let mut child = start();
    let second = Command::new(binary()).env_clear().args(["beanstalk", "-l", &listen]).output().unwrap();
    assert!(String::from_utf8(second.stderr).unwrap().contains("address is in use"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_file_that_is_no_socket_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    std::fs::write(&path, "precious").unwrap();
    let listen = format!("unix:{}", path.display());
    let refused = Command::new(binary()).env_clear().args(["beanstalk", "-l", &listen]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("precious"), "{said}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

/// Units of systemd append options to those that they have.
#[test]
fn of_a_flag_that_is_repeated_the_last_counts() {
    let server = Alone::start(&["-z", "1", "-V", "-l", "not.a.host.invalid", "-V", "-z", "3", "-l", "localhost"]);
    let mut talk = Talk::open(server.address);
    assert_eq!(talk.stats("stats").unwrap()["max-job-size"], "3");
    for (flags, expected) in [
        (["-l", "127.0.0.1:11300"], "the port is -p"),
        (["-b", "/dev/null/folder"], "of -b cannot be created or written"),
        (["-l", "unix:/no/such/folder/socket"], "No such file"),
    ] {
        let refused = Command::new(binary()).env_clear().arg("beanstalk").args(flags).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains(expected), "{flags:?}: {said}");
        assert!(!said.contains("address is in use"), "{said}");
    }
}

#[test]
fn a_server_drains_and_stops() {
    let mut server = Alone::start(&[]);
    let mut talk = Talk::open(server.address);
    talk.send(b"put 1 0 100 1\r\na\r\n");
    assert!(talk.line().starts_with("INSERTED "));
    server.signal(Signal::SIGUSR1);
    while talk.stats("stats").unwrap()["draining"] == "false" {}
    talk.send(b"put 1 0 1 1\r\na\r\nput 1 0 1 1\r\nabc\r\n");
    assert_eq!(
        (talk.line(), talk.line(), talk.line()),
        ("DRAINING".into(), "EXPECTED_CRLF".into(), "UNKNOWN_COMMAND".into())
    );
    assert!(talk.ask("reserve").starts_with("RESERVED "));
    talk.line();
    let mut waiting = Talk::open(server.address);
    waiting.send(b"reserve\r\n");
    while talk.stats("stats").unwrap()["current-waiting"] == "0" {}
    server.signal(Signal::SIGTERM);
    // As with beanstalkd, a `reserve` without a limit is answered with a job or not at all.
    assert!(waiting.is_at_end() && talk.is_at_end());
    assert_eq!(server.wait(), Some(0));
}
