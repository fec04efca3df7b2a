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

/// The log file, in its folder.
const LOG: &str = "log";

/// Arguments of every server.
const OURS: [&str; 4] = ["--bind", "127.0.0.1", "--save", ""];

/// A private `redis-server`. It starts within about 20 ms and persists nothing by default. When dropped, it is killed and
/// its folder removed.
#[derive(Debug)]
pub struct RedisServer {
    // Before the folder and the port, so that the server is dropped first.
    process: Process,
    program: &'static str,
    arguments: Vec<String>,
    /// If it has its own clock.
    clock: Option<FakeClock>,
    folder: TempDir,
    port: Port,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not answer, or if `redis-server` is missing; the message has the command to install it.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Like [`RedisServer::start`], with more arguments, such as `["--appendonly", "yes"]`.
    pub fn with(arguments: &[&str]) -> Self {
        Self::begin(arguments).ready()
    }

    /// Like [`RedisServer::with`], with a clock that can be [set](Self::set_clock).
    pub fn with_clock(arguments: &[&str]) -> Self {
        Self::with_clock_at(0, arguments)
    }

    /// The same, with this initial offset of the clock in milliseconds.
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

    /// Sets the clock of a server that was started [with one](Self::with_clock): its offset from the machine's in
    /// milliseconds.
    ///
    /// # Panics
    /// If it has no clock.
    pub fn set_clock(&self, off_ms: i64) {
        self.clock.as_ref().expect("a clock of its own").set(off_ms);
    }

    /// Starts a server without waiting.
    pub(super) fn begin(arguments: &[&str]) -> Self {
        let port = Port::free();
        let number = port.number().to_string();
        Self::launch("redis-server", port, "", &[&OURS[..], &["--port", &number], arguments].concat())
    }

    /// Starts `program` with a file `conf` in its folder, without waiting.
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

    /// Waits until it answers. If it has a fake clock that is wrong from the start, it is started again.
    fn wait_ready(&mut self) {
        self.wait_answer();
        while self.clock.as_ref().is_some_and(|clock| !clock.is_read_rightly(|| self.time())) {
            self.kill();
            self.process = self.started();
            self.wait_answer();
        }
    }

    /// The time by its clock, in milliseconds.
    fn time(&self) -> i64 {
        let text = self.command(&["TIME"]);
        let (seconds, micros) = text.split_once('\n').expect("two numbers");
        seconds.parse::<i64>().expect("seconds") * 1_000 + micros.parse::<i64>().expect("microseconds") / 1_000
    }

    fn started(&self) -> Process {
        Process::start(self.program, &self.arguments, self.folder.path(), &self.folder.path().join(LOG))
    }

    fn wait_answer(&mut self) {
        until(&format!("{} on port {} to answer", self.program, self.port()), LIMIT, || {
            if let Some(status) = self.process.ended() {
                panic!("{} ended with {status}: {}", self.program, self.log());
            }
            let answer = resp::call(self.port(), &["PING"]).ok()?;
            // A server that requires a password answers, too; a server that is loading its data does not serve yet.
            answer.map_or_else(|error| !error.starts_with("LOADING"), |_| true).then_some(())
        });
    }

    /// The URL for clients: `redis://127.0.0.1:PORT/0`.
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

    /// Its output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default()
    }

    /// Runs a command and returns its reply as text: nothing for nil, a line for each element of an array.
    ///
    /// # Panics
    ///
    /// If the server does not answer, or answers with an error.
    pub fn command(&self, words: &[&str]) -> String {
        self.try_command(words).unwrap_or_else(|error| panic!("{words:?} on port {}: {error}", self.port()))
    }

    /// Runs a command; an error is the server's message, or the reason why there is none.
    pub fn try_command(&self, words: &[&str]) -> Result<String, String> {
        resp::call(self.port(), words).map_err(|error| error.to_string())?
    }

    /// Waits until this many replicas have all writes so far. `WAIT` only covers writes of the same connection.
    pub fn wait_for_replicas(&self, count: usize) {
        let number = |text: &str, name: &str| {
            let (_, rest) = text.split_once(name)?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        let info = || self.command(&["INFO", "replication"]);
        let written = number(&info(), "master_repl_offset:").expect("Redis tells its offset");
        until("replicas to have what was written", AGREED_LIMIT, || {
            // Makes replicas acknowledge their offset.
            self.command(&["WAIT", &count.to_string(), "100"]);
            let is_there = |line: &&str| number(line, ",offset=").is_some_and(|offset| offset >= written);
            (info().lines().filter(|line| line.starts_with("slave")).filter(is_there).count() >= count).then_some(())
        });
    }

    /// Shuts the server down cleanly and starts it again, with the same port and folder. Persisted data is loaded again;
    /// without `--appendonly yes` there is none.
    pub fn restart(&mut self) {
        self.thaw();
        self.process.signal(Signal::SIGTERM);
        self.process.wait();
        self.start_again();
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        self.process.signal(Signal::SIGKILL);
        self.process.wait();
    }

    /// Starts a killed server again, with the same port and folder, and waits until it answers.
    pub fn start_again(&mut self) {
        self.kill();
        self.process = self.started();
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

fn new_folder() -> TempDir {
    tempfile::Builder::new().prefix("duetime-redis-").tempdir().expect("a folder")
}

/// A server for all tests of a process, which share its keys. It cannot be stopped; it ends with the process.
pub fn shared_redis() -> &'static RedisServer {
    static SHARED: OnceLock<RedisServer> = OnceLock::new();
    SHARED.get_or_init(|| {
        let server = RedisServer::start();
        // Statics are never dropped, so the folder is removed now. The server persists nothing and does not need it.
        let _ = fs::remove_dir_all(server.folder.path());
        server
    })
}
