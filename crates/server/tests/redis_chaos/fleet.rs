//! The processes: servers on fixed ports, workers that write histories, and the faults injected into them.

use crate::common::binary;
use crate::worker::Orders;
use duetime_core::{Clock as _, Millis, SystemClock};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use tempfile::TempDir;
use tokio::task::JoinHandle;

pub(crate) const SERVERS: usize = 3;
/// Half of them over HTTP, the others on Redis by themselves.
pub(crate) const WORKERS: usize = 4;
/// Below the ports that the system gives to clients, and apart from those of the private servers and their buses.
const PORTS: std::ops::Range<u16> = 30_000..32_000;

/// A process; killed when it is dropped.
struct Process(Child);

impl Process {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Something that befell all.
#[derive(Clone, Debug)]
pub(crate) struct Outage {
    pub(crate) what: &'static str,
    pub(crate) begin: Millis,
    /// When Redis was back.
    pub(crate) back: Millis,
}

pub(crate) struct Fleet {
    clock: SystemClock,
    folder: TempDir,
    redis: String,
    ledger: Option<String>,
    ports: Vec<u16>,
    servers: Mutex<Vec<Process>>,
    /// Each with how often it was started.
    workers: Mutex<Vec<(Process, usize)>>,
    outages: Mutex<Vec<Outage>>,
    kills: Mutex<(usize, usize)>,
    limit: usize,
}

impl Fleet {
    pub(crate) fn start(redis: &str, ledger: Option<&str>, limit: usize) -> Self {
        let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
        let from = PORTS.start + u16::try_from(std::process::id() % 1_900).unwrap();
        let fleet = Self {
            clock: SystemClock::new(),
            folder: tempfile::tempdir().unwrap(),
            redis: redis.to_owned(),
            ledger: ledger.map(str::to_owned),
            ports: (from..PORTS.end).chain(PORTS).filter(free).take(SERVERS).collect(),
            servers: Mutex::default(),
            workers: Mutex::default(),
            outages: Mutex::default(),
            kills: Mutex::default(),
            limit,
        };
        *fleet.servers.lock().unwrap() = (0..SERVERS).map(|n| fleet.server(n)).collect();
        *fleet.workers.lock().unwrap() = (0..WORKERS).map(|n| (fleet.worker(n, 0), 0)).collect();
        fleet
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.wall()
    }

    pub(crate) fn server_urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect()
    }

    fn log(&self, name: &str) -> std::fs::File {
        let path = self.folder.path().join(name).with_extension("log");
        std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    fn server(&self, n: usize) -> Process {
        let mut command = Command::new(binary());
        command.env_clear().args(["serve", "--log-level", "warn", "--broker", &self.redis]);
        if let Some(ledger) = &self.ledger {
            command.args(["--ledger", ledger]);
        }
        command.args(["--listen", &format!("127.0.0.1:{}", self.ports[n])]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.log(&format!("server-{n}")));
        Process(command.spawn().unwrap())
    }

    fn worker(&self, n: usize, generation: usize) -> Process {
        let mut urls = self.server_urls();
        urls.rotate_left(n % SERVERS);
        let urls = if n.is_multiple_of(2) { urls } else { vec![self.redis.clone()] };
        let history = self.history(n, generation);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "works_for_another_test", "--nocapture"]);
        Orders { urls, ledger: self.ledger.clone(), history, number: n, limit: self.limit }.put(&mut command);
        // It ends with us: its input is closed then.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(self.log(&format!("worker-{n}")));
        Process(command.spawn().unwrap())
    }

    fn history(&self, n: usize, generation: usize) -> PathBuf {
        self.folder.path().join(format!("{n}-{generation}.history"))
    }

    /// Kills a worker and starts it again.
    pub(crate) fn kill_worker(&self, n: usize) {
        let mut workers = self.workers.lock().unwrap();
        let (process, generation) = &mut workers[n];
        process.kill();
        *generation += 1;
        *process = self.worker(n, *generation);
        self.kills.lock().unwrap().0 += 1;
    }

    /// Kills a server and starts it again.
    pub(crate) fn kill_server(&self, n: usize) {
        let mut servers = self.servers.lock().unwrap();
        servers[n].kill();
        servers[n] = self.server(n);
        self.kills.lock().unwrap().1 += 1;
    }

    /// The number of killed workers and servers.
    pub(crate) fn kills(&self) -> (usize, usize) {
        *self.kills.lock().unwrap()
    }

    /// Waits for the end of an outage that has just begun.
    pub(crate) async fn outage<T>(&self, what: &'static str, end: JoinHandle<T>) -> T {
        let begin = self.now();
        let ended = end.await.unwrap();
        self.outages.lock().unwrap().push(Outage { what, begin, back: self.now() });
        ended
    }

    pub(crate) fn outages(&self) -> Vec<Outage> {
        self.outages.lock().unwrap().clone()
    }

    /// Ends all workers, and answers their histories, each with its worker's number.
    pub(crate) fn stop_workers(&self) -> Vec<(usize, PathBuf)> {
        let mut workers = self.workers.lock().unwrap();
        let generations: Vec<usize> = workers.iter().map(|(_, generation)| *generation).collect();
        workers.clear();
        let all = generations.iter().enumerate().flat_map(|(n, &last)| (0..=last).map(move |g| (n, g)));
        all.map(|(n, generation)| (n, self.history(n, generation))).collect()
    }

    /// Ends all processes and keeps their records.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}
