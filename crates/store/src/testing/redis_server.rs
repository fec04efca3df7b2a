//! One private Redis server.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::fake_clock::FakeClock;
use super::port::Port;
use super::process::Process;
use super::{AGREED_LIMIT, LIMIT, resp, until};

/// What a server prints, in its folder.
const LOG: &str = "log";

/// Whatever else is asked for.
const OURS: [&str; 4] = ["--bind", "127.0.0.1", "--save", ""];

/// A `redis-server` of the test's own. It starts within some 20 ms, keeps nothing on disk unless told to, and is killed
/// and its folder removed when it is dropped.
#[derive(Debug)]
pub struct RedisServer {
    // Before the folder and the port: a server is gone before they are.
    process: Process,
    program: &'static str,
    arguments: Vec<String>,
    /// Where it has one of its own.
    clock: Option<FakeClock>,
    folder: TempDir,
    port: Port,
}

impl RedisServer {
    /// Starts one and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not; where `redis-server` is missing, with the command that installs it.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// As [`RedisServer::start`], with more arguments, such as `["--appendonly", "yes"]`.
    pub fn with(arguments: &[&str]) -> Self {
        Self::begin(arguments).ready()
    }

    /// As [`RedisServer::with`], with a clock that can be [set](Self::set_clock).
    pub fn with_clock(arguments: &[&str]) -> Self {
        Self::with_clock_at(0, arguments)
    }

    /// The same; its clock is off by so many milliseconds from the start.
    pub fn with_clock_at(off_ms: i64, arguments: &[&str]) -> Self {
        let port = Port::free();
        let number = port.number().to_string();
        let folder = new_folder();
        let clock = FakeClock::new(folder.path());
        clock.set(off_ms);
        fs::write(folder.path().join("conf"), "").expect("a file in a new folder");
        let settings = clock.environment().map(|(name, value)| format!("{name}={value}"));
        let words = [&["redis-server", "conf"], &OURS[..], &["--port", &number], arguments].concat();
        let arguments = settings.into_iter().chain(words.into_iter().map(str::to_owned)).collect();
        Self { clock: Some(clock), ..Self::run("env", port, folder, arguments) }.ready()
    }

    /// Sets the clock of a server that was started [with one](Self::with_clock): by so many milliseconds off the machine's.
    ///
    /// # Panics
    /// Where it has none.
    pub fn set_clock(&self, off_ms: i64) {
        self.clock.as_ref().expect("a clock of its own").set(off_ms);
    }

    /// Starts one and does not wait.
    pub(super) fn begin(arguments: &[&str]) -> Self {
        let port = Port::free();
        let number = port.number().to_string();
        Self::launch("redis-server", port, "", &[&OURS[..], &["--port", &number], arguments].concat())
    }

    /// Starts `program` with a file `conf` in its folder, and does not wait.
    pub(super) fn launch(program: &'static str, port: Port, conf: &str, arguments: &[&str]) -> Self {
        let folder = new_folder();
        fs::write(folder.path().join("conf"), conf).expect("a file in a new folder");
        let arguments = ["conf"].iter().chain(arguments).map(|&word| word.to_owned()).collect();
        Self::run(program, port, folder, arguments)
    }

    fn run(program: &'static str, port: Port, folder: TempDir, arguments: Vec<String>) -> Self {
        let process = Process::start(program, &arguments, folder.path(), &folder.path().join(LOG));
        Self { process, program, arguments, clock: None, folder, port }
    }

    /// Waits until it answers.
    pub(super) fn ready(mut self) -> Self {
        self.wait_ready();
        self
    }

    fn wait_ready(&mut self) {
        until(&format!("{} on port {} to answer", self.program, self.port()), LIMIT, || {
            if let Some(status) = self.process.ended() {
                panic!("{} ended with {status}: {}", self.program, self.log());
            }
            let answer = resp::call(self.port(), &["PING"]).ok()?;
            // Who wants a password answers, too; who is loading what it kept does not serve yet.
            answer.map_or_else(|error| !error.starts_with("LOADING"), |_| true).then_some(())
        });
    }

    /// What a client connects to: `redis://127.0.0.1:PORT/0`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port())
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
        fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default()
    }

    /// Runs a command; its reply as text: nothing for nil, a line for each element of an array.
    ///
    /// # Panics
    ///
    /// If the server does not answer, or with an error.
    pub fn command(&self, words: &[&str]) -> String {
        self.try_command(words).unwrap_or_else(|error| panic!("{words:?} on port {}: {error}", self.port()))
    }

    /// Runs a command; an error is what the server said, or why it said nothing.
    pub fn try_command(&self, words: &[&str]) -> Result<String, String> {
        resp::call(self.port(), words).map_err(|error| error.to_string())?
    }

    /// Waits until so many replicas have what was written so far. `WAIT` knows only what its own connection has written.
    pub fn wait_for_replicas(&self, count: usize) {
        let number = |text: &str, name: &str| {
            let (_, rest) = text.split_once(name)?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        let info = || self.command(&["INFO", "replication"]);
        let written = number(&info(), "master_repl_offset:").expect("Redis tells its offset");
        until("replicas to have what was written", AGREED_LIMIT, || {
            // Has replicas tell how far they are.
            self.command(&["WAIT", &count.to_string(), "100"]);
            let is_there = |line: &&str| number(line, ",offset=").is_some_and(|offset| offset >= written);
            (info().lines().filter(|line| line.starts_with("slave")).filter(is_there).count() >= count).then_some(())
        });
    }

    /// Ends the server in good order and starts it again, with the same port and folder. What it kept on disk is there
    /// again; without `--appendonly yes` that is nothing.
    pub fn restart(&mut self) {
        self.thaw();
        self.process.signal(Signal::SIGTERM);
        self.process.wait();
        self.start_again();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.signal(Signal::SIGKILL);
        self.process.wait();
    }

    /// Starts a server that was killed, with the same port and folder, and waits until it answers.
    pub fn start_again(&mut self) {
        self.kill();
        self.process = Process::start(self.program, &self.arguments, self.folder.path(), &self.folder.path().join(LOG));
        self.wait_ready();
    }

    /// Stops the server where it is, with its connections open, until it is thawed.
    pub fn freeze(&mut self) {
        self.process.signal(Signal::SIGSTOP);
    }

    /// Lets a frozen server go on.
    pub fn thaw(&mut self) {
        self.process.signal(Signal::SIGCONT);
    }
}

fn new_folder() -> TempDir {
    tempfile::Builder::new().prefix("duetime-redis-").tempdir().expect("a folder")
}

/// A server for all tests of a process, which share its keys. It cannot be stopped; it ends with the process.
pub fn shared_redis() -> &'static RedisServer {
    static SHARED: OnceLock<RedisServer> = OnceLock::new();
    SHARED.get_or_init(|| {
        let server = RedisServer::start();
        // Nobody drops a static. The server does without its folder: it keeps nothing there.
        let _ = fs::remove_dir_all(server.folder.path());
        server
    })
}
