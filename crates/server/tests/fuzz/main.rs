//! Malformed requests of every kind against the real server: it never answers with an internal error, does not panic, and
//! its memory does not grow.
//!
//! For some seconds, or as many as `DUETIME_FUZZ_SECONDS` says (`cargo xtask fuzz`). A seed is printed, and
//! `DUETIME_FUZZ_SEED` repeats it, except for the scheduling of threads.

#[path = "../common/mod.rs"]
mod common;
mod requests;

use common::Random;
use requests::Request;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const THREADS: u64 = 4;
/// A reply is not awaited for longer: the request may ask for a wait, or announce more than it has.
const REPLY_TIME_MAX: Duration = Duration::from_millis(300);
/// Requests of a thread between two sweeps of all jobs.
const SWEEP_EVERY: u64 = 500;
/// How much memory may grow after the first third.
const GROWTH_MAX: u64 = 64 << 20;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

struct Server {
    child: Child,
    address: SocketAddr,
    log: std::path::PathBuf,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let log = folder.join("log");
        let mut child = Command::new(common::binary())
            .env_clear()
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "info", "--store"])
            .arg(folder.join("store.db"))
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| Some(line.unwrap().split_once("http://")?.1.parse().unwrap())).unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, log }
    }

    /// Its memory in bytes.
    fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).expect("the server ended");
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status of the reply to a request, if there is one in time.
fn exchange(stream: &mut TcpStream, request: &[u8]) -> Option<(u16, String)> {
    // The server need not read a refused request to its end.
    let _ = stream.write_all(request);
    let mut reply = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if reply.starts_with(b"HTTP/1.1 100 Continue\r\n\r\n") {
            reply.drain(.."HTTP/1.1 100 Continue\r\n\r\n".len());
        }
        if reply.windows(4).any(|window| window == b"\r\n\r\n") {
            break;
        }
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => reply.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let text = String::from_utf8_lossy(&reply).into_owned();
    let status = text.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, text))
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server takes connections");
    stream.set_read_timeout(Some(REPLY_TIME_MAX)).unwrap();
    stream
}

/// Sends requests until the time is over; how many were answered.
fn torment(address: SocketAddr, seed: u64, until: Instant, answered: &AtomicU64) {
    let mut random = Random::new(seed);
    for turn in 0.. {
        if Instant::now() >= until {
            return;
        }
        if turn % SWEEP_EVERY == SWEEP_EVERY - 1 {
            for verb in ["cancel", "delete"] {
                let sweep = Request::new("POST", &format!("/v1/jobs/{verb}"), "{}");
                exchange(&mut connect(address), &sweep.bytes());
            }
        }
        let request = requests::wrong(&mut random);
        let reply = exchange(&mut connect(address), &request);
        let Some((status, text)) = reply else { continue };
        answered.fetch_add(1, Ordering::Relaxed);
        let is_known = matches!(status, 200 | 201 | 204 | 304 | 400..=499);
        assert!(is_known, "seed {seed}, {}:\n{text}", String::from_utf8_lossy(&request));
    }
}

#[test]
fn nothing_that_is_wrong_harms_the_server() {
    let seconds = number("DUETIME_FUZZ_SECONDS").unwrap_or(6);
    let seed = number("DUETIME_FUZZ_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("DUETIME_FUZZ_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let (begin, answered) = (Instant::now(), AtomicU64::new(0));
    let mut early = 0;
    for third in 1..=3 {
        let until = begin + Duration::from_secs(seconds) * third / 3;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (address, answered) = (server.address, &answered);
                let seed = seed.wrapping_mul(31).wrapping_add(u64::from(third) * THREADS + thread);
                scope.spawn(move || torment(address, seed, until, answered));
            }
        });
        let memory = server.memory();
        println!(
            "after {} s: {} answers, {} MiB",
            begin.elapsed().as_secs(),
            answered.load(Ordering::Relaxed),
            memory >> 20
        );
        if third == 1 {
            early = memory;
        }
        assert!(memory < early + GROWTH_MAX, "it had {early} bytes and has {memory}");
    }
    assert!(answered.load(Ordering::Relaxed) > 100, "hardly anything was answered");
    assert!(server.child.try_wait().unwrap().is_none(), "the server ended");
    let log = std::fs::read_to_string(&server.log).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    let (status, _) = exchange(&mut connect(server.address), &Request::new("GET", "/healthz", "").bytes()).unwrap();
    assert_eq!(status, 200);
}
