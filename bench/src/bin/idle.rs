//! Holds many idle long polls and event streams on its own server, while a few jobs come, and says what that takes: the
//! server's memory, and how late the jobs reach their workers.
//!
//! ```sh
//! cargo build --release && cargo run --release -p duetime-bench --bin idle -- --polls 9000 --events 500
//! ```
//!
//! Connections come from several loopback addresses, because one address has a limited number of ports and the server
//! limits connections per address. Both processes need one file descriptor per connection, so they raise the limit as
//! high as it may go.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::io::{self, BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;

/// Connections from one address.
const BY_ADDRESS: usize = 200;
/// Connections that are being opened at once.
const AT_ONCE: usize = 64;
/// Queues over which polls and jobs are spread.
const QUEUES: usize = 100;
/// How long before its due time a job is pushed.
const AHEAD_MS: u64 = 1_000;
/// Time limit of a long poll.
const WAIT: &str = "60s";

/// The requested load.
struct Plan {
    polls: usize,
    events: usize,
    jobs: usize,
    /// Jobs in a second.
    rate: u64,
    /// Options of `duetime serve`.
    more: Vec<String>,
}

impl Plan {
    fn read() -> Result<Self, String> {
        let mut plan = Self { polls: 2_000, events: 0, jobs: 1_000, rate: 50, more: Vec::new() };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            if word == "--" {
                plan.more = words.collect();
                break;
            }
            let number = words.next().and_then(|text| text.parse::<usize>().ok());
            let number = number.ok_or_else(|| format!("expected a number behind {word}"))?;
            match &*word {
                "--polls" => plan.polls = number,
                "--events" => plan.events = number,
                "--jobs" => plan.jobs = number,
                "--rate" => plan.rate = number.max(1) as u64,
                _ => {
                    let expected =
                        "expected --polls N, --events N, --jobs N, --rate N, or -- and options of the server";
                    return Err(format!("{expected}, got {word}"));
                }
            }
        }
        Ok(plan)
    }
}

/// Killed when it is dropped.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(more: &[String]) -> Result<Self, String> {
        let binary = std::env::var("DUETIME_BIN").unwrap_or_else(|_| "target/release/duetime".to_owned());
        let mut command = Command::new(&binary);
        command.args(["serve", "--log-level", "warn", "--listen", "127.0.0.1:0", "--store", "memory"]).args(more);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("expected the binary {binary} (or DUETIME_BIN): {error}"))?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("it has an output")?).lines().map_while(Result::ok);
        let address = lines.find_map(|line| Some(line.split_once("listening on http://")?.1.trim().to_owned()));
        let address = address.ok_or("the server ended")?.parse().map_err(|_| "the server listens on no address")?;
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address })
    }

    /// Resident memory, in KiB.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that speaks just enough HTTP.
struct Connection {
    stream: TcpStream,
    host: SocketAddr,
    read: Vec<u8>,
}

impl Connection {
    /// The number says from which address.
    async fn open(number: usize, host: SocketAddr) -> io::Result<Self> {
        let place = u32::try_from(number / BY_ADDRESS).unwrap_or(0) + 2;
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((Ipv4Addr::from(0x7f00_0000 + place), 0)))?;
        Ok(Self { stream: socket.connect(host).await?, host, read: Vec::new() })
    }

    async fn send(&mut self, method: &str, path: &str, body: &Value) -> io::Result<()> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n", self.host);
        let text = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        self.stream.write_all(text.as_bytes()).await
    }

    async fn call(&mut self, method: &str, path: &str, body: &Value) -> io::Result<Value> {
        self.send(method, path, body).await?;
        loop {
            if let Some((length, answer)) = parse(&self.read)? {
                self.read.drain(..length);
                return Ok(answer);
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// An answer that is there as a whole, and its length.
fn parse(bytes: &[u8]) -> io::Result<Option<(usize, Value)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|n| n.parse().ok());
    let length: usize = length.unwrap_or(0);
    let Some(body) = bytes.get(end + 4..end + 4 + length) else { return Ok(None) };
    if !head.starts_with("http/1.1 2") {
        return Err(io::Error::other(format!("{head}: {}", String::from_utf8_lossy(body))));
    }
    Ok(Some((end + 4 + length, serde_json::from_slice(body).unwrap_or(Value::Null))))
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Waits for jobs until the process ends, and reports how late each one came, in µs.
async fn poll(mut connection: Connection, number: usize, late: mpsc::UnboundedSender<u64>) -> io::Result<()> {
    let path = format!("/v1/queues/idle-{}/reserve", number % QUEUES);
    loop {
        let reservation = connection.call("POST", &path, &json!({"wait": WAIT})).await?;
        let came = now_us();
        for lease in reservation["leases"].as_array().into_iter().flatten() {
            let due_us = lease["payload"]["due_at_ms"].as_u64().unwrap_or(0) * 1_000;
            let receipt = lease["receipt"].as_str().unwrap_or_default();
            connection.call("POST", &format!("/v1/leases/{receipt}/complete"), &json!({})).await?;
            // At the end nobody subscribes any more.
            let _ = late.send(came.saturating_sub(due_us));
        }
    }
}

/// Reads events until the process ends, and counts them.
async fn listen(mut connection: Connection, count: Arc<AtomicUsize>) -> io::Result<()> {
    connection.send("GET", "/v1/events", &Value::Null).await?;
    let mut part = vec![0; 16 << 10];
    loop {
        let length = connection.stream.read(&mut part).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let events = part[..length].windows(6).filter(|six| six == b"event:").count();
        count.fetch_add(events, Ordering::Relaxed);
    }
}

async fn open_all(from: usize, count: usize, host: SocketAddr) -> io::Result<Vec<Connection>> {
    let mut all = Vec::with_capacity(count);
    for first in (0..count).step_by(AT_ONCE) {
        let numbers = first..count.min(first + AT_ONCE);
        let tasks: Vec<_> = numbers.map(|n| tokio::spawn(Connection::open(from + n, host))).collect();
        for task in tasks {
            all.push(task.await.map_err(io::Error::other)??);
        }
    }
    Ok(all)
}

async fn run(plan: &Plan, server: &Server) -> io::Result<()> {
    let at_first = server.memory();
    let begin = Instant::now();
    let (told, mut late) = mpsc::unbounded_channel();
    let events = Arc::new(AtomicUsize::new(0));
    let failed = |error: io::Error| {
        eprintln!("a connection failed: {error}");
        std::process::exit(1);
    };
    for connection in open_all(0, plan.events, server.address).await? {
        let count = events.clone();
        tokio::spawn(async move { listen(connection, count).await.unwrap_or_else(failed) });
    }
    let polls = open_all(plan.events, plan.polls, server.address).await?;
    for (number, connection) in polls.into_iter().enumerate() {
        let told = told.clone();
        tokio::spawn(async move { poll(connection, number, told).await.unwrap_or_else(failed) });
    }
    let mut control = open_all(plan.events + plan.polls, 1, server.address).await?.remove(0);
    // Every connection accepted earlier has been read by now.
    control.call("GET", "/readyz", &Value::Null).await?;
    println!("{} polls and {} event streams after {:.1} s", plan.polls, plan.events, begin.elapsed().as_secs_f64());

    let (mut times, mut idle) = (Vec::with_capacity(plan.jobs), 0);
    let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / plan.rate));
    for job in 0..plan.jobs {
        ticks.tick().await;
        if job == plan.jobs / 2 {
            idle = server.memory();
        }
        let due_at_ms = now_us() / 1_000 + AHEAD_MS;
        let path = format!("/v1/queues/idle-{}/jobs", job % QUEUES.min(plan.polls.max(1)));
        control.call("POST", &path, &json!({"payload": {"due_at_ms": due_at_ms}, "due_at_ms": due_at_ms})).await?;
    }
    while times.len() < plan.jobs {
        times.push(late.recv().await.unwrap_or(0));
    }
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64 / 1_000.0;
    let connections = (plan.polls + plan.events).max(1) as u64;
    println!("memory of the server: {at_first} KiB at first, {idle} KiB with them");
    println!("which is {} bytes a connection", idle.saturating_sub(at_first) * 1_024 / connections);
    println!("lateness of {} jobs, in ms: p50 {:.2}, p99 {:.2}, max {:.2}", times.len(), at(0.5), at(0.99), at(1.0));
    println!("events that streams read: {}", events.load(Ordering::Relaxed));
    Ok(())
}

/// Raises the limit of open files to the allowed maximum.
fn raise_limit() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

fn main() -> ExitCode {
    let done = (|| {
        let plan = Plan::read()?;
        // The server inherits it.
        raise_limit();
        let server = Server::start(&plan.more)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let ran = runtime.block_on(run(&plan, &server)).map_err(|error| error.to_string());
        runtime.shutdown_background();
        ran
    })();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
