//! One private MariaDB server.

use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::port::Port;
use super::process::Process;
use super::{DATABASE_LIMIT, template, until};

/// A private `mariadbd`, with a user `root` without a password. When dropped, it is killed and its folder removed.
#[derive(Debug)]
pub struct MariaDbServer {
    // Before the folder and the port, so that the server is dropped first.
    process: Process,
    arguments: Vec<String>,
    folder: TempDir,
    port: Port,
}

impl MariaDbServer {
    /// Starts a server that does not sync to disk, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not answer, or if `mariadbd` is missing; the message has the command to install it.
    pub fn start() -> Self {
        Self::with(false, &[])
    }

    /// Starts a server with more arguments, such as `["--max-connections=5"]`. If it is durable, commits are synced to disk.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn with(is_durable: bool, more: &[&str]) -> Self {
        let port = Port::free();
        let folder = template::folder("duetime-mariadb-");
        template::copy(&template::template("mariadb", make).join("data"), &folder.path().join("data"));
        let file = |name: &str| folder.path().join(name).display().to_string();
        let flush = if is_durable { "1" } else { "0" };
        let mut arguments = vec![
            "--no-defaults".to_owned(),
            format!("--datadir={}", file("data")),
            format!("--socket={}", file("socket")),
            format!("--pid-file={}", file("pid")),
            // At its start, a server removes leftovers from a shared folder, including files that another server uses.
            format!("--tmpdir={}", folder.path().display()),
            format!("--port={}", port.number()),
            format!("--innodb-flush-log-at-trx-commit={flush}"),
            "--innodb-log-file-size=32M".to_owned(),
        ];
        let ours = ["--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connect-errors=1000000"];
        arguments.extend(ours.iter().chain(more).map(|&word| word.to_owned()));
        if nix::unistd::geteuid().is_root() {
            arguments.push("--user=root".to_owned());
        }
        let process = launch(&arguments, folder.path());
        let mut server = Self { process, arguments, folder, port };
        server.wait_ready();
        server
    }

    fn wait_ready(&mut self) {
        until(&format!("mariadbd on port {} to answer", self.port()), DATABASE_LIMIT, || {
            if let Some(status) = self.process.ended() {
                panic!("mariadbd ended with {status}: {}", self.log());
            }
            greets(self.port()).then_some(())
        });
    }

    /// The URL for clients, of an existing empty database.
    pub fn url(&self) -> String {
        self.url_of("duetime")
    }

    /// The same for another database, which must be created first.
    pub fn url_of(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.port())
    }

    /// The port; the same after a restart.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The folder of its files.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        self.process.signal(Signal::SIGKILL);
        self.process.wait();
    }

    /// Starts a killed server again, with the same port and folder, and waits until it answers.
    pub fn start_again(&mut self) {
        self.kill();
        self.process = launch(&self.arguments, self.folder.path());
        self.wait_ready();
    }

    /// Suspends the server, with its connections open, until it is thawed.
    pub fn freeze(&mut self) {
        self.process.signal(Signal::SIGSTOP);
    }

    /// Resumes a frozen server.
    pub fn thaw(&mut self) {
        self.process.signal(Signal::SIGCONT);
    }
}

fn launch(arguments: &[String], folder: &Path) -> Process {
    Process::start("mariadbd", arguments, folder, &folder.join("log"))
}

fn make(folder: &Path) {
    let mut command = Command::new("mariadb-install-db");
    command.arg("--no-defaults").arg(format!("--datadir={}", folder.join("data").display()));
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=8M"]);
    // As above.
    command.arg(format!("--tmpdir={}", folder.display()));
    if nix::unistd::geteuid().is_root() {
        command.arg("--user=root");
    }
    template::run(&mut command);
    // A folder in the data folder is a database.
    let database = folder.join("data/duetime");
    fs::create_dir(&database).expect("a folder in a new one");
}

/// Whether it greets a client: an error begins with another byte.
fn greets(port: u16) -> bool {
    let ask = || -> std::io::Result<u8> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        Ok(head[4])
    };
    ask().is_ok_and(|protocol| protocol == 10)
}
