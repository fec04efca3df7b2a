//! The same for many jobs.

use super::server::Server;
use serde_json::json;

#[test]
fn cancelling_by_tag_counts_outcomes() {
    let server = Server::start();
    server.push(&json!({"payload": 1, "tags": ["order:1"]}));
    let receipt = server.receipt();
    server.push(&json!({"payload": 2, "tags": ["order:1"], "delay": "1h"}));
    server.push_to("other", &json!({"payload": 3, "tags": ["order:1", "x"], "delay": "1h"}));
    let bystander = server.push(&json!({"payload": 4, "tags": ["order:2"], "delay": "1h"}));
    let counts = server.post("/v1/jobs/cancel", &json!({"tag": "order:1"})).ok();
    assert_eq!(counts, json!({"cancelled": 2, "cancel_requested": 1}));
    assert_eq!(server.job(&bystander)["state"], "scheduled");
    assert_eq!(server.call(&format!("/v1/leases/{receipt}/extend")).ok()["cancel_requested"], true);
}

#[test]
fn retrying_and_deleting_what_failed() {
    let server = Server::start();
    for _ in 0..3 {
        server.push(&json!({"payload": 1}));
        let receipt = server.receipt();
        server.post(&format!("/v1/leases/{receipt}/fail"), &json!({"final": true})).ok();
    }
    let selection = json!({"queue": "q", "state": ["failed"]});
    server.post("/v1/jobs/retry?spread=2d", &selection).problem(400, "invalid");
    server.post("/v1/jobs/retry?over=2h", &selection).problem(400, "invalid");
    assert_eq!(server.post("/v1/jobs/retry?spread=20h", &selection).ok(), json!({"retried": 3}));
    let due: std::collections::BTreeSet<String> = server.get("/v1/jobs?queue=q").ok()["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| {
            assert_eq!(job["state"], "scheduled");
            job["due_at"].to_string()
        })
        .collect();
    assert_eq!(due.len(), 3, "each has its place: {due:?}");
    let waiting = json!({"selection": {"queue": "q"}, "delay": "0s", "spread": "1ms"});
    assert_eq!(server.post("/v1/jobs/reschedule", &waiting).ok(), json!({"rescheduled": 3}));
    assert_eq!(server.post("/v1/jobs/retry", &selection).ok(), json!({}));
    assert_eq!(server.post("/v1/jobs/delete", &json!({"queue": "q"})).ok(), json!({"deleted": 3}));
    assert_eq!(server.get("/v1/jobs?queue=q").ok()["jobs"], json!([]));
}

#[test]
fn found_jobs_are_rescheduled_and_run() {
    let server = Server::start();
    let reschedule = |body| server.post("/v1/jobs/reschedule", &body);
    server.push(&json!({"payload": 0}));
    let receipt = server.receipt();
    let ids: Vec<String> = (1..4).map(|n| server.push(&json!({"payload": n, "delay": "1h"}))).collect();
    let elsewhere = server.push_to("other", &json!({"payload": 1, "delay": "1h"}));
    let at = "2030-01-01T00:00:00.000Z";
    assert_eq!(reschedule(json!({"selection": {"queue": "q"}, "due_at": at})).ok(), json!({"rescheduled": 3}));
    assert_eq!(reschedule(json!({"selection": {"queue": "q"}, "due_at": at})).ok(), json!({}));
    assert!(ids.iter().all(|id| server.job(id)["due_at"] == at));
    let all = json!({"queue": "q", "state": ["scheduled", "running"]});
    let counts = reschedule(json!({"selection": all, "delay": "0s"})).ok();
    assert_eq!(counts, json!({"job_running": 1, "rescheduled": 3}));
    assert_eq!(server.get("/v1/queues/q").ok()["ready"], 3);
    server.call(&format!("/v1/leases/{receipt}/complete")).ok();
    let ended = json!({"selection": {"queue": "q", "state": "succeeded"}, "delay_ms": 1_000});
    assert_eq!(reschedule(ended).ok(), json!({"already_finished": 1}));
    assert_eq!(server.job(&elsewhere)["state"], "scheduled");
    for wrong in [
        json!({"selection": {}, "delay": "1h"}),
        json!({"selection": {"queue": "q"}}),
        json!({"delay": "1h"}),
        json!({"queue": "q", "delay": "1h"}),
        json!({"selection": {"queue": "q"}, "delay": "1h", "due_at": at}),
        json!({"selection": {"queue": "q"}, "delay": "4000d"}),
    ] {
        reschedule(wrong).problem(400, "invalid");
    }
    assert_eq!(server.get("/v1/queues/q").ok()["ready"], 3);
}

#[test]
fn an_empty_selection_is_refused() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    for verb in ["cancel", "retry", "delete"] {
        server.post(&format!("/v1/jobs/{verb}"), &json!({})).problem(400, "invalid");
        server.call(&format!("/v1/jobs/{verb}")).problem(400, "invalid");
        server.post(&format!("/v1/jobs/{verb}"), &json!({"state": "done"})).problem(400, "invalid");
    }
    assert_eq!(server.job(&id)["state"], "scheduled");
}
