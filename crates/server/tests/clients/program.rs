//! The program in `clients/shell`.

use super::LIMIT;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/shell");

/// The result of a program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

fn command(part: &str, server: &str) -> Command {
    let mut command = Command::new("bash");
    command.arg(format!("{FOLDER}/demo.sh")).arg(part);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("DUETIME_SERVER", server).env("DUETIME_TOKEN", "secret-of-a-test");
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs a part of it to its end.
pub(crate) async fn runs(part: &str, server: &str) -> Ran {
    let output = command(part, server).output();
    let output = timeout(LIMIT, output).await.expect("it ends").expect("it is there");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs a part of it, which succeeds.
pub(crate) async fn run(part: &str, server: &str) -> Ran {
    let ran = runs(part, server).await;
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    ran
}

/// A worker that runs; killed when it is dropped.
pub(crate) struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(server: &str) -> Self {
        let mut child = command("work", server).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits until it has said a line that begins so.
    pub(crate) async fn says(&mut self, begin: &str) {
        let said = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line.starts_with(begin) {
                    return;
                }
            }
            panic!("it never said {begin}");
        };
        timeout(LIMIT, said).await.expect("it says something");
    }

    /// SIGTERM: it must end in good order.
    pub(crate) async fn stop(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        self.says("stopped").await;
        let status = timeout(LIMIT, self.child.wait()).await.expect("it ends").unwrap();
        assert_eq!(status.code(), Some(0));
    }
}
