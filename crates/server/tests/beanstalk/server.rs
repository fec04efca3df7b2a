//! A server that speaks the protocol.

use crate::common::binary;
use crate::http::server::Server;
use duetime_store::testing::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// `duetime serve --beanstalk`.
pub(crate) struct Both {
    pub(crate) http: Server,
    pub(crate) address: SocketAddr,
}

impl Both {
    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::at(0, arguments)
    }

    /// On this port.
    pub(crate) fn at(port: u16, arguments: &[&str]) -> Self {
        let http = Server::with(&[&["--beanstalk", &format!("127.0.0.1:{port}")], arguments].concat());
        let address = http.banner.lines().find_map(|line| line.strip_prefix("  beanstalk    ")).unwrap();
        Self { address: address.parse().unwrap(), http }
    }
}

/// `duetime beanstalk`, or another program with its flags; killed when it is dropped.
pub(crate) struct Alone {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Alone {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command.env_clear().args(["beanstalk", "-p", "0", "-V"]).args(arguments).stdin(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = log.find_map(|line| {
            let line = line.unwrap();
            line.split_once("listening on ")?.1.split(';').next()?.parse().ok()
        });
        // Nobody reads its output, and it must not block on that.
        std::thread::spawn(move || log.for_each(drop));
        Self { child, address: address.expect("it listens") }
    }

    /// In a folder.
    pub(crate) fn on(folder: &Path) -> Self {
        Self::start(&["-b", folder.to_str().unwrap()])
    }

    /// In a folder, on this port.
    pub(crate) fn at(port: u16, folder: &Path) -> Self {
        let mut command = Command::new(binary());
        command.env_clear().arg("beanstalk");
        Self::run(command, port, &["-b", folder.to_str().unwrap()])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Another program with these flags; waits until it can be reached.
    pub(crate) fn run(mut command: Command, port: u16, arguments: &[&str]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        command.args(["-l", "127.0.0.1", "-p", &port.to_string()]).args(arguments);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the program to be reached", Duration::from_secs(60), || {
            assert!(child.try_wait().unwrap().is_none(), "it ended");
            std::net::TcpStream::connect(address).ok()
        });
        Self { child, address }
    }

    /// Debian's beanstalkd.
    pub(crate) fn original(port: u16, arguments: &[&str]) -> Self {
        Self::run(Command::new("/usr/bin/beanstalkd"), port, arguments)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An unused port.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Outside of the range from which the system takes those of clients, and far from those of other tests.
    let from = 20_000 + u16::try_from(std::process::id() * 17 % 9_000).unwrap() + NEXT.fetch_add(1, Ordering::Relaxed);
    (from..30_000).find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).expect("a free port")
}
