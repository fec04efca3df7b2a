//! Values beyond a limit, or of another form, are refused with the reason.

use super::server::Server;
use serde_json::{Value, json};

#[track_caller]
fn refuses(server: &Server, path: &str, body: &Value, says: &[&str]) {
    let problem = server.post(path, body).problem(400, "invalid");
    let detail = problem["detail"].as_str().unwrap();
    assert!(says.iter().all(|words| detail.contains(words)), "{body}: {detail}");
}

#[test]
fn of_a_push() {
    let server = Server::start();
    let with = |field: &str, value: Value| {
        let mut body = json!({"payload": 1});
        body[field] = value;
        body
    };
    let tags: Vec<String> = (0..17).map(|i| i.to_string()).collect();
    for (field, value, says) in [
        ("delay", json!("11 years"), "a duration such as"),
        ("delay", json!("4018d"), "10 years"),
        (
            "delay_ms",
            json!(400_000_000_000_u64),
            "`delay_ms` must be from 0 to 315576000000 (10 years), got 400000000000",
        ),
        ("due_at", json!("2099-01-01T00:00:00Z"), "10 years"),
        (
            "due_at_ms",
            json!(1_795_168_800),
            "`due_at_ms` must be milliseconds since 1970, 100000000000 or more, got 1795168800, which looks like seconds",
        ),
        ("due_at_ms", json!(1_795_168_800_000_000_u64), "got 1795168800000000, which looks like microseconds"),
        ("due_at", json!("tomorrow"), "an instant such as"),
        ("key", json!(""), "1 to 255 bytes"),
        ("key", json!("k".repeat(256)), "1 to 255 bytes"),
        ("kind", json!("k".repeat(129)), "1 to 128 bytes"),
        ("tags", json!(tags), "at most 16"),
        ("tags", json!(["a", "a"]), "different from each other"),
        ("tags", json!([""]), "1 to 255 bytes"),
        ("lease", json!("999ms"), "between 1s and 12h"),
        ("lease", json!("13h"), "between 1s and 12h"),
        ("expires", json!("4018d"), "10 years"),
        ("priority", json!(4_294_967_296_u64), "from 0 to 4294967295"),
        ("retry", json!({"steps": []}), "between 1 and 100 steps"),
        (
            "retry",
            json!({"exponential": {"first": "1s", "factor": 0.5, "max": "1h", "jitter": 0}}),
            "between 1 and 100",
        ),
        ("retry", json!("sometimes"), "\"none\""),
        ("max_crashes", json!(0), "1 or more"),
        ("when_exhausted", json!({"move": "-dead"}), "not starting with -"),
        ("payload_base64", json!("/w=="), "both"),
    ] {
        refuses(&server, "/v1/queues/q/jobs", &with(field, value), &[says]);
    }
    refuses(&server, "/v1/queues/q/jobs", &json!({}), &["`payload`", "neither"]);
    assert_eq!(server.get("/v1/queues/q").ok()["pending"], 0);
}

#[test]
fn of_a_payload() {
    let server = Server::with(&["--store", "memory", "--payload-max", "10B"]);
    server.push(&json!({"payload": "12345678"}));
    refuses(
        &server,
        "/v1/queues/q/jobs",
        &json!({"payload": "123456789"}),
        &["`payload`", "at most 10 bytes", "11 bytes"],
    );
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    let patch = server.send("PATCH", &format!("/v1/jobs/{id}"), &[], r#"{"payload":"123456789"}"#);
    patch.problem(400, "invalid");
}

#[test]
fn of_a_reserve() {
    let server = Server::start();
    for (body, says) in [
        (json!({"limit": 0}), "between 1 and 1000"),
        (json!({"limit": 1001}), "between 1 and 1000"),
        (json!({"wait": "61s"}), "wait"),
        (json!({"lease": "0s"}), "between 1s and 12h"),
        (json!({"request_id": "r".repeat(65)}), "1 to 64 bytes"),
        (json!({"queues": ["a"]}), "the path names the queue"),
    ] {
        refuses(&server, "/v1/queues/q/reserve", &body, &[says]);
    }
    for (body, says) in [
        (json!({}), "neither"),
        (json!({"queues": ["a"], "jobs": []}), "both"),
        (json!({"queues": []}), "between 1 and 64"),
        (json!({"queues": ["a b"]}), "queue"),
    ] {
        refuses(&server, "/v1/reserve", &body, &[says]);
    }
}

#[test]
fn of_a_take() {
    let server = Server::start();
    refuses(&server, "/v1/queues/q/take", &json!({"due_to": "2035-01-01T00:00:00Z"}), &["due_to", "now"]);
    for limit in [1_001, 9_007_199_254_740_993_u64] {
        refuses(&server, "/v1/queues/q/take", &json!({"limit": limit}), &["between 1 and 1000"]);
    }
    let both = json!({"jobs": [], "due_to": "2020-01-01T00:00:00Z"});
    refuses(&server, "/v1/queues/q/take", &both, &["without `due_from` and `due_to`"]);
}

#[test]
fn of_an_outcome() {
    let server = Server::start();
    server.push(&json!({"payload": 1}));
    let receipt = server.receipt();
    let path = |verb: &str| format!("/v1/leases/{receipt}/{verb}");
    refuses(&server, &path("complete"), &json!({"result": "r".repeat(1 << 20)}), &["result"]);
    refuses(&server, &path("fail"), &json!({"message": "m".repeat((64 << 10) + 1)}), &["message"]);
    refuses(&server, &path("release"), &json!({"delay": "4018d"}), &["10 years"]);
    refuses(&server, &path("fail"), &json!({"retry_after": "4018d"}), &["10 years"]);
    refuses(&server, &path("extend"), &json!({"lease": "13h"}), &["between 1s and 12h"]);
    server.call(&path("complete")).ok();
}
