//! The driver of a client: its program in `clients/LANGUAGE/conformance`.

use crate::common::packages;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// How much of what a worker said is shown.
const SAID_BYTES: usize = 2_000;
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients");

/// The languages of the clients.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Language {
    Php,
    Python,
    Node,
}

impl Language {
    fn command(self) -> Command {
        match self {
            Self::Php => script("php", &Path::new(CLIENTS).join("php/conformance/driver.php")),
            Self::Python => script(packages::python(), &Path::new(CLIENTS).join("python/conformance/driver.py")),
            Self::Node => {
                let folder = packages::node();
                script(folder.join("bin/node"), &folder.join("conformance/driver.mjs"))
            }
        }
    }
}

fn script(program: impl Into<PathBuf>, script: &Path) -> Command {
    let mut command = Command::new(program.into());
    command.arg(script);
    command
}

/// A driver that makes calls.
pub(crate) struct Calls {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Calls {
    /// Each try of a call takes at most two seconds, so that a reply that never comes is soon given up.
    pub(crate) fn start(language: Language, servers: &str) -> Self {
        let mut command = language.command();
        command.args(["call", "--timeout", "2", "--deadline", "8"]).env("DUETIME_SERVER", servers);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the driver's program");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    /// Makes a call, which is given and answered as a line of JSON.
    pub(crate) fn call(&mut self, line: &str) -> Result<Value, String> {
        let stdin = self.stdin.as_mut().expect("it is open");
        writeln!(stdin, "{line}").map_err(|error| format!("the driver has ended: {error}"))?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).map_err(|error| error.to_string())?;
        serde_json::from_str(&answer).map_err(|error| format!("the driver answered {answer:?}: {error}"))
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A driver that works.
pub(crate) struct Work {
    child: Child,
    log: PathBuf,
}

impl Work {
    pub(crate) fn start(language: Language, server: SocketAddr, arguments: &[(&str, String)], log: &Path) -> Self {
        Self::with_token(language, server, "", arguments, log)
    }

    pub(crate) fn with_token(
        language: Language,
        server: SocketAddr,
        token: &str,
        arguments: &[(&str, String)],
        log: &Path,
    ) -> Self {
        let mut command = language.command();
        command.arg("work").env("DUETIME_SERVER", format!("http://{server}")).env("DUETIME_TOKEN", token);
        for (name, value) in arguments {
            command.args([format!("--{name}"), value.clone()]);
        }
        // What it says of faults is its own affair, unless it ends before it works.
        let said = std::fs::File::create(log.with_extension("said")).unwrap();
        command.arg("--log").arg(log).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        Self { child: command.spawn().expect("the driver's program"), log: log.to_owned() }
    }

    /// The end of what it has said on standard error.
    pub(crate) fn said(&self) -> String {
        let said = std::fs::read(self.log.with_extension("said")).unwrap_or_default();
        String::from_utf8_lossy(&said[said.len().saturating_sub(SAID_BYTES)..]).into_owned()
    }

    /// The whole lines of its log so far.
    pub(crate) fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    /// Whether it has logged this of this job.
    pub(crate) fn has_logged(&self, event: &str, id: &str) -> bool {
        self.log().iter().any(|line| line["event"] == event && line["id"] == id)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended already.
        let _ = kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal);
    }

    /// To it and to the processes that it has started.
    pub(crate) fn signal_all(&self, signal: Signal) {
        let id = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        for each in std::iter::once(id.to_string()).chain(children.split_whitespace().map(str::to_owned)) {
            kill(Pid::from_raw(each.parse().unwrap()), signal).unwrap();
        }
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// SIGTERM: it must end in good order.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        self.signal(Signal::SIGTERM);
        let status = self.child.wait().unwrap();
        if status.success() { Ok(()) } else { Err(format!("the worker ended with {status}, and said {}", self.said())) }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
