//! Unknown fields, at every endpoint; and what becomes of a connection whose request was refused.

use super::client::request;
use super::server::Server;
use super::tokens::Tokens;
use serde_json::json;

#[test]
fn unknown_fields_are_refused_everywhere() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1}));
    let receipt = server.receipt();
    for (method, path) in [
        ("POST", "/v1/queues/q/jobs".to_owned()),
        ("POST", "/v1/queues/q/reserve".to_owned()),
        ("POST", "/v1/reserve".to_owned()),
        ("POST", "/v1/queues/q/take".to_owned()),
        ("PUT", "/v1/queues/q".to_owned()),
        ("PUT", "/v1/locks/l".to_owned()),
        ("PUT", "/v1/schedules/s".to_owned()),
        ("POST", "/v1/schedules/s/pause".to_owned()),
        ("POST", "/v1/schedules/s/resume".to_owned()),
        ("POST", "/v1/schedules/s/run".to_owned()),
        ("POST", "/v1/queues/q/pause".to_owned()),
        ("POST", "/v1/queues/q/resume".to_owned()),
        ("POST", "/v1/queues/q/purge".to_owned()),
        ("POST", "/v1/jobs/cancel".to_owned()),
        ("POST", "/v1/jobs/retry".to_owned()),
        ("POST", "/v1/jobs/delete".to_owned()),
        ("POST", "/v1/jobs/reschedule".to_owned()),
        ("PATCH", format!("/v1/jobs/{id}")),
        ("POST", format!("/v1/jobs/{id}/cancel")),
        ("POST", format!("/v1/jobs/{id}/retry")),
        ("POST", format!("/v1/jobs/{id}/run")),
        ("POST", format!("/v1/leases/{receipt}/complete")),
        ("POST", format!("/v1/leases/{receipt}/fail")),
        ("POST", format!("/v1/leases/{receipt}/release")),
        ("POST", format!("/v1/leases/{receipt}/extend")),
    ] {
        let problem = server.send(method, &path, &[], r#"{"bogus":1}"#).problem(400, "invalid");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("`bogus` is unknown"), "{path}: {detail}");
        let array = server.send(method, &path, &[], "[1]");
        // A push takes an array; nothing else does.
        let is_push = path.ends_with("/q/jobs");
        assert_eq!(array.status, if is_push { 200 } else { 400 }, "{path}: {}", array.body);
    }
    let settle = server.post("/v1/settle", &json!([{"receipt": receipt, "bogus": {}}])).ok();
    assert!(settle[0]["detail"].as_str().unwrap().contains("`bogus` is unknown"));
    assert_eq!(server.job(&id)["state"], "running");
    server.get("/v1/jobs?bogus=1").problem(400, "invalid");
    for path in [
        "/v1/queues?x=1",
        "/healthz?x",
        "/v1/schedules?x=1",
        "/v1/schedules/s?dry_run=true",
        &format!("/v1/jobs/{id}?version=1"),
    ] {
        server.get(path).problem(400, "invalid");
    }
}

/// A client that keeps its connections would otherwise lose the next request.
#[test]
fn a_refusal_before_the_body_keeps_the_connection_or_says_that_it_ends() {
    let tokens = Tokens::new();
    let (reader, pusher) = (tokens.create("reader", "read"), tokens.create("pusher", "push"));
    let server = tokens.server(&[]);
    let push = "POST /v1/queues/q/jobs";
    let refusals = [
        (401, push, "x: y", ""),
        (403, push, "x: y", &*reader),
        (403, push, "origin: http://example.org", &pusher),
        (404, "POST /v1/nowhere", "x: y", &pusher),
        (405, "PATCH /v1/queues/q/jobs", "x: y", &pusher),
        (415, push, "content-type: text/plain", &pusher),
        (415, push, "content-encoding: br", &pusher),
        (413, push, "content-length: 1000000000", &pusher),
        (431, push, &*format!("x: {}", "y".repeat(20_000)), &pusher),
    ];
    let bodies = [
        ("content-length: 2", "{}", true),
        ("transfer-encoding: chunked", "2\r\n{}\r\n0\r\n\r\n", true),
        ("content-length: 3", "{}", false),
        ("content-length: 1000000", "{}", false),
        ("transfer-encoding: chunked", "2\r\n{}\r\n", false),
        ("content-length: 2\r\nexpect: 100-continue", "", false),
    ];
    for (status, line, header, token) in refusals {
        // A body that is too large has a length already, and its sender gets two seconds to finish.
        let bodies = if status == 413 { &[("x: y", "{}", false)][..] } else { &bodies[..] };
        for &(length, body, is_whole) in bodies {
            let mut connection = server.connect();
            connection.send(format!(
                "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n{header}\r\n{length}\r\n\r\n{body}"
            ));
            let reply = connection.reply();
            assert_eq!(reply.status, status, "{line}, {header}, {length}: {reply:?}");
            let is_closed = reply.header("connection") == Some("close");
            assert_eq!(is_closed, !is_whole, "{line}, {header}, {length}, {body}: {reply:?}");
            if is_closed {
                assert!(connection.is_ended(), "{line}, {header}, {length}");
            } else {
                connection.send(request("GET", "/healthz", &[], ""));
                connection.reply().ok();
            }
        }
    }
}
