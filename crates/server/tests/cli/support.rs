//! Runs the binary in its own folder.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Nothing here takes this long, unless it hangs.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A folder with a store.
pub(crate) struct Place {
    folder: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command on no store in particular.
    pub(crate) fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
        command.args(arguments).current_dir(self.folder.path());
        let of_ours = |name: &str| name.starts_with("DUETIME_") || name == "TRACEPARENT" || name == "NO_COLOR";
        std::env::vars().filter(|(name, _)| of_ours(name)).for_each(|(name, _)| {
            command.env_remove(name);
        });
        command
    }

    /// A command on the folder's store.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let (own, rest) = match arguments.iter().position(|&argument| argument == "--") {
            Some(place) => arguments.split_at(place),
            None => (arguments, &[][..]),
        };
        let mut command = self.bare(own);
        command.args(["--store", "test.db"]).args(rest);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(arguments), b"")
    }

    /// Runs a command that must succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran.out
    }

    /// The one JSON document that a command prints.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut with_json = arguments.to_vec();
        with_json.push("--json");
        serde_json::from_str(&self.ok(&with_json)).unwrap()
    }

    /// Pushes a job and returns its id.
    pub(crate) fn push(&self, arguments: &[&str]) -> String {
        let pushed = self.json(&[&["push"], arguments].concat());
        pushed["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn job(&self, id: &str) -> Value {
        self.json(&["get", id])
    }
}

/// Runs a command to its end.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feed = thread::spawn(move || drop(stdin.write_all(&input)));
    let (out, err) = (collect(child.stdout.take().unwrap()), collect(child.stderr.take().unwrap()));
    let status = wait(child);
    feed.join().unwrap();
    Ran { code: status.code().unwrap_or(-1), out: out.join().unwrap(), err: err.join().unwrap() }
}

fn collect(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for a process, which must end in time.
pub(crate) fn wait(mut child: Child) -> ExitStatus {
    let pid = pid(&child);
    let (told, ended) = mpsc::channel();
    thread::spawn(move || told.send(child.wait().unwrap()));
    ended.recv_timeout(TIME_LIMIT).unwrap_or_else(|_| {
        kill(pid, Signal::SIGKILL).unwrap();
        panic!("the process {pid} hangs");
    })
}

pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until<T>(expected: &str, look: impl FnMut() -> Option<T>) -> T {
    duetime_store::testing::until(expected, TIME_LIMIT, look)
}

/// The number that a command has written into a file.
pub(crate) fn pid_in(file: &Path) -> Pid {
    until("a process id in a file", || {
        let text = std::fs::read_to_string(file).ok()?;
        Some(Pid::from_raw(text.strip_suffix('\n')?.parse().ok()?))
    })
}

/// Whether a process runs; a zombie does not.
pub(crate) fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}
