//! `lock`: a command under a lock of a server.

use crate::cli::server::Server;
use crate::cli::support::{finish, is_running, pid, pid_in, until, wait};
use nix::sys::signal::{Signal, kill};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

impl Server {
    /// Begins a command under a lock, which runs this script.
    fn locked(&self, options: &[&str], script: &str) -> Child {
        let mut command = self.place.bare(&[&["lock", "l"], options, &["--", "sh", "-c", script]].concat());
        command.env("DUETIME_SERVER", &self.url).stdin(Stdio::null()).spawn().unwrap()
    }
}

#[test]
fn the_command_runs_with_its_fence_and_its_end_is_ours() {
    let server = Server::start();
    let script = "echo $DUETIME_LOCK $DUETIME_FENCE $DUETIME_SERVER; cat; exit 7";
    let arguments = ["lock", "a b/ü", "--server", &server.url, "--", "sh", "-c", script];
    let fence = || {
        let ran = finish(server.place.bare(&arguments), b"input");
        assert_eq!(ran.code, 7, "{ran:?}");
        let line = ran.out.lines().next().unwrap();
        let fence = line.strip_prefix("a b/ü ").and_then(|rest| rest.strip_suffix(&format!(" {}", server.url)));
        assert!(ran.out.ends_with("input"), "{ran:?}");
        fence.unwrap_or_else(|| panic!("{ran:?}")).parse::<u64>().unwrap()
    };
    assert!(fence() < fence(), "it was released, and the fence grows");
    assert_eq!(server.run(&["lock", "l", "--", "true"]).code, 0);
    assert_eq!(server.run(&["lock", "l", "--", "sh", "-c", "kill -9 $$"]).code, 137);
}

#[test]
fn a_held_lock_is_told_by_the_exit_code() {
    let server = Server::start();
    let holder = server.locked(&[], "echo $$ > started; exec sleep 1000");
    let command = pid_in(&server.place.path("started"));
    let ran = server.run(&["lock", "l", "--", "touch", "ran"]);
    assert_eq!((ran.code, &*ran.err), (69, ""), "cron sends a mail for every word");
    let begin = Instant::now();
    assert_eq!(server.run(&["lock", "l", "--wait", "300ms", "--", "touch", "ran"]).code, 69);
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert!(!server.place.path("ran").exists());
    assert_eq!(server.run(&["lock", "other", "--", "true"]).code, 0);

    let waiter = server.locked(&["--wait", "60s"], "exit 3");
    kill(pid(&holder), Signal::SIGTERM).unwrap();
    assert_eq!(wait(holder).code(), Some(143), "it was passed on to the command");
    assert!(!is_running(command));
    assert_eq!(wait(waiter).code(), Some(3), "it came next");
}

#[test]
fn signals_are_passed_on_and_the_command_decides() {
    let server = Server::start();
    for (signal, name) in [(Signal::SIGTERM, "TERM"), (Signal::SIGINT, "INT"), (Signal::SIGHUP, "HUP")] {
        let file = server.place.path("started");
        // A shell heeds a trap once the child that it waits for has ended.
        let script = format!("trap 'exit 5' {name}; echo $$ > started; while :; do sleep 0.01; done");
        let child = server.locked(&[], &script);
        pid_in(&file);
        kill(pid(&child), signal).unwrap();
        assert_eq!(wait(child).code(), Some(5), "{name}");
        std::fs::remove_file(file).unwrap();
    }
    assert_eq!(server.run(&["lock", "l", "--", "true"]).code, 0, "it was released");
}

#[test]
fn one_who_waits_is_ended_by_a_signal() {
    let server = Server::start();
    let holder = server.locked(&[], "echo $$ > started; exec sleep 1000");
    pid_in(&server.place.path("started"));
    let waiter = server.locked(&["--wait", "10m"], "exit 3");
    let waiting = pid(&waiter);
    let ended = std::thread::spawn(move || wait(waiter));
    until("the waiter has ended", || {
        // Before it listens, the signal ends it by default.
        let _ = kill(waiting, Signal::SIGTERM);
        ended.is_finished().then_some(())
    });
    let status = ended.join().unwrap();
    assert!(status.code() == Some(143) || status.signal() == Some(15), "{status}");
    kill(pid(&holder), Signal::SIGINT).unwrap();
    assert_eq!(wait(holder).code(), Some(130));
}

#[test]
fn a_holder_that_dies_is_followed_once_its_time_is_over() {
    let server = Server::start();
    let holder = server.locked(&["--ttl", "1s"], "echo $$ > started; exec sleep 1000");
    let command = pid_in(&server.place.path("started"));
    kill(pid(&holder), Signal::SIGKILL).unwrap();
    wait(holder);
    let begin = Instant::now();
    assert_eq!(server.run(&["lock", "l", "--wait", "60s", "--", "true"]).code, 0);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    kill(command, Signal::SIGKILL).unwrap();
}

#[test]
fn a_lost_lock_ends_the_command() {
    let mut server = Server::start();
    let script = "trap '' TERM; (trap '' TERM; sleep 1000) & echo $! > grandchild; echo $$ > started; wait; wait";
    let child = server.locked(&["--ttl", "500ms"], script);
    let (command, grandchild) = (pid_in(&server.place.path("started")), pid_in(&server.place.path("grandchild")));
    let gone = server.child.take().unwrap();
    kill(pid(&gone), Signal::SIGKILL).unwrap();
    wait(gone);
    assert_eq!(wait(child).code(), Some(70));
    // Killed they are; the system may take a moment to do it.
    until("the command's end", || (!is_running(command) && !is_running(grandchild)).then_some(()));
}

#[test]
fn what_cannot_be_run_takes_no_lock() {
    let server = Server::start();
    assert_eq!(server.run(&["lock", "l", "--", "no-such-program"]).code, 127);
    assert_eq!(server.run(&["lock", "l", "--", "/etc/passwd"]).code, 126);
    assert_eq!(server.run(&["lock", "l", "--ttl", "99ms", "--", "true"]).code, 2);
    assert_eq!(server.run(&["lock", "", "--", "true"]).code, 2);
    assert_eq!(server.run(&["lock", "l"]).code, 2);
    let arguments = ["lock", "l", "--server", "http://127.0.0.1:1", "--", "true"];
    let ran = finish(server.place.bare(&arguments), b"");
    assert!(ran.code == 75 && ran.err.contains("cannot connect"), "{ran:?}");
}
