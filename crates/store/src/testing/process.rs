//! A server's process, which never outlives the test process.
//!
//! `setpriv` makes the kernel kill it when its parent ends, even by SIGKILL. The parent is the *thread* that spawned it, not
//! the process, and a test's thread ends long before a shared server may. So all servers are spawned by one thread that ends
//! with the process.

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread;

/// A process; killed when it is dropped.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    /// Starts `program` in `folder`; its output is appended to the file `log`.
    ///
    /// # Panics
    ///
    /// If the program is not on the `PATH`.
    pub(super) fn start(program: &str, arguments: &[String], folder: &Path, log: &Path) -> Self {
        Self::start_as(None, "KILL", program, arguments, folder, log)
    }

    /// The same, as another user, and with the signal that ends it with this process.
    ///
    /// # Panics
    ///
    /// If the program is neither a path to a file nor on the `PATH`.
    pub(super) fn start_as(
        user: Option<&str>,
        end: &str,
        program: &str,
        arguments: &[String],
        folder: &Path,
        log: &Path,
    ) -> Self {
        let is_there = |program: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            Path::new(program).is_file() || std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
        };
        assert!(is_there(program), "expected `{program}` on the PATH: cargo xtask setup, or apt-get install {program}");
        let mut words = user.map_or_else(Vec::new, as_user);
        // Only Linux has this; on other systems a server outlives a killed test. A change of user would reset it, so it
        // comes after.
        if is_there("setpriv") {
            words.extend(["setpriv", "--pdeathsig", end].map(str::to_owned));
        }
        words.push(program.to_owned());
        let mut command = Command::new(&words[0]);
        let log = OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        command.args(&words[1..]).args(arguments).current_dir(folder).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("the log file again")).stderr(log);
        Self(spawn(command).unwrap_or_else(|error| panic!("cannot start {program}: {error}")))
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("the state of a child")
    }

    /// Sends a signal, unless the process has ended.
    pub(super) fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            let id = i32::try_from(self.0.id()).expect("a process id");
            signal::kill(Pid::from_raw(id), signal).expect("a signal to a child");
        }
    }

    /// Its child processes, such as those that serve connections. Empty if the system cannot tell.
    pub(super) fn children(&self) -> Vec<Pid> {
        let id = self.0.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        children.split_whitespace().filter_map(|id| id.parse().ok()).map(Pid::from_raw).collect()
    }

    /// Waits until it has ended.
    pub(super) fn wait(&mut self) {
        self.0.wait().expect("the end of a child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills a process that is not a child; returns whether it is gone.
pub(super) fn kill_other(id: Pid) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // It may be a zombie.
    let is_gone = state.rsplit(')').next().is_none_or(|state| state.is_empty() || state.trim().starts_with('Z'));
    is_gone || signal::kill(id, Signal::SIGKILL).is_err()
}

/// The command prefix that runs a command as another user.
pub(super) fn as_user(user: &str) -> Vec<String> {
    ["setpriv", "--reuid", user, "--regid", user, "--init-groups"].map(str::to_owned).to_vec()
}

/// Spawns from the permanent thread.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::SyncSender<io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in orders {
                // The requester waits for the answer.
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (answer, child) = mpsc::sync_channel(1);
    spawner.send((command, answer)).expect("the spawning thread");
    child.recv().expect("the spawning thread")
}
