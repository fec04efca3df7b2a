//! One job: read, change, remove, cancel, retry, run.

use super::client::{Reply, request};
use super::server::Server;
use serde_json::{Value, json};

fn patch(server: &Server, id: &str, if_match: Option<&str>, body: &Value) -> Reply {
    let headers: Vec<_> = if_match.map(|etag| ("if-match", etag)).into_iter().collect();
    server.send("PATCH", &format!("/v1/jobs/{id}"), &headers, &body.to_string())
}

fn etag(server: &Server, id: &str) -> String {
    server.get(&format!("/v1/jobs/{id}")).header("etag").unwrap().to_owned()
}

/// A job that is running, with its receipt.
fn running(server: &Server) -> (String, String) {
    (server.push(&json!({"payload": 1})), server.receipt())
}

/// A job that has completed.
fn finished(server: &Server) -> String {
    let (id, receipt) = running(server);
    server.call(&format!("/v1/leases/{receipt}/complete")).ok();
    id
}

#[test]
fn reading_answers_the_version_as_etag() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1}));
    let reply = server.get(&format!("/v1/jobs/{id}"));
    assert_eq!(reply.header("etag"), Some(&*format!("\"{}\"", reply.ok()["version"])));
    let problem = server.get("/v1/jobs/7").problem(404, "not_found");
    assert_eq!(problem["id"], "7");
    for id in ["0", "x", "-7", "9223372036854775808", "7%20"] {
        server.get(&format!("/v1/jobs/{id}")).problem(400, "invalid");
    }
}

#[test]
fn patching_changes_what_is_named() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    let before = server.job(&id);
    let old_etag = etag(&server, &id);
    let reply = patch(&server, &id, Some(&old_etag), &json!({"priority": 3, "payload": [1.5]}));
    let job = reply.ok();
    assert_eq!((&job["priority"], &job["payload"], &job["due_at"]), (&json!(3), &json!([1.5]), &before["due_at"]));
    assert_eq!(reply.header("etag"), Some(&*etag(&server, &id)));

    let problem = patch(&server, &id, Some(&old_etag), &json!({"priority": 4})).problem(412, "version_mismatch");
    assert_eq!(problem["current_version"], job["version"]);
    assert_eq!(server.job(&id), job);
    assert_eq!(patch(&server, &id, Some("*"), &json!({"priority": 4})).ok()["priority"], 4);
    let moved = patch(&server, &id, None, &json!({"due_at": "2026-01-01T00:00:00Z"})).ok();
    assert_eq!((&moved["state"], &moved["due_at"]), (&json!("ready"), &json!("2026-01-01T00:00:00.000Z")));
    patch(&server, &id, Some("7"), &json!({"priority": 4})).problem(400, "invalid");
    patch(&server, &id, None, &json!({"delay": "1s", "delay_ms": 1})).problem(400, "invalid");
    patch(&server, "7", None, &json!({"priority": 4})).problem(404, "not_found");
}

#[test]
fn what_runs_or_has_ended_is_not_patched() {
    let server = Server::start();
    let (id, _) = running(&server);
    patch(&server, &id, None, &json!({"priority": 4})).problem(409, "job_running");
    let id = finished(&server);
    let problem = patch(&server, &id, None, &json!({"priority": 4})).problem(409, "already_finished");
    assert_eq!(problem["state"], "succeeded");
}

#[test]
fn deleting_removes_the_record() {
    let server = Server::start();
    let delete = |id: &str, if_match: &[(&str, &str)]| server.send("DELETE", &format!("/v1/jobs/{id}"), if_match, "");
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    delete(&id, &[("if-match", "\"999\"")]).problem(412, "version_mismatch");
    let etag = etag(&server, &id);
    let reply = delete(&id, &[("if-match", &etag)]);
    assert_eq!((reply.status, &*reply.body), (204, ""));
    server.get(&format!("/v1/jobs/{id}")).problem(404, "not_found");
    delete(&id, &[]).problem(404, "not_found");

    let (id, _) = running(&server);
    delete(&id, &[]).problem(409, "job_running");
    assert_eq!(delete(&finished(&server), &[]).status, 204);
}

#[test]
fn cancelling_says_what_happened() {
    let server = Server::start();
    let cancel = |id: &str| server.call(&format!("/v1/jobs/{id}/cancel"));
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    let path = format!("/v1/jobs/{id}/cancel");
    server.send("POST", &path, &[("if-match", "\"999\"")], "").problem(412, "version_mismatch");
    let etag = etag(&server, &id);
    let reply = server.send("POST", &path, &[("if-match", &etag)], "{}");
    assert_eq!(reply.ok(), json!({"outcome": "cancelled"}));
    assert_eq!(server.job(&id)["state"], "cancelled");
    assert_eq!(cancel(&id).ok(), json!({"outcome": "already_finished"}));

    let (id, receipt) = running(&server);
    assert_eq!(cancel(&id).ok(), json!({"outcome": "cancel_requested"}));
    assert_eq!(server.job(&id)["cancel_requested"], true);
    let extended = server.call(&format!("/v1/leases/{receipt}/extend")).ok();
    assert_eq!(extended["cancel_requested"], true);
    assert_eq!(server.call(&format!("/v1/leases/{receipt}/complete")).ok()["state"], "succeeded");
    cancel("7").problem(404, "not_found");
}

#[test]
fn retrying_starts_a_finished_job_again() {
    let server = Server::start();
    let (id, receipt) = running(&server);
    let retry = format!("/v1/jobs/{id}/retry");
    server.call(&retry).problem(409, "job_live");
    let failed = server.post(&format!("/v1/leases/{receipt}/fail"), &json!({"message": "no", "final": true})).ok();
    assert_eq!(failed["state"], "failed");
    let job = server.call(&retry).ok();
    assert_eq!((&job["state"], &job["attempt"], &job["message"]), (&json!("ready"), &json!(0), &json!("no")));
    assert_eq!(server.reserve(1)[0]["attempt"], 1);
    server.call("/v1/jobs/7/retry").problem(404, "not_found");
}

#[test]
fn a_retry_meets_a_key_that_is_taken() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "key": "k"}));
    server.call(&format!("/v1/jobs/{id}/cancel")).ok();
    let holder = server.push(&json!({"payload": 2, "key": "k"}));
    let problem = server.call(&format!("/v1/jobs/{id}/retry")).problem(409, "key_conflict");
    assert_eq!(problem["holder"], holder);
}

#[test]
fn running_now_does_not_wait_for_the_due_time() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    assert!(server.reserve(1).is_empty());
    assert_eq!(server.call(&format!("/v1/jobs/{id}/run")).ok()["state"], "ready");
    assert_eq!(server.reserve(1)[0]["id"], id);
    server.call(&format!("/v1/jobs/{id}/run")).problem(409, "job_running");
    server.call("/v1/jobs/7/run").problem(404, "not_found");
}

#[test]
fn the_end_of_a_job_is_waited_for() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1}));
    let wait = |wait: &str| server.get(&format!("/v1/jobs/{id}?wait={wait}")).ok();
    assert_eq!(wait("30ms")["state"], "ready");
    let (receipt, mut waiter) = (server.receipt(), server.connect());
    waiter.send(request("GET", &format!("/v1/jobs/{id}?wait=60s"), &[], ""));
    server.post(&format!("/v1/leases/{receipt}/complete"), &json!({"result": [7]})).ok();
    let ended = waiter.reply().ok();
    assert_eq!((&ended["state"], &ended["result"]), (&json!("succeeded"), &json!([7])));
    let etag = format!("\"{}\"", ended["version"]);
    let known = server.send("GET", &format!("/v1/jobs/{id}?wait=60s"), &[("if-none-match", &etag)], "");
    assert_eq!(known.status, 304);
    server.get("/v1/jobs/7?wait=60s").problem(404, "not_found");
}
