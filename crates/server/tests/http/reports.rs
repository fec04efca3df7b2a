//! Reports: history, jobs that come due, and failures.

use super::server::Server;
use serde_json::{Value, json};

/// The sum of a count over all points.
fn sum(history: &Value, name: &str) -> u64 {
    history["points"].as_array().unwrap().iter().map(|point| point[name].as_u64().unwrap()).sum()
}

#[test]
fn a_history_counts_what_this_server_did() {
    let server = Server::start();
    for n in 0..3 {
        server.push(&json!({"payload": n, "retry": "none"}));
    }
    server.push_to("other", &json!({"payload": 1}));
    let receipts: Vec<String> =
        server.reserve(2).iter().map(|lease| lease["receipt"].as_str().unwrap().to_owned()).collect();
    server.call(&format!("/v1/leases/{}/complete", receipts[0])).ok();
    server.call(&format!("/v1/leases/{}/fail", receipts[1])).ok();
    server.call("/v1/queues/q/purge").ok();
    for (query, queue, pushed) in
        [("?queue=q", json!("q"), 3), ("?queue=q&span=day", json!("q"), 3), ("", Value::Null, 4)]
    {
        let history = server.get(&format!("/v1/history{query}")).ok();
        assert_eq!(history["queue"], queue, "{query}");
        let counts = ["started", "succeeded", "failed", "cancelled", "attempts_failed", "attempts_crashed"];
        assert_eq!(counts.map(|name| sum(&history, name)), [2, 1, 1, 1, 1, 0], "{query}: {history}");
        assert_eq!(sum(&history, "pushed"), pushed, "{query}: {history}");
        let points = history["points"].as_array().unwrap();
        // The server has just started; a step may have ended meanwhile.
        assert!(points.len() <= 2, "{query}: {history}");
        let late = points.iter().find_map(|point| point["lateness"].as_object()).unwrap();
        assert!(["p50", "p99", "max"].iter().all(|part| late[*part].is_string()), "{query}: {history}");
        assert_eq!(history["step"], if query.contains("day") { "15m" } else { "1m" });
    }
    assert_eq!(sum(&server.get("/v1/history?queue=none").ok(), "pushed"), 0);
    for wrong in ["span=week", "queue=-", "queue=q&queue=q", "limit=1"] {
        server.get(&format!("/v1/history?{wrong}")).problem(400, "invalid");
    }
}

#[test]
fn due_counts_add_up_to_what_the_queue_says() {
    let server = Server::start();
    for delay in ["0s", "30s", "90m", "3d", "2000d"] {
        server.push(&json!({"payload": 1, "delay": delay}));
        server.push_to("other", &json!({"payload": 1, "delay": delay}));
    }
    server.reserve(1);
    let sum = |counts: &Value| -> u64 {
        let buckets = counts["buckets"].as_array().unwrap();
        buckets.iter().map(|bucket| bucket["jobs"].as_u64().unwrap()).sum()
    };
    let counts = server.get("/v1/due?queue=q").ok();
    assert_eq!(counts["queue"], "q");
    assert!(counts["as_of"].is_string(), "{counts}");
    assert_eq!(sum(&counts), server.get("/v1/queues/q").ok()["pending"].as_u64().unwrap());
    assert_eq!(sum(&server.get("/v1/due").ok()), 10);
    assert_eq!(sum(&server.get("/v1/due?queue=none").ok()), 0);
    // A bucket leads to its jobs.
    let buckets = counts["buckets"].as_array().unwrap();
    let bucket = buckets.iter().rev().find(|bucket| bucket["jobs"] == 1 && bucket["to"].is_string()).unwrap();
    let window = format!("due_from={}&due_to={}", bucket["from"].as_str().unwrap(), bucket["to"].as_str().unwrap());
    let found = server.get(&format!("/v1/jobs?queue=q&state=scheduled&{window}")).ok();
    assert_eq!(found["jobs"].as_array().unwrap().len(), 1, "{found}");
    for wrong in ["span=day", "queue=-", "queue=q&queue=q"] {
        server.get(&format!("/v1/due?{wrong}")).problem(400, "invalid");
    }
}

#[test]
fn failures_are_grouped_by_message() {
    let server = Server::start();
    for n in 0..3 {
        server.push(&json!({"payload": n, "kind": "mail"}));
        server.push_to("other", &json!({"payload": n}));
    }
    let fail = |queue: &str, message: &str| {
        let lease = server.post(&format!("/v1/queues/{queue}/reserve"), &json!({})).ok()["leases"][0].clone();
        let path = format!("/v1/leases/{}/fail", lease["receipt"].as_str().unwrap());
        server.post(&path, &json!({"message": message, "final": true})).ok();
        lease["id"].clone()
    };
    fail("q", "<b>user 10001</b> is unknown\nsecond line");
    let latest = fail("q", "<b>user 10002</b> is unknown");
    fail("q", "HTTP 503");
    fail("other", "HTTP 503");
    let failures = server.get("/v1/failures?queue=q").ok();
    assert_eq!(failures["looked_at"], 4, "of all queues: {failures}");
    let groups = failures["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{failures}");
    assert_eq!(groups[0]["message"], "HTTP 503", "newest first");
    let group = &groups[1];
    assert_eq!((&group["queue"], &group["kind"], &group["jobs"]), (&json!("q"), &json!("mail"), &json!(2)));
    assert_eq!((&group["message"], &group["job"]), (&json!("<b>user #</b> is unknown"), &latest));
    assert!(group["first"].as_str().unwrap() <= group["latest"].as_str().unwrap());
    assert_eq!(server.get("/v1/failures").ok()["groups"].as_array().unwrap().len(), 3);
    for wrong in ["span=day", "queue=-"] {
        server.get(&format!("/v1/failures?{wrong}")).problem(400, "invalid");
    }
}
