//! `work`: commands that are ended.

use crate::cli::support::{Place, is_running, pid, pid_in, until, wait};
use nix::sys::signal::{Signal, kill};
use std::process::Stdio;

#[test]
fn the_time_limit_ends_the_whole_group() {
    let place = Place::new();
    let id = place.push(&["x"]);
    let script = "(sleep 1000 & echo $! > grandchild; wait) ; true";
    place.ok(&["work", "default", "--once", "--time-limit", "500ms", "--", "sh", "-c", script]);
    assert!(!is_running(pid_in(&place.path("grandchild"))));
    let job = place.job(&id);
    assert_eq!(job["state"], "scheduled");
    assert!(job["message"].as_str().unwrap().contains("longer than 500ms"), "{job}");
}

#[test]
fn a_lease_is_extended_while_the_command_runs() {
    let place = Place::new();
    let id = place.push(&["x"]);
    place.ok(&["work", "default", "--once", "--lease", "1s", "--", "sleep", "3"]);
    let job = place.job(&id);
    assert_eq!((&job["state"], &job["attempt"], &job["crashes"]), (&"succeeded".into(), &1.into(), &0.into()));
}

#[test]
fn a_background_process_does_not_hold_the_worker() {
    let place = Place::new();
    let id = place.push(&["x"]);
    let script = "sleep 1000 >/dev/null & echo $! > left";
    let arguments = ["work", "default", "--once", "--", "sh", "-c", script];
    // It holds our standard error: with a pipe of ours there, the test would wait for it.
    let mut command = place.command(&arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(wait(command.spawn().unwrap()).success());
    assert_eq!(place.job(&id)["state"], "succeeded");
    kill(pid_in(&place.path("left")), Signal::SIGKILL).unwrap();
}

#[test]
fn one_signal_lets_it_finish() {
    let place = Place::new();
    let (first, second) = (place.push(&["x"]), place.push(&["y"]));
    let script = "echo $$ > started; while ! test -e go; do :; done";
    let child = place.command(&["work", "default", "--", "sh", "-c", script]).spawn().unwrap();
    pid_in(&place.path("started"));
    kill(pid(&child), Signal::SIGTERM).unwrap();
    std::fs::write(place.path("go"), "").unwrap();
    assert!(wait(child).success());
    assert_eq!(place.job(&first)["state"], "succeeded");
    let second = place.job(&second);
    // Between the signal and the file it may have begun the second one.
    assert!(second["state"] == "ready" || second["state"] == "succeeded", "{second}");
}

#[test]
fn a_second_signal_ends_it_and_gives_the_job_back() {
    let place = Place::new();
    let id = place.push(&["x"]);
    let script = "echo $$ > started; sleep 1000";
    let child = place.command(&["work", "default", "--", "sh", "-c", script]).spawn().unwrap();
    let command = pid_in(&place.path("started"));
    let worker = pid(&child);
    let waiter = std::thread::spawn(move || wait(child));
    until("the worker has ended", || {
        // Signals of one kind that come too close together are one.
        let _ = kill(worker, Signal::SIGINT);
        waiter.is_finished().then_some(())
    });
    assert!(waiter.join().unwrap().success());
    assert!(!is_running(command));
    let job = place.job(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&"ready".into(), &0.into()));
}
