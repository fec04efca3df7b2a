//! HTTP itself: requests that are refused before they reach an endpoint, framing, and connections.

use super::client::request;
use super::server::Server;
use serde_json::json;

const PUSH: &str = "/v1/queues/q/jobs";

/// The body of a POST, sent with these headers and nothing else.
fn raw(head: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("POST {PUSH} HTTP/1.1\r\nhost: localhost\r\n{head}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn a_path_or_method_that_is_not_there() {
    let server = Server::start();
    for path in ["/v2", "/v1", "/v1/jobs/", "/v2/jobs", "/v1/queues/q/nothing", "/healthz/"] {
        server.get(path).problem(404, "no_route");
    }
    for (method, path) in [
        ("GET", PUSH),
        ("TRACE", "/v1/locks?limit=1"),
        ("PUT", "/v1/jobs/7"),
        ("POST", "/v1/queues/q"),
        ("PATCH", "/healthz"),
    ] {
        let reply = server.send(method, path, &[], "");
        reply.problem(405, "method_not_allowed");
        assert!(reply.header("allow").is_some_and(|allow| !allow.is_empty()), "{path}");
    }
}

/// Otherwise the shell prompt follows the answer on the same line.
#[test]
fn an_answer_ends_its_line() {
    let server = Server::start();
    for path in ["/healthz", "/openapi.json", "/v1/queues", "/v1/nothing"] {
        let body = server.get(path).body;
        assert!(body.ends_with("}\n") && body.lines().count() == 1, "{path}: {body}");
    }
}

#[test]
fn what_is_not_http_is_answered_with_a_line() {
    let server = Server::start();
    for text in [
        "hello\r\n\r\n",
        "PING\r\n",
        "put 0 0 60 5\r\nhello\r\n",
        "GET / HTTP/7\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00",
    ] {
        let mut connection = server.connect();
        connection.send(text);
        let reply = connection.reply();
        assert_eq!(reply.status, 400, "{text:?}");
        assert!(
            reply.body.starts_with("400: this port speaks HTTP") && reply.body.ends_with('\n'),
            "{text:?}: {}",
            reply.body
        );
        assert!(connection.is_ended());
    }
    let mut connection = server.connect();
    connection.send(format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(70_000)));
    let reply = connection.reply();
    assert!(reply.status == 414 && reply.body == "414: the URL is too long\n", "{}", reply.body);
}

#[test]
fn malformed_json_says_where() {
    let server = Server::start();
    for (body, place) in [
        (r#"{"payload": 1,}"#, "line 1 column 15"),
        ("{\"payload\":\n01}", "line 2 column 2"),
        (r#"{"payload": 1"#, "it ends within"),
        (r#"{"payload": 1} {}"#, "something follows"),
        (r#"[{"payload": 1}"#, "it ends within"),
        ("nonsense", "line 1 column 2"),
    ] {
        let problem = server.send("POST", PUSH, &[], body).problem(400, "malformed_json");
        assert!(problem["detail"].as_str().unwrap().contains(place), "{problem}");
    }
    let mut connection = server.connect();
    connection.send(raw("content-length: 15\r\n", b"{\"payload\":\"\xff\"}"));
    let problem = connection.reply().problem(400, "malformed_json");
    assert!(problem["detail"].as_str().unwrap().contains("byte 12"), "{problem}");
    server.send("POST", PUSH, &[], "\"text\"").problem(400, "invalid");
}

#[test]
fn only_json_is_read() {
    let server = Server::start();
    let body = br#"{"payload":1}"#;
    for (head, status) in [
        ("content-type: application/x-www-form-urlencoded\r\n", 415),
        ("content-type: text/plain\r\n", 415),
        ("content-encoding: br\r\n", 415),
        ("content-type: Application/JSON; charset=utf-8\r\n", 201),
        ("", 201),
    ] {
        let mut connection = server.connect();
        connection.send(raw(&format!("{head}content-length: {}\r\n", body.len()), body));
        let reply = connection.reply();
        assert_eq!(reply.status, status, "{head}");
        if status == 415 {
            reply.problem(415, "media_type");
        }
    }
}

#[test]
fn a_body_beyond_its_limit_is_refused() {
    let server = Server::start();
    let mut connection = server.connect();
    let length = (96 << 20) + 1;
    connection.send(raw(&format!("expect: 100-continue\r\ncontent-length: {length}\r\n"), b""));
    let problem = connection.reply().problem(413, "body_too_large");
    assert!(problem["detail"].as_str().unwrap().contains(&length.to_string()), "{problem}");

    // One that is sent all the same is read to its end, so that the answer is seen.
    let body = format!("{{\"message\":\"{}\"}}", "m".repeat(3 << 20));
    server.send("POST", "/v1/leases/7.7/fail", &[], &body).problem(413, "body_too_large");

    let mut connection = server.connect();
    connection.send("POST /v1/leases/7.7/fail HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
    connection.send(format!("300000\r\n{}\r\n0\r\n\r\n", " ".repeat(3 << 20)));
    connection.reply().problem(413, "body_too_large");
}

#[test]
fn large_bodies_are_read() {
    let server = Server::start();
    let body = json!([{"payload": "p".repeat(1 << 19)}, {"payload": "p".repeat((1 << 20) - 2)},
        {"payload": "p".repeat(1 << 20)}, {"payload": "p".repeat(1 << 19)}]);
    let answers = server.post(PUSH, &body).ok();
    let statuses: Vec<_> = answers.as_array().unwrap().iter().map(|answer| answer["status"].as_u64()).collect();
    assert_eq!(statuses, [None, None, Some(400), None]);
}

#[test]
fn a_head_beyond_its_limit_is_refused() {
    let server = Server::start();
    let long = "x".repeat(17 << 10);
    server.send("GET", "/healthz", &[("x-long", &long)], "").problem(431, "head_too_large");
    server.get(&format!("/v1/jobs?tag={long}")).problem(431, "head_too_large");
    let many = vec![("x-many", "x"); 80];
    server.send("GET", "/healthz", &many, "").problem(431, "head_too_large");

    // Far beyond, the HTTP library answers before it has read the head.
    let mut connection = server.connect();
    connection.send(request("GET", "/healthz", &vec![("x-many", "x"); 300], ""));
    assert_eq!(connection.reply().status, 431);
    let mut connection = server.connect();
    connection.send("this is no HTTP\r\n\r\n");
    assert_eq!(connection.reply().status, 400);
    assert!(connection.is_ended());
    server.get("/healthz").ok();
}

#[test]
fn pages_of_others_are_refused() {
    let server = Server::start();
    let origin = format!("http://{}", server.address);
    let host = server.address.to_string();
    let get = |headers: &[(&str, &str)]| {
        let mut connection = server.connect();
        let fields: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        connection.send(format!("GET /healthz HTTP/1.1\r\n{fields}\r\n"));
        connection.reply()
    };
    get(&[("host", &host)]).ok();
    get(&[("host", &host), ("origin", &origin)]).ok();
    get(&[("host", "[::1]:7300")]).ok();
    get(&[("host", &host), ("origin", "http://evil.example")]).problem(403, "foreign_origin");
    get(&[("host", &host), ("origin", "null")]).problem(403, "foreign_origin");
    get(&[("host", "evil.example")]).problem(421, "foreign_host");
}

#[test]
fn a_chunked_body_is_read() {
    let server = Server::start();
    let mut connection = server.connect();
    connection.send(raw("transfer-encoding: chunked\r\n", b"6\r\n{\"payl\r\n"));
    connection.send("7\r\noad\":1}\r\n0\r\n\r\n");
    connection.reply().expect(201);
    // An invalid chunk ends the request, and the connection.
    connection.send(raw("transfer-encoding: chunked\r\n", b"zz\r\n"));
    let reply = connection.reply_without_end();
    assert!(reply.is_none_or(|reply| reply.status == 400));
    assert_eq!(server.get("/v1/queues/q").ok()["ready"], 1);
}

#[test]
fn requests_may_be_pipelined() {
    let server = Server::start();
    let mut connection = server.connect();
    let mut bytes = Vec::new();
    for i in 0..100 {
        bytes.extend(request("POST", PUSH, &[], &format!("{{\"payload\":{i},\"priority\":{i}}}")));
    }
    bytes.extend(request("POST", "/v1/queues/q/reserve", &[], r#"{"limit":1000}"#));
    bytes.extend(request("GET", "/nothing", &[], ""));
    bytes.extend(request("GET", "/healthz", &[], ""));
    connection.send(bytes);
    for _ in 0..100 {
        connection.reply().expect(201);
    }
    let leases = connection.reply().ok();
    let payloads: Vec<_> =
        leases["leases"].as_array().unwrap().iter().map(|l| l["payload"].as_u64().unwrap()).collect();
    assert_eq!(payloads, (0..100).collect::<Vec<_>>());
    connection.reply().problem(404, "no_route");
    connection.reply().ok();
}

#[test]
fn a_body_may_wait_for_a_word() {
    let server = Server::start();
    let mut connection = server.connect();
    connection.send(raw("expect: 100-continue\r\ncontent-length: 13\r\n", b""));
    assert_eq!(connection.reply().status, 100);
    connection.send(r#"{"payload":1}"#);
    connection.reply().expect(201);
}

#[test]
fn a_body_that_ends_early_pushes_nothing() {
    let server = Server::start();
    let mut connection = server.connect();
    connection.send(raw("content-length: 100\r\n", br#"{"payload":1}"#));
    connection.shut_down_sending();
    let reply = connection.reply_without_end();
    assert!(reply.is_none_or(|reply| reply.status == 400));
    assert_eq!(server.get("/v1/queues/q").ok()["ready"], 0);
}

/// A client that shuts down its sending half counts as gone: it may get its answer or not, and the connection ends.
#[test]
fn a_half_closed_connection_ends() {
    let server = Server::start();
    let mut connection = server.connect();
    connection.send(request("POST", PUSH, &[], r#"{"payload":1}"#));
    connection.shut_down_sending();
    if let Some(reply) = connection.reply_without_end() {
        reply.expect(201);
        assert!(connection.is_ended());
    }
    server.get("/healthz").ok();
}

#[test]
fn head_has_no_body_and_old_clients_are_served() {
    let server = Server::start();
    let mut connection = server.connect();
    connection.send("HEAD /nothing HTTP/1.0\r\nhost: localhost\r\n\r\n");
    let mut connection = server.connect();
    connection.send("GET /healthz HTTP/1.0\r\n\r\n");
    connection.reply().ok();
    assert!(connection.is_ended());
}
