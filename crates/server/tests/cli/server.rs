//! Commands against a server.

use crate::cli::support::{Place, Ran, finish, is_running, pid, pid_in, until, wait};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

/// A server on the folder's store, on its own port.
pub(crate) struct Server {
    pub(crate) place: Place,
    pub(crate) child: Option<Child>,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_in(Place::new(), &[])
    }

    pub(crate) fn start_in(place: Place, options: &[&str]) -> Self {
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(options);
        Self::spawn(place, command)
    }

    pub(crate) fn spawn(place: Place, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.find_map(|line| Some(line.unwrap().split_once("listening on ")?.1.trim().to_owned()));
        // Somebody has to read what else it says.
        std::thread::spawn(move || lines.for_each(drop));
        Self { place, child: Some(child), url: url.expect("the server says where it listens") }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.place.bare(arguments);
        command.env("DUETIME_SERVER", &self.url);
        finish(command, b"")
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        serde_json::from_str(&ran.out).unwrap()
    }

    pub(crate) fn push(&self, arguments: &[&str]) -> String {
        self.json(&[&["push"], arguments].concat())["id"].as_str().unwrap().to_owned()
    }
}

impl Server {
    /// Stops it in good order.
    pub(crate) fn stop(&mut self) {
        let Some(child) = self.child.take() else { return };
        kill(pid(&child), Signal::SIGTERM).unwrap();
        assert!(wait(child).success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        // It may have ended already.
        let _ = kill(pid(&child), Signal::SIGTERM);
        if !std::thread::panicking() {
            assert!(wait(child).success());
        }
    }
}

#[test]
fn all_commands_work_on_a_server_too() {
    let server = Server::start();
    let id = server.push(&["--queue", "orders", "--delay", "30m", "--tag", "order:7", r#"{"order":7}"#]);
    assert_eq!(server.json(&["get", &id])["payload"]["order"], 7);
    assert_eq!(server.json(&["list", "--tag", "order:7"])["jobs"][0]["id"], *id);
    assert_eq!(server.json(&["peek", "orders"])["jobs"][0]["id"], *id);
    assert_eq!(server.json(&["queues"])["queues"][0]["scheduled"], 1);
    assert_eq!(server.json(&["reschedule", &id, "--delay", "0s"])["state"], "ready");
    assert_eq!(server.json(&["take", "orders"])["jobs"][0]["id"], *id);
    assert_eq!(server.run(&["retry", &id]).out, format!("{id} retried\n"));
    assert_eq!(server.json(&["cancel", "--tag", "order:7"])["cancelled"], 1);
    assert_eq!(server.json(&["cancel", &id])["outcome"], "already_finished");
    let ran = server.run(&["get", "7"]);
    assert!(ran.code == 1 && ran.err.contains("no job with the id 7"), "{ran:?}");
}

#[test]
fn a_cancelled_job_is_ended() {
    let server = Server::start();
    let id = server.push(&["x"]);
    let script = "sleep 1000 & echo $! > grandchild; wait";
    let mut command = server.place.bare(&["work", "default", "--lease", "1s", "--", "sh", "-c", script]);
    let worker = command.env("DUETIME_SERVER", &server.url).spawn().unwrap();
    let grandchild = pid_in(&server.place.path("grandchild"));
    assert_eq!(server.run(&["cancel", &id]).out, format!("{id} cancel requested\n"));
    let job = until("the job is cancelled", || {
        let job = server.json(&["get", &id]);
        (job["state"] == "cancelled").then_some(job)
    });
    assert!(!is_running(grandchild), "{job}");
    kill(pid(&worker), Signal::SIGTERM).unwrap();
    assert!(wait(worker).success());
}

#[test]
fn a_command_can_push_to_the_same_server() {
    let server = Server::start();
    server.push(&["--queue", "first", "x"]);
    let duetime = env!("CARGO_BIN_EXE_duetime");
    let script = format!("{duetime} push --queue second \"$DUETIME_ID\"");
    let ran = server.run(&["work", "first", "--once", "--", "sh", "-c", &script]);
    assert!(ran.code == 0 && ran.out.contains("pushed: queue second"), "{ran:?}");
}

#[test]
fn a_live_store_is_copied_and_not_touched_otherwise() {
    let server = Server::start();
    let id = server.push(&["--delay", "1h", "x"]);
    let ran = server.place.run(&["list"]);
    assert!(ran.code == 75 && ran.err.contains("is open in process"), "{ran:?}");
    assert_eq!(server.place.run(&["backup", "copy.db"]).code, 0);
    let copied = finish(server.place.bare(&["get", &id, "--store", "copy.db"]), b"");
    assert!(copied.code == 0 && copied.out.contains("scheduled"), "{copied:?}");
}

/// The first line of a watching command; meanwhile this closure runs repeatedly.
fn watched(server: &Server, arguments: &[&str], happens: impl Fn()) -> String {
    let mut command = server.place.bare(&[&["events", "-n", "1"], arguments].concat());
    let mut watching = command.env("DUETIME_SERVER", &server.url).stdout(Stdio::piped()).spawn().unwrap();
    let status = until("something is heard", || {
        happens();
        watching.try_wait().unwrap()
    });
    assert!(status.success());
    std::io::read_to_string(watching.stdout.take().unwrap()).unwrap()
}

#[test]
fn what_happens_is_watched() {
    let server = Server::start();
    let happens = || {
        server.push(&["--queue", "orders", "--delay", "1h", "x"]);
        server.run(&["cancel", "--queue", "orders"]);
        server.push(&["--queue", "mail.x", "x"]);
    };
    let line = watched(&server, &["--queue", "mail.*"], happens);
    assert!(line.contains("  pushed     ") && line.contains("  mail.x  default  ready  attempt 0\n"), "{line:?}");
    let event: Value = serde_json::from_str(&watched(&server, &["--what", "cancelled", "--json"], happens)).unwrap();
    assert_eq!(
        (&event["what"], &event["queue"], &event["state"]),
        (&"cancelled".into(), &"orders".into(), &"cancelled".into())
    );
    let refused = server.run(&["events", "--what", "ended"]);
    assert!(refused.code == 2 && refused.err.contains("one of pushed, imported"), "{refused:?}");
    let refused = server.place.run(&["events"]);
    assert!(refused.code == 2 && refused.err.contains("--server"), "{refused:?}");
}

#[test]
fn a_server_is_measured() {
    let server = Server::start();
    for load in [
        &["bench", "push", "-n", "2500", "--key", "--tags", "1"][..],
        &["bench", "cycle", "-n", "2500"],
        &["bench", "lateness", "-n", "100", "--rate", "100"],
    ] {
        let report = server.json(&[load, &["--server", &server.url]].concat());
        assert!(report["timings"][0]["count"].as_u64().unwrap() > 0, "{report}");
    }
}

/// It crashes every worker that runs it. After the fifth crash it is left alone, with its history; others go on.
#[test]
fn a_job_that_kills_its_worker_fails_in_the_end() {
    let server = Server::start();
    let poison = server.push(&["--queue", "q", "poison"]);
    let script = r#"if [ "$(cat)" = poison ]; then kill -9 $PPID; fi"#;
    let arguments = ["work", "q", "--lease", "1s", "--concurrency", "1", "--", "sh", "-c", script];
    for _ in 0..5 {
        let fine = server.push(&["--queue", "q", "--priority", "0", "fine"]);
        let mut command = server.place.bare(&arguments);
        let worker = command.env("DUETIME_SERVER", &server.url).stdout(Stdio::null()).spawn().unwrap();
        assert_eq!(wait(worker).signal(), Some(Signal::SIGKILL as i32));
        assert_eq!(server.json(&["get", &fine])["state"], "succeeded");
    }
    let failed = until("the end of the last lease", || {
        let job = server.json(&["get", &poison]);
        (job["state"] == "failed").then_some(job)
    });
    assert_eq!((&failed["attempt"], &failed["crashes"]), (&5.into(), &5.into()));
    let errors = failed["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 5);
    assert!(errors.iter().all(|error| error["crashed"] == true && error["at"].is_string()), "{errors:?}");
}
