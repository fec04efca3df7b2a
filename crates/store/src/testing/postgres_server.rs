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

/// Who it runs as where the test is root, which it refuses to be.
const USER: &str = "postgres";
/// The superuser in it.
const SUPERUSER: &str = "duetime";

/// A `postgres` of the test's own, which trusts everybody on this machine. It is killed and its folder removed when it is
/// dropped.
#[derive(Debug)]
pub struct PostgresServer {
    // Before the folder and the port: a server is gone before they are.
    process: Process,
    arguments: Vec<String>,
    folder: TempDir,
    port: Port,
}

impl PostgresServer {
    /// Starts one that waits for no disk, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not; where `postgres` is missing, with the command that installs it.
    pub fn start() -> Self {
        Self::with(false, &[])
    }

    /// Starts one with more settings, such as `["ssl=on"]`. Where it is durable, what it commits is on disk.
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
                // What a killed server leaves behind lives on for an instant.
                assert!(log.contains("still in use"), "postgres ended with {status}: {log}");
                self.process = launch(&self.arguments, self.folder.path());
            }
            welcomes(self.port()).then_some(())
        });
    }

    /// What a client connects to: a database that is there, with nothing in it.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The same for another database, which is to be created first.
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

    /// What it has printed so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// SIGKILL, of all its processes.
    pub fn kill(&mut self) {
        // Those that serve connections would do so until they see that they are alone.
        let children = self.process.children();
        self.process.signal(Signal::SIGKILL);
        self.process.wait();
        for child in children {
            until("a killed process to end", DATABASE_LIMIT, || kill_other(child).then_some(()));
        }
    }

    /// Starts a server that was killed, with the same port and folder, and waits until it answers.
    pub fn start_again(&mut self) {
        self.kill();
        self.process = launch(&self.arguments, self.folder.path());
        self.wait_ready();
    }

    /// Stops the server where it is, until it is thawed. The processes that serve connections go on.
    pub fn freeze(&mut self) {
        self.process.signal(Signal::SIGSTOP);
    }

    /// Lets a frozen server go on.
    pub fn thaw(&mut self) {
        self.process.signal(Signal::SIGCONT);
    }
}

impl Drop for PostgresServer {
    /// Killed outright it would leave a piece of shared memory behind.
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
    // By this signal it ends at once and cleans up, which it cannot when it is killed.
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

/// Whether it lets a client in: a start-up message is answered by an `R` (and not an `E`, of a server that starts).
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
