//! A server that lacks descriptors, or room on its disk.

use super::{BUDGETS, MEMORY_BYTES_MAX, Pressed, beanstalk_of};
use crate::http::client::Connection;
use crate::http::server::{Server, command_with_files, eventually, store_in};
use serde_json::{Value, json};
use std::io::Read;
use std::process::Command;

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
