//! What needs attention.

use super::server::{Server, command, eventually};
use super::tokens::{Tokens, send};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;

fn kinds(server: &Server) -> Vec<String> {
    let list = server.get("/v1/attention").ok();
    let kind = |item: &Value| item["kind"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(kind).collect()
}

#[test]
fn a_target_that_is_down_is_in_the_list_the_metrics_and_the_log_until_it_is_back() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let said = |words: &str| std::fs::read_to_string(log.path()).unwrap().matches(words).count();
    let mut command = command();
    command.stderr(log.reopen().unwrap());
    let server = Server::run(command, &["--store", "memory", "--webhook-allow-private", "--log-level", "info"]);
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = json!({
        "target": {"url": format!("http://{address}/in?secret=7")},
        "retry": {"fixed": {"delay": "100ms"}},
        "max_attempts": 0,
    });
    server.put("/v1/queues/hooks", &settings).ok();
    let down = || {
        let metrics = server.get("/metrics").body;
        let line =
            metrics.lines().find(|line| line.starts_with("duetime_target_down_seconds{queue=\"hooks\"}")).unwrap();
        line.split_once("} ").unwrap().1.parse::<f64>().unwrap()
    };
    assert!(down() < f64::EPSILON && kinds(&server).is_empty());
    server.push_to("hooks", &json!({"payload": 1}));
    eventually(|| kinds(&server) == ["target_down"]);
    let item = server.get("/v1/attention").ok()["items"][0].clone();
    assert_eq!((&item["queue"], &item["target"]), (&json!("hooks"), &json!(format!("http://{address}/in?***"))));
    eventually(|| down() > 1.0);
    assert_eq!((said("the target takes no jobs"), said("the target takes jobs again")), (1, 0));

    let listener = TcpListener::bind(address).unwrap();
    let answers = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        // The request is small, and comes at once.
        let _ = connection.read(&mut [0; 4096]).unwrap();
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    });
    eventually(|| kinds(&server).is_empty());
    answers.join().unwrap();
    assert!(down() < f64::EPSILON);
    assert_eq!((said("the target takes no jobs"), said("the target takes jobs again")), (1, 1));
}

#[test]
fn a_pause_says_whose_token_it_was_to_readers_of_the_queue() {
    let tokens = Tokens::new();
    let (admin, reader) = (tokens.create("ops", "admin"), tokens.create("eyes", "read:mail"));
    let server = tokens.server(&[]);
    for queue in ["mail", "orders"] {
        send(&server, &admin, "POST", &format!("/v1/queues/{queue}/pause"), "").ok();
    }
    let list = |token: &str| send(&server, token, "GET", "/v1/attention", "").ok()["items"].as_array().unwrap().clone();
    let (all, some) = (list(&admin), list(&reader));
    assert_eq!((all.len(), some.len()), (2, 1));
    assert_eq!((&some[0]["queue"], &some[0]["by"]), (&json!("mail"), &json!("ops")));
    assert!(some[0]["detail"].as_str().unwrap().ends_with(" by ops, without an end"), "{}", some[0]);
}

#[test]
fn a_worker_without_a_name_is_listed_by_its_address() {
    let server = Server::start();
    server.reserve(1);
    let workers = server.get("/v1/workers").ok()["workers"].clone();
    assert_eq!((&workers[0]["worker"], &workers[0]["queues"]), (&json!("unnamed@127.0.0.1"), &json!(["q"])));
    server.push(&json!({"payload": 1}));
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("\nduetime_queue_workers{queue=\"q\"} 1.0\n"), "{metrics}");
}

#[test]
fn a_key_is_found_in_any_queue() {
    let server = Server::start();
    for (queue, key) in [("a", "one"), ("b", "order-7"), ("c", "order-7")] {
        server.push_to(queue, &json!({"payload": 1, "key": key}));
    }
    let queues = |query: &str| {
        let found = server.get(&format!("/v1/jobs?key=order-7{query}")).ok();
        let queues = found["jobs"].as_array().unwrap().iter().map(|job| job["queue"].as_str().unwrap().to_owned());
        (queues.collect::<Vec<_>>(), found["next_cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(queues(""), (vec!["b".to_owned(), "c".to_owned()], None));
    assert_eq!(queues("&queue=c").0, ["c"]);
    let (first, next) = queues("&limit=1");
    assert_eq!(first, ["b"]);
    assert_eq!(queues(&format!("&limit=1&cursor={}", next.unwrap())).0, ["c"]);
    // A change names the queue: the key is unique only there.
    server.post("/v1/jobs/cancel", &json!({"key": "order-7"})).problem(400, "invalid");
    let at = |text: &str| server.get(&format!("/search?q={text}")).header("location").unwrap().to_owned();
    let id = server.push(&json!({"payload": 1, "kind": "mail.send", "tags": ["shop:1"], "key": "alone"}));
    assert_eq!(at(&id), format!("/jobs/{id}"));
    assert_eq!(at("alone"), format!("/jobs/{id}"));
    assert_eq!(at("order-7"), "/jobs?key=order-7");
    assert_eq!((at("shop%3A1"), at("mail.send")), ("/jobs?tag=shop%3A1".to_owned(), "/jobs?kind=mail.send".to_owned()));
    assert_eq!(
        (at("q"), at("nothing"), at("999")),
        ("/queues/q".to_owned(), "/jobs?key=nothing".to_owned(), "/jobs?key=999".to_owned())
    );
}
