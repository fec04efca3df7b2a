//! A server in memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    /// Host and port.
    pub(crate) address: String,
    /// The banner printed at the start.
    pub(crate) banner: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
        command
            .env_clear()
            .args(["serve", "--log-level", "warn", "--listen", "127.0.0.1:0", "--store", "memory"])
            .arg("--webhook-allow-private")
            .args(options);
        Self::spawn(&mut command)
    }

    /// Spawns this command.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("\n  stop ") {
            assert!(stdout.read_line(&mut banner).unwrap() > 0, "the server ended: {banner}");
        }
        let address = banner
            .split_once("listening on ")
            .unwrap()
            .1
            .split_once("://")
            .unwrap()
            .1
            .lines()
            .next()
            .unwrap()
            .to_owned();
        Self { child, _stdout: stdout, address, banner }
    }

    /// The body of an answer, which is of the 2xx.
    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, length) = (&self.address, body.len());
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        let content = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all((head + &content).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
