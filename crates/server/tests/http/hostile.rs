//! Malicious and broken requests: the server stays up and answers others.

use super::client::{Connection, request};
use super::server::{Server, eventually};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The server's memory in bytes.
fn memory(server: &Server) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", server.pid())).unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn slow_heads_hold_nobody_up() {
    let server = Server::start();
    let mut slow: Vec<_> = (0..500).map(|_| server.connect()).collect();
    for round in 0..3 {
        slow.iter_mut()
            .for_each(|connection| connection.send(if round == 0 { "GET /healthz HTTP/1.1\r\n" } else { "x: y\r\n" }));
        server.push(&json!({"payload": 1}));
        assert_eq!(server.reserve(10).len(), 1);
    }
}

#[test]
fn one_address_cannot_have_all_connections() {
    let server = Server::with(&["--store", "memory", "--connections-max", "8"]);
    let mut held: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for connection in &mut held {
        connection.send(request("GET", "/healthz", &[], ""));
        connection.reply().ok();
    }
    assert!(server.connect().is_ended(), "a fifth one of one address");
    let mut other = Connection::from("127.0.0.2", server.address);
    other.send(request("GET", "/healthz", &[], ""));
    other.reply().ok();
    drop(held.pop());
    eventually(|| {
        let mut again = server.connect();
        again.try_send(request("GET", "/healthz", &[], "")) && again.reply_without_end().is_some()
    });
}

#[test]
fn a_body_without_end_is_refused_and_not_held() {
    let server = Server::start();
    let before = memory(&server);
    // Announced, and not: chunks.
    for head in ["content-length: 10737418240", "transfer-encoding: chunked"] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "POST /v1/leases/1.1/complete HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n").unwrap();
        let chunk = format!("10000\r\n{}\r\n", "7".repeat(0x10000));
        // Until the server closes the connection.
        while stream.write_all(chunk.as_bytes()).is_ok() {}
        let mut reply = Vec::new();
        // The reply may be lost with the connection.
        let _ = stream.read_to_end(&mut reply);
        let reply = String::from_utf8_lossy(&reply);
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 413"), "{reply}");
    }
    server.get("/healthz").ok();
    assert!(memory(&server) < before + (32 << 20), "{before}, {}", memory(&server));
}

#[test]
fn a_head_without_end_is_refused() {
    let server = Server::start();
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head: String = (0..100_000).map(|i| format!("x-{i}: y\r\n")).collect();
    // The server need not read it all.
    let _ = write!(stream, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n{head}\r\n");
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let reply = String::from_utf8_lossy(&reply);
    assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 431"), "{reply}");
    server.get("/healthz").ok();
}

#[test]
fn an_aborted_push_is_there_or_not() {
    let server = Server::start();
    let whole = request("POST", "/v1/queues/q/jobs", &[], &json!({"payload": "p".repeat(1 << 16)}).to_string());
    for part in [1, 20, 200, whole.len() / 2, whole.len() - 1] {
        let mut connection = server.connect();
        connection.send(&whole[..part]);
        drop(connection);
    }
    // A later request on its own connection comes after those that were begun: none of the others was complete.
    server.push_to("other", &json!({"payload": 1}));
    assert_eq!(server.get("/v1/jobs?queue=q").ok()["jobs"], json!([]));
    // A complete one whose sender does not wait for the answer.
    for _ in 0..20 {
        let mut connection = server.connect();
        connection.send(&whole);
        drop(connection);
    }
    for job in server.get("/v1/jobs?queue=q").ok()["jobs"].as_array().unwrap() {
        assert_eq!(job["payload"].as_str().unwrap().len(), 1 << 16);
    }
}

#[test]
fn a_request_has_an_id() {
    let server = Server::start();
    let id =
        |headers: &[(&str, &str)]| server.send("GET", "/nowhere", headers, "").header("request-id").unwrap().to_owned();
    assert_eq!(id(&[("request-id", "mine-7")]), "mine-7");
    assert_eq!(id(&[("x-request-id", "proxy-7")]), "proxy-7");
    assert_ne!(id(&[]), id(&[]));
    let long = "x".repeat(129);
    assert_ne!(id(&[("request-id", &long)]), long);
}

#[test]
fn senders_who_dawdle_hold_up_nobody() {
    let server = Server::with(&["--store", "memory"]);
    let head = "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 90000000\r\n\r\n";
    let mut slow: Vec<_> = (0..16).map(|_| server.connect()).collect();
    for connection in &mut slow {
        connection.send(head);
        connection.send(vec![b' '; 3 << 20]);
    }
    let job = json!({"payload": "p".repeat(1 << 19)});
    let answers = server.post("/v1/queues/q/jobs", &json!(vec![job; 16])).ok();
    assert_eq!(answers.as_array().map(Vec::len), Some(16));
    // They are cut off, long before the minute that a body may take.
    for connection in &mut slow {
        connection.reply().problem(408, "timeout");
    }
}

#[test]
fn readers_who_dawdle_hold_little_and_nobody_up() {
    const CONNECTIONS: usize = 100;
    // Without a budget each of them held 27 MiB.
    const HELD_MAX: usize = 600 << 20;
    let server = Server::with(&["--store", "memory"]);
    let job = json!({"payload": "p".repeat((1 << 20) - 2), "delay": "1h"});
    for _ in 0..4 {
        server.post("/v1/queues/q/jobs", &json!(vec![job.clone(); 5])).ok();
    }
    let before = memory(&server);
    let mut slow: Vec<_> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    for connection in &mut slow {
        connection.send(request("GET", "/v1/jobs?queue=q&limit=1000", &[], ""));
    }
    let mut page = None;
    eventually(|| {
        let reply = server.get("/v1/jobs?queue=q&limit=1000");
        page = (reply.status == 200).then(|| reply.ok());
        page.is_some()
    });
    let page = page.unwrap();
    let jobs = page["jobs"].as_array().unwrap().len();
    assert!(jobs == 16 && page["next_cursor"].is_string(), "a page ends after 16 MiB: {jobs}");
    let held = memory(&server).saturating_sub(before);
    assert!(held < HELD_MAX, "{} MiB", held >> 20);
    // Each gets a 503, or is disconnected well before the time limit for a stalled connection (60 s).
    for connection in &mut slow {
        let is_refused = connection.status() == "503";
        eventually(|| is_refused || !connection.try_send("x"));
    }
}

#[test]
fn small_packed_bodies_that_dawdle_hold_little() {
    const CONNECTIONS: usize = 400;
    // Without a budget it was 880 MiB.
    const HELD_MAX: usize = 600 << 20;
    let server = Server::with(&["--store", "memory"]);
    let body = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![b' '; 2 << 20]).unwrap();
        encoder.finish().unwrap()
    };
    let head = format!(
        "POST /v1/leases/1.1/complete HTTP/1.1\r\nhost: localhost\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let before = memory(&server);
    let mut slow: Vec<_> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    let mut most = 0;
    for connection in &mut slow {
        connection.send(&head);
        // Everything except the end.
        connection.send(&body[..body.len() - 9]);
        most = most.max(memory(&server));
    }
    for connection in &mut slow {
        let refused = connection.reply_without_end().map(|reply| reply.status);
        assert!(matches!(refused, Some(408 | 503) | None), "{refused:?}");
        most = most.max(memory(&server));
    }
    assert!(most.saturating_sub(before) < HELD_MAX, "{} MiB", (most - before) >> 20);
    server.get("/healthz").ok();
}
