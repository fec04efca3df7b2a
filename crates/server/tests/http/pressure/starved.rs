//! A server that lacks descriptors, or room on its disk.

use super::{BUDGETS, MEMORY_BYTES_MAX, Pressed, beanstalk_of};
use crate::http::client::Connection;
use crate::http::server::{Server, command_with_files, eventually, store_in};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// With few descriptors a server shares them out: neither its listeners nor its deliveries take those of the store.
#[test]
fn few_descriptors_are_shared_out() {
    const FILES: usize = 256;
    const MANY: usize = 120;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let receiver = silent.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder);
    let arguments = ["--store", store.to_str().unwrap(), "--beanstalk", "127.0.0.1:0", "--webhook-allow-private"];
    let server = Server::with_files(FILES, &arguments);
    for n in 0..5 {
        let queue = format!("to-{n}");
        server.put(&format!("/v1/queues/{queue}"), &json!({"target": {"url": format!("http://{receiver}/")}})).ok();
        let job = json!({"payload": n});
        server.post(&format!("/v1/queues/{queue}/jobs"), &Value::from(vec![job; 300])).ok();
    }
    // Nobody answers these. More clients connect than there is room for, from several addresses.
    let beanstalk = beanstalk_of(&server);
    let connect = |n: usize| {
        Connection::from(&format!("127.0.1.{}", 1 + n % 8), if n < MANY { beanstalk } else { server.address })
    };
    let held: Vec<_> = (0..MANY + 30).map(connect).collect();
    let mut last = 0;
    for _ in 0..20 {
        last = last.max(server.descriptors());
        server.push(&json!({"payload": 1}));
        server.get("/readyz").ok();
    }
    drop(held);
    assert!(last < FILES, "{last}");
    assert_eq!(server.reserve(100).len(), 20);
}

/// Whether receivers answer.
type Gate = Arc<(Mutex<bool>, Condvar)>;

/// A receiver for each of many queues. It keeps connections, and answers on them once that is set.
struct Receivers {
    addresses: Vec<SocketAddr>,
    answers: Gate,
    received: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Receivers {
    fn answer(&self) {
        *self.answers.0.lock().unwrap() = true;
        self.answers.1.notify_all();
    }

    fn received(&self) -> usize {
        self.received.load(Ordering::SeqCst)
    }

    /// Makes each of them the target of a queue, and pushes a job there.
    fn be_targets(&self, server: &Server, prefix: &str) {
        for (n, receiver) in self.addresses.iter().enumerate() {
            let target = json!({"url": format!("http://{receiver}/"), "timeout": "5m"});
            server.put(&format!("/v1/queues/{prefix}-{n}"), &json!({"target": target})).ok();
        }
        self.push(server, prefix, 1);
    }

    /// Pushes so many jobs to each.
    fn push(&self, server: &Server, prefix: &str, jobs: usize) {
        let count = self.addresses.len();
        let job = |n| json!({"queue": format!("{prefix}-{}", n % count), "payload": 1});
        server.post("/v1/jobs", &(0..count * jobs).map(job).collect()).ok();
    }
}

fn receivers(count: usize) -> Receivers {
    let answers = Arc::new((Mutex::new(false), Condvar::new()));
    let [received, connections] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let start = |_| {
        let (answers, received, connections) = (answers.clone(), received.clone(), connections.clone());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // A queue has one delivery at a time here.
        std::thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (mut read, mut byte) = (Vec::new(), [0]);
                while connection.read(&mut byte).unwrap_or(0) > 0 {
                    read.extend(byte);
                    if read.ends_with(b"\r\n\r\n1") {
                        received.fetch_add(1, Ordering::SeqCst);
                        let answer = answers.0.lock().unwrap();
                        drop(answers.1.wait_while(answer, |answer| !*answer).unwrap());
                        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                        read.clear();
                    }
                }
            }
        });
        address
    };
    Receivers { addresses: (0..count).map(start).collect(), answers, received, connections }
}

/// Turns of deliveries with 256 descriptors: three quarters of the share of deliveries. Receivers that have not answered share a half.
const TURNS: usize = 18;

/// With 256 descriptors.
fn server_with_turns() -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder);
    let arguments = ["--store", store.to_str().unwrap(), "--beanstalk", "127.0.0.1:0", "--webhook-allow-private"];
    (Server::with_files(256, &arguments), folder)
}

/// Each queue had a delivery at least, and each receiver a connection that was kept: more than there are descriptors.
#[test]
fn more_targets_than_descriptors_take_turns() {
    const QUEUES: usize = 200;
    /// Connections of deliveries, of which a quarter may be kept.
    const SHARE: usize = 24;
    /// Of the requests meanwhile.
    const OTHERS: usize = 12;
    let receivers = receivers(QUEUES);
    let (server, _folder) = server_with_turns();
    let before = server.descriptors();
    receivers.be_targets(&server, "to");
    eventually(|| receivers.received() == TURNS / 2);
    let mut most = 0;
    for _ in 0..20 {
        server.push(&json!({"payload": 1}));
        server.get("/readyz").ok();
        most = most.max(server.descriptors());
    }
    receivers.answer();
    let mut all_received = |jobs: usize| {
        eventually(|| {
            most = most.max(server.descriptors());
            receivers.received() == QUEUES * jobs
        });
    };
    all_received(1);
    // Now all turns are taken, and connections are kept.
    receivers.push(&server, "to", 3);
    all_received(4);
    assert!(most <= before + SHARE + OTHERS, "{before} before, {most} then");
    assert_eq!(server.reserve(100).len(), 20);
    server.get("/readyz").ok();
}

/// Receivers that never answer had all turns and all kept connections.
#[test]
fn silent_receivers_take_neither_turns_nor_kept_connections_of_others() {
    const ANSWERING: usize = 4;
    const JOBS: usize = 30;
    let (silent, answering) = (receivers(2 * TURNS), receivers(ANSWERING));
    answering.answer();
    let (server, _folder) = server_with_turns();
    answering.be_targets(&server, "answers");
    eventually(|| answering.received() == ANSWERING);
    silent.be_targets(&server, "silent");
    eventually(|| silent.received() == TURNS / 2);
    answering.push(&server, "answers", JOBS);
    eventually(|| answering.received() == ANSWERING * (1 + JOBS));
    assert_eq!(silent.received(), TURNS / 2);
    assert!(answering.connections.load(Ordering::SeqCst) < ANSWERING * JOBS / 2, "{:?}", answering.connections);
}

/// A delivery that waits for its turn has not begun: without its target, its job is there for workers.
#[test]
fn a_delivery_that_waits_for_its_turn_is_given_back_with_its_target() {
    const QUEUES: usize = 60;
    let receivers = receivers(QUEUES);
    let (server, _folder) = server_with_turns();
    receivers.be_targets(&server, "to");
    let all = |what: &str| -> u64 {
        (0..QUEUES).map(|n| server.get(&format!("/v1/queues/to-{n}")).ok()[what].as_u64().unwrap()).sum()
    };
    eventually(|| all("running") == QUEUES as u64 && receivers.received() == TURNS / 2);
    for n in 0..QUEUES {
        server.put(&format!("/v1/queues/to-{n}"), &json!({"target": null})).ok();
    }
    eventually(|| all("ready") == (QUEUES - TURNS / 2) as u64);
}

/// A limit that is too low for any server is said at the start.
#[test]
fn too_few_descriptors_are_told_at_the_start() {
    let mut child = command_with_files(100)
        .args(["--store", "memory", "--listen", "127.0.0.1:0"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(said.contains("allows 100 open files") && said.contains("ulimit -n"), "{said}");
}

/// A small file system, mounted for one test.
pub(crate) struct Disk(pub(crate) tempfile::TempDir);

impl Disk {
    pub(crate) fn mount(size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).status();
        assert!(mounted.unwrap().success(), "this test mounts a small file system and so needs root");
        Self(folder)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// Many push onto a full disk: each is refused in its own words, what is there can be read, and once there is room again all goes on.
#[test]
fn a_full_disk_under_pressure_is_told_and_survived() {
    const CALLERS: usize = 16;
    let disk = Disk::mount("48m");
    let (store, ballast) = (disk.0.path().join("duetime.db"), disk.0.path().join("ballast"));
    let mut arguments = vec!["--store", store.to_str().unwrap(), "--beanstalk", "127.0.0.1:0"];
    arguments.extend(BUDGETS);
    let p = Pressed::of(Server::with(&arguments));
    std::fs::write(&ballast, vec![0; 16 << 20]).unwrap();
    let body = Value::from(vec![json!({"payload": "x".repeat(500_000)}); 4]).to_string();
    let push = || {
        let mut accepted = 0;
        loop {
            let reply = p.server.send("POST", "/v1/queues/q/jobs", &[], &body);
            match reply.status {
                200 => {
                    let answers: Vec<Value> = serde_json::from_str(&reply.body).unwrap();
                    let refused = answers.iter().find(|answer| answer["id"].is_null());
                    accepted += answers.iter().filter(|answer| !answer["id"].is_null()).count();
                    let Some(refused) = refused else { continue };
                    assert_eq!(refused["code"], "store_full", "{refused}");
                }
                503 => assert!(reply.body.contains("too_many_bodies"), "{reply:?}"),
                status => assert_eq!(status, 507, "{reply:?}"),
            }
            return accepted;
        }
    };
    let accepted: usize = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(push)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    assert!((4..100).contains(&accepted), "{accepted} of 500 KB on 48 MB");
    eventually(|| p.server.get("/readyz").body.contains("store_full"));
    assert_eq!(p.ask("GET", "/v1/queues/q", &Value::Null)["ready"], accepted);
    assert!(p.memory() < MEMORY_BYTES_MAX, "{} MiB", p.memory() >> 20);
    std::fs::remove_file(&ballast).unwrap();
    eventually(|| p.server.get("/readyz").status == 200);
    p.serves_others("a full disk");
}
