//! Server-sent events.

use super::client::{Connection, request};
use super::server::{Server, eventually};
use duetime::{Client, ConnectOptions};
use duetime_core::api::Span;
use duetime_store::testing::RedisServer;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// A stream of events, which has begun.
struct Stream {
    connection: Connection,
    text: String,
}

impl Stream {
    #[track_caller]
    fn open(server: &Server, query: &str) -> Self {
        let mut connection = server.connect();
        connection.send(request("GET", &format!("/v1/events{query}"), &[], ""));
        let head = connection.reply();
        assert_eq!(head.status, 200, "{head:?}");
        let headers =
            [("content-type", "text/event-stream"), ("cache-control", "no-store"), ("x-accel-buffering", "no")];
        headers.iter().for_each(|(name, value)| assert_eq!(head.header(name), Some(*value)));
        let mut stream = Self { connection, text: String::new() };
        assert_eq!(stream.next().map(|(event, _)| event).as_deref(), Some("subscribed"));
        stream
    }

    /// The next event and its data; `None` at the end.
    fn next(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let event: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                if let Some(data) = field("data") {
                    return Some((field("event").unwrap().to_owned(), serde_json::from_str(data).unwrap()));
                }
            }
            self.text += &self.connection.chunk()?;
        }
    }

    /// The next event, which is a transition.
    #[track_caller]
    fn transition(&mut self) -> Value {
        let (event, data) = self.next().unwrap();
        assert_eq!(data["what"], event, "{data}");
        data
    }

    /// The next ones, as `what state attempt`.
    #[track_caller]
    fn words<const COUNT: usize>(&mut self, id: &str) -> [String; COUNT] {
        [(); COUNT].map(|()| {
            let event = self.transition();
            assert_eq!(event["id"], id, "{event}");
            format!("{} {} {}", event["what"], event["state"], event["attempt"]).replace('"', "")
        })
    }
}

#[test]
fn a_life_is_told_in_order() {
    let server = Server::start();
    let mut stream = Stream::open(&server, "");
    let id = server.push(&json!({"payload": 1, "kind": "k", "retry": {"fixed": {"delay": "0s"}}}));
    let first = stream.transition();
    let job = server.job(&id);
    assert_eq!((&first["what"], &first["queue"], &first["kind"]), (&json!("pushed"), &json!("q"), &json!("k")));
    assert_eq!((&first["id"], &first["due_at"], &first["attempt"]), (&json!(id), &job["due_at"], &json!(0)));
    assert!(first["at"].as_str() >= job["created_at"].as_str());
    let receipt = server.receipt();
    server.call(&format!("/v1/leases/{receipt}/fail")).ok();
    let receipt = server.receipt();
    server.call(&format!("/v1/leases/{receipt}/complete")).ok();
    let expected = ["started running 1", "retrying ready 1", "started running 2", "succeeded succeeded 2"];
    assert_eq!(stream.words(&id), expected);
}

#[test]
fn only_what_is_asked_for_is_told() {
    let server = Server::start();
    let mut named = Stream::open(&server, "?queue=a&queue=mail.*");
    let mut ends = Stream::open(&server, "?what=taken,cancelled&what=failed");
    let queues = ["b", "mail", "mail.x", "a"];
    let ids = queues.map(|queue| server.push_to(queue, &json!({"payload": 1})));
    server.call("/v1/queues/mail/take").ok();
    assert_eq!(named.words(&ids[2]), ["pushed ready 0"]);
    assert_eq!(named.words(&ids[3]), ["pushed ready 0"]);
    assert_eq!(ends.words(&ids[1]), ["taken succeeded 1"]);
    for wrong in ["?what=ended", "?queue=a%20b", "?kind=k"] {
        server.get(&format!("/v1/events{wrong}")).problem(400, "invalid");
    }
}

#[test]
fn a_reader_may_ask_only_whether_something_happened() {
    let server = Server::start();
    let [mut busy, mut quiet] = ["a", "c"].map(|queue| Stream::open(&server, &format!("?queue={queue}&every=100ms")));
    let happened_at = |stream: &mut Stream| {
        let (event, data) = stream.next().unwrap();
        assert_eq!(event, "activity");
        data["at"].as_str().unwrap().to_owned()
    };
    let created_at = |id: &str| server.job(id)["created_at"].as_str().unwrap().to_owned();
    let batch: Vec<Value> = (0..1_000).map(|n| json!({"payload": n})).collect();
    server.post("/v1/queues/a/jobs", &json!(batch)).ok();
    happened_at(&mut busy);
    let last = created_at(&server.push_to("a", &json!({"payload": 1})));
    let more = std::iter::from_fn(|| Some(happened_at(&mut busy))).position(|at| at >= last).unwrap();
    assert!(more <= 2, "{more}: one event for what happens together");
    let own = created_at(&server.push_to("c", &json!({"payload": 1})));
    assert!(happened_at(&mut quiet) >= own, "nothing is said of other queues");
    for wrong in ["?every=99ms", "?every=11s", "?every=1", "?every=1s&every=1s"] {
        assert_eq!(server.get(&format!("/v1/events{wrong}")).problem(400, "invalid")["field"], "every", "{wrong}");
    }
}

#[test]
fn who_reads_too_slowly_is_told_and_let_go_while_others_go_on() {
    let server = Server::start();
    let mut slow = Stream::open(&server, "");
    let mut other = Stream::open(&server, "?queue=other");
    // More than the ring and all buffers between have room for.
    let batch: Vec<Value> = (0..10_000).map(|n| json!({"payload": n})).collect();
    for _ in 0..8 {
        server.post("/v1/queues/q/jobs", &json!(batch)).ok();
    }
    let id = server.push_to("other", &json!({"payload": 1}));
    assert_eq!(other.words(&id), ["pushed ready 0"]);
    let (mut count, mut last) = (0, None);
    while let Some(event) = slow.next() {
        count += 1;
        last = Some(event);
    }
    let (event, data) = last.unwrap();
    assert_eq!((event.as_str(), data), ("lost", json!({})));
    assert!(count <= 80_001, "{count}");
    let id = server.push_to("other", &json!({"payload": 1}));
    assert_eq!(other.words(&id), ["pushed ready 0"]);
}

#[test]
fn a_reader_that_went_away_leaves_nothing() {
    let server = Server::start();
    let sockets = server.sockets();
    drop(Stream::open(&server, ""));
    eventually(|| server.sockets() == sockets);
    let mut next = Stream::open(&server, "");
    let id = server.push(&json!({"payload": 1}));
    assert_eq!(next.words(&id), ["pushed ready 0"]);
}

#[test]
fn a_stop_ends_streams_at_once_and_says_so() {
    let mut server = Server::start();
    let mut stream = Stream::open(&server, "");
    server.signal(Signal::SIGTERM);
    assert_eq!(stream.next(), Some(("stopping".to_owned(), json!({}))));
    assert_eq!(stream.next(), None);
    assert_eq!(server.wait().code(), Some(0));
}

/// Pushes and completes until the stream has all events, in order.
fn is_heard(stream: &mut Stream, mut live: impl FnMut() -> String) {
    let id = live();
    let mut told = Vec::new();
    while told.last().is_none_or(|last: &String| !last.starts_with("succeeded")) {
        let event = stream.transition();
        assert_eq!((&event["queue"], &event["kind"]), (&json!("q"), &json!("default")));
        if event["id"] == *id {
            told.push(format!("{} {}", event["what"], event["attempt"]).replace('"', ""));
        }
    }
    assert_eq!(told, ["pushed 0", "started 1", "succeeded 1"]);
}

#[test]
fn servers_and_workers_on_one_redis_are_heard() {
    let redis = RedisServer::start();
    let url = redis.url();
    let start = || Server::with(&["--broker", &url]);
    let (a, b) = (start(), start());
    let mut at_a = Stream::open(&a, "");
    // Only now do all processes know that somebody listens.
    let mut at_b = Stream::open(&b, "?queue=q");
    let by_server = |server: &Server| {
        let id = server.push(&json!({"payload": 1}));
        let receipt = server.receipt();
        server.call(&format!("/v1/leases/{receipt}/complete")).ok();
        id
    };
    is_heard(&mut at_a, || by_server(&b));
    is_heard(&mut at_b, || by_server(&b));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = runtime.block_on(Client::connect_with(&url, ConnectOptions::default())).unwrap();
    let by_worker = || {
        runtime.block_on(async {
            let id = client.push_raw("default", *b"1").queue("q").await.unwrap().id;
            let from = duetime_core::engine::Source::Queues(vec!["q".into()]);
            let request = duetime_core::engine::ReserveRequest {
                from,
                limit: 1,
                free: None,
                lease: None,
                wait: Span(10_000),
                request_id: None,
                worker: None,
            };
            let lease = client.leases().reserve(request).await.unwrap().leases.remove(0);
            client.leases().complete(lease.job.receipt(), None).await.unwrap();
            id.to_string()
        })
    };
    // It has checked whether somebody listens once it receives events of other processes itself.
    let mut events = runtime.block_on(client.events(duetime_core::engine::events::Filter::default())).unwrap();
    let id = by_server(&a);
    let told = runtime.block_on(events.next()).unwrap();
    assert!(matches!(told, Some(duetime_core::engine::events::Event::Transition(told)) if told.id.to_string() == id));
    is_heard(&mut at_a, by_worker);
}
