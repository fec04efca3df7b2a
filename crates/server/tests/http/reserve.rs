//! Reserve and take.

use super::client::check_problem;
use super::server::Server;
use serde_json::{Value, json};

fn payloads(of: &Value) -> Vec<u64> {
    of.as_array().unwrap().iter().map(|job| job["payload"].as_u64().unwrap()).collect()
}

#[test]
fn an_empty_queue_hands_out_nothing() {
    let server = Server::start();
    let nothing = json!({"leases": [], "next_due_at": null});
    assert_eq!(server.post("/v1/queues/q/reserve", &json!({"limit": 10})).ok(), nothing);
    assert_eq!(server.post("/v1/queues/q/reserve", &json!({"wait": "50ms"})).ok(), nothing);
    let pushed = server.post("/v1/queues/q/jobs", &json!({"payload": 1, "delay": "1h"})).expect(201);
    let reservation = server.call("/v1/queues/q/reserve").ok();
    assert_eq!((&reservation["leases"], &reservation["next_due_at"]), (&json!([]), &pushed["due_at"]));
}

#[test]
fn a_lease_is_answered_as_documented() {
    let server = Server::start();
    let job = json!({"payload": {"order": "202010250100"}, "kind": "order.cancel", "tags": ["t"], "key": "k"});
    let id = server.push(&job);
    let reservation = server.post("/v1/queues/q/reserve", &json!({"limit": 10, "lease": "60s", "wait": "20s"})).ok();
    assert_eq!((reservation["leases"].as_array().unwrap().len(), &reservation["next_due_at"]), (1, &Value::Null));
    let lease = &reservation["leases"][0];
    for field in ["payload", "kind", "tags", "key"] {
        assert_eq!(lease[field], job[field]);
    }
    assert!(lease["receipt"].as_str().unwrap().starts_with(&format!("{id}.")));
    assert_eq!((&lease["id"], &lease["queue"], &lease["attempt"]), (&json!(id), &json!("q"), &json!(1)));
    let shown = server.job(&id);
    for field in ["version", "due_at", "lease_until", "created_at", "started_at"] {
        assert_eq!(lease[field], shown[field], "{field}");
    }
    assert_eq!(shown["state"], "running");
}

#[test]
fn the_most_urgent_comes_first_and_queues_in_strict_order() {
    let server = Server::start();
    server.push_to("low", &json!({"payload": 1, "priority": 0}));
    server.push_to("high", &json!({"payload": 2}));
    server.push_to("high", &json!({"payload": 3, "priority": 1}));
    let leases = server.post("/v1/reserve", &json!({"queues": ["high", "none", "low"], "limit": 10})).ok();
    assert_eq!(payloads(&leases["leases"]), [3, 2, 1]);
}

#[test]
fn named_jobs_are_handed_out_in_their_version_only() {
    let server = Server::start();
    let due = server.push(&json!({"payload": 1}));
    let version = server.job(&due)["version"].clone();
    let changed = server.push(&json!({"payload": 2}));
    let later = server.push(&json!({"payload": 3, "delay": "1h"}));
    let jobs = json!([{"id": due, "version": version}, {"id": changed, "version": 999}, {"id": later}, {"id": "7"}]);
    let reservation = server.post("/v1/reserve", &json!({"jobs": jobs})).ok();
    assert_eq!(payloads(&reservation["leases"]), [1]);
    let refused = reservation["refused"].as_array().unwrap();
    for (problem, (id, status, code)) in
        refused.iter().zip([(&*changed, 409, "version_mismatch"), (&*later, 409, "not_due"), ("7", 404, "not_found")])
    {
        check_problem(problem, status, code);
        assert_eq!(problem["id"], id);
    }
    assert_eq!(refused.len(), 3);
}

#[test]
fn a_repeated_request_gets_the_same_leases() {
    let server = Server::start();
    for i in 0..4 {
        server.push(&json!({"payload": i}));
    }
    let ask = |id: &str| {
        let reservation = server.post("/v1/queues/q/reserve", &json!({"limit": 2, "request_id": id})).ok();
        reservation["leases"].as_array().unwrap().iter().map(|lease| lease["receipt"].clone()).collect::<Vec<_>>()
    };
    let first = ask("a");
    assert_eq!(ask("a"), first);
    let other = ask("b");
    assert!(other.len() == 2 && other.iter().all(|receipt| !first.contains(receipt)));
}

#[test]
fn taking_finishes_at_once() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "due_at": "2026-01-01T00:00:00.005Z"}));
    server.push(&json!({"payload": 2, "due_at": "2026-01-01T00:00:00.006Z"}));
    server.push(&json!({"payload": 3, "delay": "1h"}));
    let window = json!({"due_from": "2026-01-01T00:00:00.005Z", "due_to": "2026-01-01T00:00:00.005Z"});
    let taken = server.post("/v1/queues/q/take", &window).ok();
    assert_eq!(payloads(&taken["jobs"]), [1]);
    assert_eq!(taken["jobs"][0]["state"], json!("succeeded"));
    assert_eq!(server.job(&id)["message"], "taken");
    let taken = server.call("/v1/queues/q/take").ok();
    assert_eq!(payloads(&taken["jobs"]), [2]);
    assert_eq!(payloads(&server.call("/v1/queues/q/take").ok()["jobs"]), [] as [u64; 0]);
}

#[test]
fn several_queues_are_taken_from_in_strict_order() {
    let server = Server::start();
    let jobs: Vec<Value> = (0..4).map(|i| json!({"payload": i, "queue": if i < 2 { "a" } else { "b" }})).collect();
    let pushed = server.post("/v1/jobs", &json!(jobs)).ok();
    let body = json!({"queues": ["b", "a"], "limit": 3, "request_id": "r"});
    let taken = server.post("/v1/take", &body).ok();
    assert_eq!(payloads(&taken["jobs"]), [2, 3, 0]);
    assert_eq!(server.post("/v1/take", &body).ok()["jobs"], taken["jobs"], "a repeat gets the same");
    assert_eq!(payloads(&server.post("/v1/take", &json!({"jobs": [{"id": pushed[1]["id"]}]})).ok()["jobs"]), [1]);
    server.post("/v1/take", &json!({})).problem(400, "invalid");
    server.post("/v1/queues/a/take", &json!({"queues": ["b"]})).problem(400, "invalid");
}

#[test]
fn taking_named_jobs_is_conditional() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1}));
    let take =
        |version: &Value| server.post("/v1/queues/q/take", &json!({"jobs": [{"id": id, "version": version}]})).ok();
    let refused = take(&json!(999));
    check_problem(&refused["refused"][0], 409, "version_mismatch");
    assert_eq!((&refused["jobs"], server.job(&id)["state"].as_str()), (&json!([]), Some("ready")));
    let version = server.job(&id)["version"].clone();
    assert_eq!(payloads(&take(&version)["jobs"]), [1]);
    check_problem(&take(&version)["refused"][0], 409, "already_finished");
}
