//! Deliveries to host names that DNS does not answer for. The system's lookup of such a name blocks a thread for a long time, so these
//! are also the servers whose blocking threads are all busy.

use super::{ANSWER_TIME_MAX, BUDGETS, MEMORY_BYTES_MAX, Pressed};
use crate::http::server::{Server, command, eventually, store_in};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// Queues with a silent name each: more than tokio has blocking threads, which are 512.
const SILENT: usize = 560;
/// Queues whose names were found, before they became silent.
const KNOWN: usize = 40;
/// Lookups that wait at once of either kind of name.
const LOOKUPS: usize = 32;
/// Threads of such a server: its lookups, and fewer others than this, many of them while a busy machine answers all at once.
const THREADS_MAX: usize = 2 * LOOKUPS + 128;

/// A DNS server: all names are those of this machine.
struct Dns {
    socket: UdpSocket,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What names begin with that are not answered for.
    silent: Vec<&'static str>,
    /// Queries that are not answered, and the names in them.
    held: Vec<(SocketAddr, Vec<u8>)>,
    names: HashSet<String>,
}

impl Dns {
    fn start(silent: &'static str) -> Arc<Self> {
        let state = Mutex::new(State { silent: vec![silent], ..State::default() });
        // An address that no other test uses: the port of DNS cannot be chosen.
        let addresses = (1..255).map(|n| Ipv4Addr::new(127, 53, (std::process::id() % 251) as u8, n));
        let socket = addresses.into_iter().find_map(|address| UdpSocket::bind((address, 53)).ok());
        let socket = socket.expect("this test listens on the port of DNS and so needs root");
        let dns = Arc::new(Self { socket, state });
        let server = dns.clone();
        std::thread::spawn(move || server.serve());
        dns
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve(&self) {
        let mut buffer = [0; 512];
        while let Ok((length, client)) = self.socket.recv_from(&mut buffer) {
            let query = buffer[..length].to_vec();
            let name = name(&query);
            let mut state = self.state();
            if state.silent.iter().any(|silent| name.starts_with(silent)) {
                state.names.insert(name);
                state.held.push((client, query));
            } else {
                drop(state);
                self.answer(client, query);
            }
        }
    }

    /// With this machine's address, or with nothing if another kind of address is asked for.
    fn answer(&self, client: SocketAddr, mut query: Vec<u8>) {
        let question_end = 12 + name(&query).len() + 2 + 4;
        let is_ipv4 = query[question_end - 4..question_end - 2] == [0, 1];
        query.truncate(question_end);
        // It is an answer, with as many records, and nothing else.
        query[2..4].copy_from_slice(&[0x81, 0x80]);
        query[6..12].copy_from_slice(&[0, u8::from(is_ipv4), 0, 0, 0, 0]);
        if is_ipv4 {
            query.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
        }
        self.socket.send_to(&query, client).unwrap();
    }

    /// No longer answers for these either.
    fn silence(&self, names: &'static str) {
        self.state().silent.push(names);
    }

    /// How many such names were asked for and not answered.
    fn asked(&self, names: &str) -> usize {
        self.state().names.iter().filter(|name| name.starts_with(names)).count()
    }

    /// Answers for all names, and what was asked before.
    fn speak(&self) {
        let held = {
            let mut state = self.state();
            state.silent.clear();
            std::mem::take(&mut state.held)
        };
        held.into_iter().for_each(|(client, query)| self.answer(client, query));
    }

    /// A server that asks this one only, and gives it more time than the test takes.
    fn command(&self, folder: &tempfile::TempDir) -> Command {
        let settings = folder.path().join("resolv.conf");
        let address = self.socket.local_addr().unwrap().ip();
        std::fs::write(&settings, format!("nameserver {address}\nsearch .\noptions timeout:30 attempts:1\n")).unwrap();
        let server = command();
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
        command.args(["--mount", "/bin/sh", "-c", script]).arg(settings).arg(server.get_program());
        command.args(server.get_args()).stdin(std::process::Stdio::null());
        command
    }
}

/// The name in a query, with dots.
fn name(query: &[u8]) -> String {
    let mut labels = Vec::new();
    let mut rest = &query[12..];
    while rest[0] > 0 {
        let (label, after) = rest[1..].split_at(rest[0].into());
        labels.push(String::from_utf8_lossy(label));
        rest = after;
    }
    labels.join(".")
}

/// A receiver of deliveries. It accepts each on a separate connection, and counts them.
fn receiver() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n1") {
                let mut byte = [0];
                if connection.read(&mut byte).unwrap_or(0) == 0 {
                    break;
                }
                head.extend(byte);
            }
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        }
    });
    (port, count)
}

fn threads_of(p: &Pressed) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", p.server.pid())).unwrap().count()
}

/// Other deliveries go on, other jobs are handed out when they are due, and lists are answered.
fn goes_on(p: &Pressed, what: &str, reached: &str, received: &AtomicUsize) {
    p.serves_others(what);
    let begun = Instant::now();
    let before = received.load(Ordering::SeqCst);
    p.ask("POST", &format!("/v1/queues/{reached}/jobs"), &json!({"payload": 1}));
    eventually(|| received.load(Ordering::SeqCst) > before);
    p.ask("POST", "/v1/queues/late/jobs", &json!({"payload": 1, "delay": "50ms"}));
    let leases = p.ask("POST", "/v1/queues/late/reserve", &json!({"wait": "60s"}))["leases"].clone();
    assert_eq!(leases.as_array().map(Vec::len), Some(1), "{what}");
    p.ask("GET", "/v1/jobs?limit=1000", &Value::Null);
    p.ask("GET", "/v1/queues?limit=1000", &Value::Null);
    let took = begun.elapsed();
    assert!(took < ANSWER_TIME_MAX, "{what}: {took:?}");
    let threads = threads_of(p);
    assert!(threads < THREADS_MAX, "{what}: {threads} threads");
}

#[test]
fn names_that_dns_does_not_answer_for_delay_nothing_else() {
    let dns = Dns::start("silent");
    let (port, received) = receiver();
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder);
    let mut arguments =
        vec!["--store", store.to_str().unwrap(), "--beanstalk", "127.0.0.1:0", "--webhook-allow-private"];
    arguments.extend(BUDGETS);
    let p = Pressed::of(Server::run(dns.command(&folder), &arguments));
    let target = |queue: &str, host: &str| {
        let target = json!({"url": format!("http://{host}:{port}/"), "timeout": "5m"});
        p.ask("PUT", &format!("/v1/queues/{queue}"), &json!({"target": target}));
    };
    let push = |kind: &str, queues: usize, each: usize| {
        let job = |n: usize| json!({"queue": format!("{kind}-{}", n % queues), "payload": 1});
        p.ask("POST", "/v1/jobs", &(0..queues * each).map(job).collect());
    };
    (0..KNOWN).for_each(|n| target(&format!("known-{n}"), &format!("known-{n}.example")));
    target("reached-0", "reached.example");
    target("reached-1", "127.0.0.1");
    for kind in ["known", "reached"] {
        push(kind, if kind == "known" { KNOWN } else { 2 }, 1);
    }
    eventually(|| received.load(Ordering::SeqCst) == KNOWN + 2);
    // New names take their own threads, and no others.
    (0..SILENT).for_each(|n| target(&format!("silent-{n}"), &format!("silent-{n}.example")));
    push("silent", SILENT, 1);
    eventually(|| dns.asked("silent") >= LOOKUPS);
    goes_on(&p, "silent names", "reached-0", &received);
    // So do those that were found before: now all threads that look names up are busy.
    dns.silence("known");
    push("known", KNOWN, 1);
    eventually(|| dns.asked("known") >= LOOKUPS);
    goes_on(&p, "all lookups silent", "reached-1", &received);
    let memory = p.memory();
    println!("{} threads, {} MiB", threads_of(&p), memory >> 20);
    assert!(memory < MEMORY_BYTES_MAX, "{} MiB", memory >> 20);
    dns.speak();
    eventually(|| received.load(Ordering::SeqCst) == 2 * KNOWN + 2 + 2 + SILENT);
    goes_on(&p, "answers", "reached-0", &received);
    eventually(|| p.server.get("/readyz").status == 200);
}
