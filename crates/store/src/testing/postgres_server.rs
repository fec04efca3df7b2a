//! One private PostgreSQL server.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::port::Port;
use super::process::{Process, as_user, kill_other};
use super::{DATABASE_LIMIT, template, until};

/// The user to run it as if the test is root, because it refuses to run as root.
const USER: &str = "postgres";
/// The superuser in it.
const SUPERUSER: &str = "duetime";

/// A private `postgres`, which trusts all local connections. When dropped, it is killed and its folder removed.
#[derive(Debug)]
pub struct PostgresServer {
    // Before the folder and the port, so that the server is dropped first.
    process: Process,
    arguments: Vec<String>,
    folder: TempDir,
    port: Port,
}

impl PostgresServer {
    /// Starts a server that does not sync to disk, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not answer, or if `postgres` is missing; the message has the command to install it.
    pub fn start() -> Self {
        Self::with(false, &[])
    }

    /// Starts a server with more settings, such as `["ssl=on"]`. If it is durable, commits are synced to disk.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn with(is_durable: bool, settings: &[&str]) -> Self {
        let port = Port::free();
        let folder = template::folder("duetime-postgres-");
        template::copy(&template::template("postgres", make).join("data"), &folder.path().join("data"));
        let number = format!("port={}", port.number());
        let quick = ["fsync=off", "synchronous_commit=off", "full_page_writes=off"];
        let ours = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=64MB", &number];
        let all = ours.iter().chain(quick.iter().filter(|_| !is_durable)).chain(settings);
        let mut arguments = vec!["-D".to_owned(), "data".to_owned()];
        arguments.extend(all.flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]));
        let process = launch(&arguments, folder.path());
        let mut server = Self { process, arguments, folder, port };
        server.wait_ready();
        server
    }

    fn wait_ready(&mut self) {
        until(&format!("postgres on port {} to answer", self.port()), DATABASE_LIMIT, || {
            if let Some(status) = self.process.ended() {
                let log = self.log();
                // The remains of a killed server may exist for a moment.
                assert!(log.contains("still in use"), "postgres ended with {status}: {log}");
                self.process = launch(&self.arguments, self.folder.path());
            }
            welcomes(self.port()).then_some(())
        });
    }

    /// The URL for clients, of an existing empty database.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The same for another database, which must be created first.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://{SUPERUSER}@127.0.0.1:{}/{database}", self.port())
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

    /// Sends SIGKILL to all its processes.
    pub fn kill(&mut self) {
        // Processes that serve connections would otherwise continue until they notice that the server is gone.
        let children = self.process.children();
        self.process.signal(Signal::SIGKILL);
        self.process.wait();
        for child in children {
            until("a killed process to end", DATABASE_LIMIT, || kill_other(child).then_some(()));
        }
    }

    /// Starts a killed server again, with the same port and folder, and waits until it answers.
    pub fn start_again(&mut self) {
        self.kill();
        self.process = launch(&self.arguments, self.folder.path());
        self.wait_ready();
    }

    /// Suspends the server until it is thawed. The processes that serve connections continue.
    pub fn freeze(&mut self) {
        self.process.signal(Signal::SIGSTOP);
    }

    /// Resumes a frozen server.
    pub fn thaw(&mut self) {
        self.process.signal(Signal::SIGCONT);
    }
}

impl Drop for PostgresServer {
    /// If it were killed, it would leave a shared memory segment behind.
    fn drop(&mut self) {
        self.thaw();
        self.process.signal(Signal::SIGQUIT);
        self.process.wait();
    }
}

fn user() -> Option<&'static str> {
    nix::unistd::geteuid().is_root().then_some(USER)
}

fn launch(arguments: &[String], folder: &Path) -> Process {
    // On this signal it ends at once and cleans up, which is impossible after SIGKILL.
    Process::start_as(user(), "QUIT", &program("postgres"), arguments, folder, &folder.join("log"))
}

/// Debian keeps its programs off the `PATH`.
fn program(name: &str) -> String {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin").join(name)).collect();
    found.retain(|path| path.is_file());
    found.sort();
    found.pop().map_or_else(|| name.to_owned(), |path| path.display().to_string())
}

fn make(folder: &Path) {
    let mut words = user().map_or_else(Vec::new, as_user);
    let data = folder.join("data");
    fs::create_dir(&data).expect("a folder in a new one");
    if let Some(user) = user() {
        template::run(Command::new("chown").arg(user).arg(&data));
    }
    words.push(program("initdb"));
    let options = ["-A", "trust", "-E", "UTF8", "--locale", "C.UTF-8", "--no-sync", "-U", SUPERUSER, "-D"];
    words.extend(options.map(str::to_owned));
    template::run(Command::new(&words[0]).args(&words[1..]).arg(&data).current_dir(folder));
}

/// Whether it accepts a client: a startup message is answered with `R` (and with `E` while it starts).
fn welcomes(port: u16) -> bool {
    let body = format!("\0\u{3}\0\0user\0{SUPERUSER}\0database\0postgres\0\0");
    let length = u32::try_from(body.len() + 4).expect("a short message").to_be_bytes();
    let ask = || -> std::io::Result<u8> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(&length)?;
        stream.write_all(body.as_bytes())?;
        let mut first = [0];
        stream.read_exact(&mut first)?;
        Ok(first[0])
    };
    ask().is_ok_and(|first| first == b'R')
}
