//! `work`: commands that are ended.

use crate::cli::support::{Place, is_running, pid, pid_in, until, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::{Command, Stdio};

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

/// As a terminal that closes, and its shell after it.
#[test]
fn a_hangup_lets_it_finish_also_the_second() {
    let place = Place::new();
    let id = place.push(&["x"]);
    let script = "echo $$ > started; while ! test -e go; do :; done";
    let child = place.command(&["work", "default", "--", "sh", "-c", script]).spawn().unwrap();
    pid_in(&place.path("started"));
    let worker = pid(&child);
    kill(worker, Signal::SIGHUP).unwrap();
    // It holds its store until it has ended, so it is still there.
    assert_eq!(place.run(&["list"]).code, 75);
    kill(worker, Signal::SIGHUP).unwrap();
    assert_eq!(place.run(&["list"]).code, 75);
    std::fs::write(place.path("go"), "").unwrap();
    assert!(wait(child).success());
    let job = place.job(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&"succeeded".into(), &1.into()));
}

/// A program that starts this command.
fn started_by(program: &str, arguments: &[&str], command: &Command) -> Command {
    let mut outer = Command::new(program);
    outer.args(arguments).arg(command.get_program()).args(command.get_args());
    outer.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    outer
}

#[test]
fn a_hangup_that_nohup_ignores_does_not_stop_it() {
    let place = Place::new();
    let ids = [place.push(&["x"]), place.push(&["y"])];
    let script = "echo $$ > started; while ! test -e go; do :; done; echo > ran.$DUETIME_ID";
    let worker = place.command(&["work", "default", "--", "sh", "-c", script]);
    let child = started_by("nohup", &[], &worker).spawn().unwrap();
    pid_in(&place.path("started"));
    kill(pid(&child), Signal::SIGHUP).unwrap();
    std::fs::write(place.path("go"), "").unwrap();
    until("the second job ran, too", || ids.iter().all(|id| place.path(&format!("ran.{id}")).exists()).then_some(()));
    kill(pid(&child), Signal::SIGTERM).unwrap();
    assert!(wait(child).success());
}

/// The processes whose parent this is, with their states.
fn children(parent: Pid) -> Vec<(Pid, String)> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let stat = |id: i32| {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (_, rest) = text.rsplit_once(") ")?;
        let mut words = rest.split(' ');
        let state = words.next()?.to_owned();
        (words.next()?.parse() == Ok(parent.as_raw())).then(|| (Pid::from_raw(id), state))
    };
    all.filter_map(stat).collect()
}

/// As the entry point of a container.
#[test]
fn as_the_first_process_it_waits_for_orphans() {
    let alone = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];
    if !Command::new("unshare").args(alone).arg("true").status().is_ok_and(|status| status.success()) {
        println!("this machine does not let us be the first process");
        return;
    }
    let place = Place::new();
    let ids: Vec<String> = (0..3).map(|n| place.push(&[&n.to_string()])).collect();
    // The shell leaves a process behind, which ends after it.
    let script = "sh -c 'while ! test -e go; do :; done; echo $$ > orphan.$DUETIME_ID' >/dev/null 2>&1 </dev/null &";
    let worker = place.command(&["work", "default", "--", "sh", "-c", script]);
    let child = started_by("unshare", &alone, &worker).spawn().unwrap();
    let first = until("the first process runs", || children(pid(&child)).first().map(|(first, _)| *first));
    // The worker and three orphans.
    until("each job has left a process behind", || (children(first).len() == 4).then_some(()));
    std::fs::write(place.path("go"), "").unwrap();
    until("they have ended and were waited for", || {
        let is_over = ids.iter().all(|id| place.path(&format!("orphan.{id}")).exists());
        (is_over && children(first).len() == 1).then_some(())
    });
    kill(first, Signal::SIGTERM).unwrap();
    assert!(wait(child).success(), "it passes the signal on, and ends as the worker does");
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
