//! The programs of `examples/clients`.

use super::LIMIT;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/clients");

/// The languages of the clients.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Language {
    Php,
    Python,
    Node,
    Shell,
}

/// The result of a program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Language {
    /// The name of its folder, and in that of its queue.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Php => "php",
            Self::Python => "python",
            Self::Node => "node",
            Self::Shell => "shell",
        }
    }

    fn command(self, part: &str, server: &str) -> Command {
        // Debian's own program if there are several, since users have that one.
        let (program, script) = match self {
            Self::Php => ("php", "demo.php"),
            Self::Python => ("/usr/bin/python3", "demo.py"),
            Self::Node => ("node", "demo.mjs"),
            Self::Shell => ("bash", "demo.sh"),
        };
        let mut command = Command::new(program);
        command.arg(format!("{FOLDER}/{}/{script}", self.name())).arg(part);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("DUETIME_SERVER", server).env("DUETIME_TOKEN", "secret-of-a-test");
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs a part of it to its end.
    pub(crate) async fn runs(self, part: &str, server: &str) -> Ran {
        let output = self.command(part, server).output();
        let output = timeout(LIMIT, output).await.expect("it ends").expect("it is there");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs a part of it, which succeeds.
    pub(crate) async fn run(self, part: &str, server: &str) -> Ran {
        let ran = self.runs(part, server).await;
        assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
        ran
    }
}

/// A worker that runs; killed when it is dropped.
pub(crate) struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(language: Language, server: &str) -> Self {
        let mut child = language.command("work", server).stdout(Stdio::piped()).spawn().unwrap();
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
