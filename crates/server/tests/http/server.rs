//! A server process with its own store.

use super::client::{Connection, Reply, request};
use crate::common::binary;
use duetime_store::testing::{FakeClock, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The time limit for a condition; never reached if all is well.
const CONDITION_TIME_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    /// The banner printed at the start.
    pub(crate) banner: String,
    /// Holds the store if it is the server's own.
    _folder: Option<TempDir>,
}

/// The command of the binary under test, with nothing from the environment.
pub(crate) fn command() -> Command {
    let mut command = Command::new(binary());
    command.env_clear().arg("serve").stdin(Stdio::null());
    command
}

/// The same with no more open files than this.
pub(crate) fn command_with_files(files: usize) -> Command {
    let mut command = Command::new("/bin/sh");
    let script = format!("ulimit -n {files} && exec \"$0\" serve \"$@\"");
    command.env_clear().arg("-c").arg(script).arg(binary()).stdin(Stdio::null());
    command
}

/// The path of a store in a folder.
pub(crate) fn store_in(folder: &TempDir) -> PathBuf {
    folder.path().join("duetime.db")
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = store_in(&folder);
        let mut server = Self::on(&store);
        server._folder = Some(folder);
        server
    }

    pub(crate) fn on(store: &Path) -> Self {
        Self::with(&["--store", store.to_str().unwrap()])
    }

    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::run(command(), arguments)
    }

    /// With no more open files than this.
    pub(crate) fn with_files(files: usize, arguments: &[&str]) -> Self {
        Self::run(command_with_files(files), arguments)
    }

    /// On this clock.
    pub(crate) fn with_clock(clock: &FakeClock, arguments: &[&str]) -> Self {
        let mut command = command();
        command.envs(clock.environment());
        Self::run(command, arguments)
    }

    /// By this command.
    pub(crate) fn run(mut command: Command, arguments: &[&str]) -> Self {
        let defaults = [["--listen", "127.0.0.1:0"], ["--log-level", "warn"]];
        let unset = defaults.into_iter().filter(|[name, _]| !arguments.contains(name)).flatten();
        let mut child = command.args(unset).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("\n  stop ") {
            assert!(stdout.read_line(&mut banner).unwrap() > 0, "the server ended: {banner}");
        }
        let address = banner.lines().find_map(|line| line.strip_prefix("  listening on ")).unwrap();
        let address = address.split_once("://").unwrap().1.parse().unwrap();
        Self { child, _stdout: stdout, address, banner, _folder: None }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut connection = self.connect();
        connection.send(request(method, path, headers, body));
        connection.reply()
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], &body.to_string())
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, &[], &body.to_string())
    }

    /// POST without a body.
    pub(crate) fn call(&self, path: &str) -> Reply {
        self.send("POST", path, &[], "")
    }

    /// Pushes to the queue `q` and returns the id.
    #[track_caller]
    pub(crate) fn push(&self, job: &Value) -> String {
        self.push_to("q", job)
    }

    #[track_caller]
    pub(crate) fn push_to(&self, queue: &str, job: &Value) -> String {
        let pushed = self.post(&format!("/v1/queues/{queue}/jobs"), job).expect(201);
        pushed["id"].as_str().unwrap().to_owned()
    }

    /// Leases at most this many jobs of the queue `q`.
    #[track_caller]
    pub(crate) fn reserve(&self, limit: usize) -> Vec<Value> {
        let reservation = self.post("/v1/queues/q/reserve", &serde_json::json!({"limit": limit})).ok();
        reservation["leases"].as_array().unwrap().clone()
    }

    /// Leases the one due job of the queue `q` and returns the receipt.
    #[track_caller]
    pub(crate) fn receipt(&self) -> String {
        let leases = self.reserve(1);
        leases.first().expect("a due job")["receipt"].as_str().unwrap().to_owned()
    }

    /// The job as the API shows it.
    #[track_caller]
    pub(crate) fn job(&self, id: &str) -> Value {
        self.get(&format!("/v1/jobs/{id}")).ok()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Stops in good order.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        assert_eq!(self.wait().code(), Some(0));
    }

    /// Waits until connections are refused.
    pub(crate) fn wait_until_closed(&self) {
        eventually(|| std::net::TcpStream::connect(self.address).is_err());
    }

    /// The number of files that the process has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// The number of sockets that the process has open.
    pub(crate) fn sockets(&self) -> usize {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks until it is so.
#[track_caller]
pub(crate) fn eventually(mut is_so: impl FnMut() -> bool) {
    until("something to become so", CONDITION_TIME_MAX, || is_so().then_some(()));
}
