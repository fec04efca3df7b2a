//! An opened store keeps working: nothing is missing, and everything that is due runs.

use super::content::{Content, contains};
use super::fill::{INBOX, LOCK, OUTBOX, PAUSED_QUEUES};
use super::site::Site;
use crate::http::server::{Server, eventually};
use duetime_core::limits::HOUR_MS;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Longer than any lease, and than the pause that ends.
const LATER_MS: u64 = 13 * HOUR_MS;

/// Without its Redis, a store does not know the workers of jobs and the holders of locks.
pub(crate) fn goes_on(site: &Site, expected: &Content, with_redis: bool) {
    let server = site.serve(&[]);
    if site.sql().is_some() {
        inbox_is_read(site, &server);
        outcome_is_recorded(&server, with_redis);
    }
    expected.is_in(&Content::read(&server, expected.made_at()), with_redis);
    old_names_count(&server, expected);
    locks_are_held(&server, expected, with_redis);
    let running = expected.of_kind("running");
    let complete = format!("/v1/leases/{}.{}/complete", running["id"].as_str().unwrap(), running["epoch"]);
    if with_redis {
        server.post(&complete, &json!({"result": "late"})).ok();
        contains(&json!({"state": "succeeded", "result": "late"}), &server.job(running["id"].as_str().unwrap()));
    }
    server.stop();

    site.set_clocks(expected.made_at() + LATER_MS);
    let server = site.serve(&[]);
    let due = due(expected);
    everything_due_runs(&server, due);
    let now = Content::read(&server, expected.made_at());
    for job in expected.jobs().iter().filter(|job| ["succeeded", "failed", "cancelled"].contains(&state(job))) {
        let id = job["id"].as_str().unwrap();
        let kept = now.jobs().iter().find(|job| job["id"] == id).unwrap_or_else(|| panic!("{job} is gone"));
        contains(job, kept);
    }
    server.stop();
}

fn state(job: &Value) -> &str {
    // A database that does not know a job's worker has it waiting.
    job["state"].as_str().unwrap_or("ready")
}

/// A key that is held, and the origin of a push, are known; names are those of one queue.
fn old_names_count(server: &Server, expected: &Content) {
    let shipped = &expected.of_kind("Ship It ")["id"];
    let push = |queue: &str, job: &Value| server.post(&format!("/v1/queues/{queue}/jobs"), job).ok();
    let other = server.post("/v1/queues/orders/jobs", &json!({"payload": 1, "origin": "placed 1"}));
    contains(&json!({"id": shipped}), &other.problem(422, "origin_reused"));
    let kept = push("orders", &json!({"payload": 1, "key": "Order-1 "}));
    contains(&json!({"outcome": "kept", "id": shipped}), &kept);
    let next = push("work", &json!({"payload": 1, "key": "started"}));
    contains(&json!({"outcome": "kept", "id": expected.of_kind("next")["id"]}), &next);
}

/// Nobody else gets a held lock, and fences keep growing.
fn locks_are_held(server: &Server, expected: &Content, with_redis: bool) {
    let lock = |name: &str| {
        let path = format!("/v1/locks/{}", name.replace('/', "%2F"));
        server.put(&path, &json!({"owner": "another", "ttl": "1h"}))
    };
    let highest = expected.locks().iter().filter_map(|lock| lock["fence"].as_u64()).max();
    if with_redis {
        assert_eq!(lock(LOCK).status, 423);
    }
    assert!(lock("new").ok()["fence"].as_u64() > highest);
}

/// The row that is a job becomes one; those that are none say why.
fn inbox_is_read(site: &Site, server: &Server) {
    let path = format!("/v1/jobs?queue={INBOX}");
    eventually(|| !server.get(&path).ok()["jobs"].as_array().unwrap().is_empty());
    let admitted = json!({
        "kind": "admitted", "payload": {"in": "SQL"}, "key": "key", "tags": ["a"], "priority": 7, "lease": "5m",
    });
    let jobs = server.get(&path).ok()["jobs"].clone();
    contains(&json!([admitted]), &jobs);
    // A row's age is computed by the database, whose clock is real: the state depends on when the test runs.
    let instant = |field: &str| jobs[0][field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(instant("due_at").duration_since(instant("created_at")).as_secs(), 3_600);
    let sql = site.sql().unwrap();
    eventually(|| sql.ask("SELECT COUNT(error) FROM duetime_inbox").trim() == "2");
    assert_eq!(sql.ask("SELECT COUNT(*) FROM duetime_inbox").trim(), "2");
}

/// An outcome that only Redis knows reaches the database. Without that Redis the job runs again.
fn outcome_is_recorded(server: &Server, with_redis: bool) {
    let counted = if with_redis { "succeeded" } else { "ready" };
    eventually(|| server.get(&format!("/v1/queues/{OUTBOX}")).ok()[counted] == 1);
    let job = server.get(&format!("/v1/jobs?queue={OUTBOX}")).ok()["jobs"][0].clone();
    let result = if with_redis { json!("unrecorded") } else { Value::Null };
    contains(&json!({"kind": "unrecorded", "state": counted, "result": result}), &job);
}

/// The jobs that are handed out within the time, by id.
fn due(expected: &Content) -> BTreeMap<String, Value> {
    let until = jiff::Timestamp::from_millisecond((expected.made_at() + LATER_MS).cast_signed()).unwrap();
    let is_due = |job: &&Value| {
        let due_at: jiff::Timestamp = job["due_at"].as_str().unwrap().parse().unwrap();
        let is_over = match state(job) {
            // Its worker is gone, so it is cancelled, also if Redis has lost its lease.
            _ if job["kind"] == "asked to stop" => true,
            "scheduled" | "ready" => false,
            // It has just been completed.
            "running" => job["kind"] == "running",
            _ => true,
        };
        due_at <= until && !is_over && !PAUSED_QUEUES.contains(&job["queue"].as_str().unwrap())
    };
    expected.jobs().iter().filter(is_due).map(|job| (job["id"].as_str().unwrap().to_owned(), job.clone())).collect()
}

fn everything_due_runs(server: &Server, mut due: BTreeMap<String, Value>) {
    let queues = server.get("/v1/queues?limit=1000").ok();
    let queues: Vec<Value> = queues["queues"].as_array().unwrap().iter().map(|queue| queue["queue"].clone()).collect();
    let mut strangers = Vec::new();
    while !due.is_empty() {
        let reserved = server.post("/v1/reserve", &json!({"queues": queues, "limit": 100, "wait": "50s"})).ok();
        let leases = reserved["leases"].as_array().unwrap();
        assert!(!leases.is_empty(), "these do not run: {due:#?}");
        for lease in leases {
            let receipt = lease["receipt"].as_str().unwrap();
            server.post(&format!("/v1/leases/{receipt}/complete"), &json!({})).ok();
            match due.remove(lease["id"].as_str().unwrap()) {
                Some(job) => {
                    let pushed = ["queue", "kind", "payload", "payload_base64", "tags"];
                    let pushed = pushed.into_iter().filter(|name| !job[name].is_null());
                    let fields: Value = pushed.map(|name| (name.to_owned(), job[name].clone())).collect();
                    contains(&fields, lease);
                }
                None => strangers.push((lease["queue"].clone(), lease["kind"].clone())),
            }
        }
    }
    // From the inbox and the outbox.
    let is_known = |(queue, _): &(Value, Value)| queue == INBOX || queue == OUTBOX;
    assert!(strangers.iter().all(is_known), "{strangers:?}");
}
