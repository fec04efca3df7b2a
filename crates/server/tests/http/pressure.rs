//! The pressure table: each thing that callers can make a server hold, made to grow by many connections at once, through each door,
//! with and without rights.
//!
//! Each row presses a server with small budgets. While it does, the server's memory stays under a bound, another caller is answered, and
//! once the pressure ends everything works again, without a restart. A new thing that can grow is one more row.
//!
//! [`CROWD`] connections are enough to break each bound several times over if it did not hold; `cargo xtask outside` runs the table with
//! [`CROWD_WHOLE`].

use super::client::{Connection, request};
use super::server::{Server, eventually, store_in};
use super::tokens::Tokens;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const CROWD: usize = 64;
const CROWD_WHOLE: usize = 600;
/// The budgets of the server: of live jobs, and of requests and answers.
const BUDGETS: [&str; 4] = ["--memory-max", "64MiB", "--requests-memory-max", "64MiB"];
/// The memory of a server under any pressure: both budgets, itself, connections, and what the allocator keeps.
const MEMORY_BYTES_MAX: usize = 384 << 20;
/// How long another caller may wait: a second on an idle machine. A server that stands still exceeds this in any case.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);

/// A thing that can grow.
struct Row {
    what: &'static str,
    /// Makes what it needs.
    prepare: fn(&Pressed),
    /// Connections of each of the crowd: more for what is small.
    each: usize,
    /// What each of these does. It need not succeed, and holds its connection.
    press: fn(&Pressed, usize) -> Option<TcpStream>,
    /// What must hold besides, while the connections are held.
    then: fn(&Pressed),
}

/// A server under pressure.
struct Pressed {
    server: Server,
    beanstalk: SocketAddr,
    /// The header of a caller with all rights.
    rights: Vec<(&'static str, String)>,
}

impl Pressed {
    /// With tokens, most of the crowd has none.
    fn start(tokens: Option<&Tokens>) -> (Self, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = store_in(&folder);
        let file = tokens.map(|tokens| tokens.file().to_str().unwrap().to_owned());
        let mut arguments = vec!["--store", store.to_str().unwrap(), "--beanstalk", "127.0.0.1:0"];
        arguments.extend(BUDGETS);
        arguments.extend(file.iter().flat_map(|file| ["--tokens", file]));
        let rights = tokens.map(|tokens| {
            ("authorization", format!("Bearer {}", tokens.create("root", "admin,push,work,read,change")))
        });
        let server = Server::with(&arguments);
        let beanstalk =
            server.banner.lines().find_map(|line| line.strip_prefix("  beanstalk    ")).unwrap().parse().unwrap();
        (Self { server, beanstalk, rights: rights.into_iter().collect() }, folder)
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        self.rights.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.server.send(method, path, &self.headers(), &body);
        assert!(reply.status < 300, "{method} {path}: {} {:.300}", reply.status, reply.body);
        serde_json::from_str(&reply.body).unwrap_or_default()
    }

    /// Sends a request and reads nothing.
    fn unread(&self, method: &str, path: &str, body: &str) -> Option<TcpStream> {
        let mut connection = TcpStream::connect(self.server.address).ok()?;
        connection.write_all(request(method, path, &self.headers(), body).as_ref()).ok()?;
        Some(connection)
    }

    /// Sends this to the port of beanstalkd and reads nothing.
    fn beanstalk(&self, bytes: &[u8]) -> Option<TcpStream> {
        let mut connection = TcpStream::connect(self.beanstalk).ok()?;
        connection.write_all(bytes).ok()?;
        Some(connection)
    }

    /// The most memory that the server has used.
    fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// Another caller does its work.
    #[track_caller]
    fn serves_others(&self, what: &str) {
        let begun = Instant::now();
        let id = self.ask("POST", "/v1/queues/other/jobs", &json!({"payload": 1}))["id"].clone();
        let leases = self.ask("POST", "/v1/queues/other/reserve", &json!({}))["leases"].clone();
        assert_eq!(leases[0]["id"], id, "{what}");
        let receipt = leases[0]["receipt"].as_str().unwrap();
        self.ask("POST", &format!("/v1/leases/{receipt}/complete"), &Value::Null);
        let took = begun.elapsed();
        assert!(took < ANSWER_TIME_MAX, "{what}: another caller waited {took:?}");
    }

    /// Pushes this many jobs with payloads of this many bytes.
    fn push_large(&self, queue: &str, jobs: usize, bytes: usize) {
        let job = json!({"payload": "x".repeat(bytes)});
        let together = (8 << 20) / bytes;
        for some in (0..jobs).collect::<Vec<_>>().chunks(together) {
            self.ask("POST", &format!("/v1/queues/{queue}/jobs"), &Value::from(vec![job.clone(); some.len()]));
        }
    }
}

fn nothing(_: &Pressed) {}

/// The things that can grow.
const TABLE: &[Row] = &[
    Row {
        what: "heads that never end",
        each: 12,
        prepare: nothing,
        press: |p, _| {
            let mut connection = TcpStream::connect(p.server.address).ok()?;
            let head = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}", "y".repeat(60_000));
            connection.write_all(head.as_bytes()).ok()?;
            Some(connection)
        },
        then: nothing,
    },
    Row {
        what: "bodies that never end",
        each: 1,
        prepare: nothing,
        press: |p, _| {
            let mut connection = TcpStream::connect(p.server.address).ok()?;
            let request = String::from_utf8(request("POST", "/v1/queues/q/jobs", &p.headers(), "x")).unwrap();
            let request = request.replace("content-length: 1\r\n", "content-length: 15000000\r\n");
            connection.write_all(request.as_bytes()).ok()?;
            for _ in 0..64 {
                connection.write_all(&[b' '; 100_000]).ok()?;
            }
            Some(connection)
        },
        then: nothing,
    },
    Row {
        what: "whole bodies at once",
        each: 1,
        prepare: nothing,
        press: |p, _| {
            let job = json!({"payload": "x".repeat(900_000)});
            p.unread("POST", "/v1/queues/q/jobs", &Value::from(vec![job; 8]).to_string())
        },
        then: nothing,
    },
    Row {
        what: "unread pages of jobs",
        each: 1,
        prepare: |p| p.push_large("q", 40, 500_000),
        press: |p, _| p.unread("GET", "/v1/jobs?queue=q&limit=1000", ""),
        then: nothing,
    },
    Row {
        what: "unread repeats of a reserve",
        each: 1,
        prepare: |p| p.push_large("q", 40, 500_000),
        press: |p, _| p.unread("POST", "/v1/queues/q/reserve", r#"{"limit":1000,"request_id":"again"}"#),
        then: nothing,
    },
    Row {
        what: "unread reserves",
        each: 1,
        prepare: |p| p.push_large("q", 100, 500_000),
        press: |p, _| p.unread("POST", "/v1/queues/q/reserve", r#"{"limit":1000}"#),
        then: nothing,
    },
    Row {
        what: "unread changes of a large job",
        each: 4,
        prepare: |p| p.push_large("q", 1, 1_000_000),
        press: |p, _| {
            // Others may use all the room for answers by now.
            let found = p.server.send("GET", "/v1/jobs?queue=q&limit=1", &p.headers(), "");
            let found: Value = serde_json::from_str(&found.body).ok()?;
            let id = found["jobs"][0]["id"].as_str()?.to_owned();
            p.unread("PATCH", &format!("/v1/jobs/{id}"), r#"{"priority":7}"#)
        },
        then: nothing,
    },
    Row {
        what: "unread schedules",
        each: 1,
        prepare: |p| {
            let schedule = json!({"every": "1h", "job": {"queue": "q", "payload": "x".repeat(60_000)}});
            (0..150).for_each(|n| drop(p.ask("PUT", &format!("/v1/schedules/s{n}"), &schedule)));
        },
        press: |p, _| p.unread("GET", "/v1/schedules?limit=1000", ""),
        then: nothing,
    },
    Row {
        what: "unread queues",
        each: 8,
        prepare: |p| {
            let jobs: Vec<_> = (0..1_000).map(|n| json!({"queue": format!("q{n:0>190}"), "payload": 1})).collect();
            p.ask("POST", "/v1/jobs", &Value::from(jobs));
        },
        press: |p, _| p.unread("GET", "/v1/queues?limit=1000", ""),
        then: nothing,
    },
    Row {
        what: "kept errors",
        each: 1,
        prepare: |p| {
            let retry = json!({"max_attempts": 0, "steps": ["0s"]});
            let job = json!({"payload": 1, "retry": retry});
            p.ask("POST", "/v1/queues/q/jobs", &Value::from(vec![job; 300]));
        },
        press: |p, _| {
            let message = "e".repeat(65_536);
            for _ in 0..20 {
                let leases = p.ask("POST", "/v1/queues/q/reserve", &json!({"limit": 4}))["leases"].clone();
                let fail = |lease: &Value| json!({"receipt": lease["receipt"], "fail": {"message": message}});
                let settles: Vec<_> = leases.as_array()?.iter().map(fail).collect();
                let reply = p.server.send("POST", "/v1/settle", &p.headers(), &Value::from(settles).to_string());
                assert!([200, 503].contains(&reply.status), "{reply:?}");
            }
            None
        },
        // They were never answered again.
        then: |p| drop(p.ask("GET", "/v1/jobs?queue=q&limit=1000", &Value::Null)),
    },
    Row {
        what: "tubes that are listed and not read",
        each: 8,
        prepare: |p| {
            let jobs: Vec<_> = (0..4_000).map(|n| json!({"queue": format!("t{n:0>190}"), "payload": 1})).collect();
            p.ask("POST", "/v1/jobs", &Value::from(jobs));
        },
        press: |p, _| p.beanstalk("list-tubes\r\n".repeat(20).as_bytes()),
        then: nothing,
    },
    Row {
        what: "jobs that are peeked and not read",
        each: 4,
        prepare: |p| p.push_large("default", 1, 1_000_000),
        press: |p, _| p.beanstalk("peek-ready\r\n".repeat(20).as_bytes()),
        then: nothing,
    },
    Row {
        what: "buried jobs that are looked for and not read",
        each: 1,
        prepare: |p| {
            p.push_large("default", 30, 500_000);
            let leases = p.ask("POST", "/v1/queues/default/reserve", &json!({"limit": 1000}))["leases"].clone();
            let fail = |lease: &Value| json!({"receipt": lease["receipt"], "fail": {"message": "no", "final": true}});
            p.ask("POST", "/v1/settle", &leases.as_array().unwrap().iter().map(fail).collect());
        },
        press: |p, _| p.beanstalk("peek-buried\r\n".repeat(4).as_bytes()),
        then: nothing,
    },
    Row {
        what: "bodies of puts that never end",
        each: 1,
        prepare: nothing,
        press: |p, _| {
            let mut put = b"put 0 0 60 1000000\r\n".to_vec();
            put.resize(put.len() + 900_000, b'x');
            p.beanstalk(&put)
        },
        then: nothing,
    },
];

/// All of the crowd at once; returns the connections that are held.
fn crowd(p: &Pressed, row: &Row, size: usize) -> Vec<TcpStream> {
    std::thread::scope(|scope| {
        let press = |n| move || (0..row.each).filter_map(|_| (row.press)(p, n)).collect::<Vec<_>>();
        let callers: Vec<_> = (0..size).map(|n| scope.spawn(press(n))).collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    })
}

fn press(rows: &[Row], size: usize, tokens: Option<&Tokens>) {
    for row in rows {
        let (p, _folder) = Pressed::start(tokens);
        let what = row.what;
        (row.prepare)(&p);
        let held = crowd(&p, row, size);
        p.serves_others(what);
        (row.then)(&p);
        let memory = p.memory();
        println!("{what}: {} connections held, {} MiB", held.len(), memory >> 20);
        assert!(memory < MEMORY_BYTES_MAX, "{what}: {} MiB", memory >> 20);
        drop(held);
        p.serves_others(what);
        eventually(|| p.server.send("GET", "/v1/jobs?limit=1000", &p.headers(), "").status == 200);
        eventually(|| p.server.get("/readyz").status == 200);
    }
}

#[test]
fn what_callers_make_a_server_hold_is_bounded() {
    press(TABLE, CROWD, None);
}

/// With the same requests, of which those without rights are refused before anything of them is held.
#[test]
fn strangers_make_a_server_hold_little() {
    let tokens = Tokens::new();
    tokens.create("someone", "push");
    let (p, _folder) = Pressed::start(Some(&tokens));
    let strangers = Pressed { rights: Vec::new(), ..p };
    let before = strangers.memory();
    for row in TABLE.iter().filter(|row| row.what.contains("never end")) {
        let held = crowd(&strangers, row, 2 * CROWD);
        let memory = strangers.memory();
        println!("{}: {} connections held, {} MiB more", row.what, held.len(), memory.saturating_sub(before) >> 20);
        assert!(memory < before + (48 << 20), "{}: {} MiB more", row.what, memory.saturating_sub(before) >> 20);
    }
    let rights = vec![("authorization", format!("Bearer {}", tokens.create("keeper", "admin,push,work,read,change")))];
    let known = Pressed { rights, ..strangers };
    eventually(|| known.server.send("GET", "/v1/queues", &known.headers(), "").status == 200);
    known.serves_others("strangers");
}

/// `cargo xtask outside`.
#[test]
fn whole_table_of_pressure() {
    press(TABLE, CROWD_WHOLE, None);
}

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
    let beanstalk: SocketAddr =
        server.banner.lines().find_map(|line| line.strip_prefix("  beanstalk    ")).unwrap().parse().unwrap();
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
    let mut child = super::server::command_with_files(100)
        .args(["--store", "memory", "--listen", "127.0.0.1:0"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(said.contains("allows 100 open files") && said.contains("ulimit -n"), "{said}");
}
