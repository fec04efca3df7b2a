//! Every right at every endpoint: a token can do what it is for, with its names, and nothing else.

mod alike;
mod lists;
mod over_time;
mod races;
mod repeats;
mod targets;
mod world;

use super::client::Reply;
use super::tokens::send;
use serde_json::{Value, json};
use world::World;

/// The right that an operation of the document needs; `None`: no token at all. A new operation must be added here.
fn needed(operation: &str) -> Option<&'static str> {
    let (method, path) = operation.split_once(' ').unwrap();
    Some(match (method, path) {
        (_, "/healthz" | "/readyz" | "/openapi.json" | "/docs" | "/docs/style.css") => return None,
        ("POST", "/v1/queues/{queue}/jobs" | "/v1/jobs") => "push",
        ("POST", "/v1/queues/{queue}/reserve" | "/v1/queues/{queue}/take") => "work",
        ("POST", "/v1/reserve" | "/v1/take" | "/v1/settle" | "/v1/extend") => "work",
        ("POST", path) if path.starts_with("/v1/leases/{receipt}/") => "work",
        (_, "/v1/locks" | "/v1/locks/{name}") => "lock",
        ("GET", "/v1/jobs/{id}/why" | "/v1/workers" | "/v1/attention") => "read",
        ("GET", "/v1/jobs" | "/v1/jobs/{id}" | "/v1/queues" | "/v1/queues/{queue}") => "read",
        ("GET", "/v1/due" | "/v1/failures" | "/v1/history") => "read",
        ("GET", "/v1/schedules" | "/v1/schedules/{name}" | "/v1/schedules/{name}/next" | "/v1/events" | "/metrics") => {
            "read"
        }
        ("PATCH" | "DELETE", "/v1/jobs/{id}") => "change",
        ("POST", "/v1/jobs/{id}/cancel" | "/v1/jobs/{id}/retry" | "/v1/jobs/{id}/run") => "change",
        ("POST", "/v1/jobs/cancel" | "/v1/jobs/retry" | "/v1/jobs/reschedule" | "/v1/jobs/delete") => "change",
        ("PUT" | "DELETE", "/v1/queues/{queue}" | "/v1/schedules/{name}") => "admin",
        ("POST", path) if path.starts_with("/v1/queues/{queue}/") => "admin",
        ("POST", path) if path.starts_with("/v1/schedules/{name}/") => "admin",
        _ => panic!("say which right {operation} needs"),
    })
}

const RIGHTS: [&str; 7] = ["push", "target", "work", "read", "change", "lock", "admin"];

/// Whether a right is good for what needs another.
fn is_enough(right: &str, needed: &str) -> bool {
    right == needed || right == "admin"
}

/// Whether it was refused for want of a right: in a batch, of each element.
fn is_forbidden(reply: &Reply) -> bool {
    reply.status == 403 || (reply.body.starts_with('[') && reply.json()[0]["code"] == "forbidden")
}

#[test]
fn a_token_can_do_what_it_is_for_and_nothing_else() {
    for right in RIGHTS {
        let world = World::new();
        let token = world.token("tried", &format!("{right}:orders.*"));
        // Forbidden operations come first, since allowed ones change things.
        let (may, may_not): (Vec<_>, Vec<_>) = world
            .operations
            .iter()
            .filter(|operation| needed(operation).is_some())
            .partition(|operation| is_enough(right, needed(operation).unwrap()));
        let before = world.state();
        for operation in may_not {
            let reply = world.call(&token, operation, &world.there);
            assert!(reply.status == 403, "{right} could {operation}: {reply:?}");
            reply.problem(403, "forbidden");
        }
        assert_eq!(world.state(), before);
        for operation in may {
            // Operations that concern no single name require the right to all names.
            let wants_all = matches!(&**operation, "DELETE /v1/locks" | "GET /metrics");
            if operation.as_str() == "GET /v1/events" {
                continue;
            }
            let reply = world.call(&token, operation, &world.there);
            assert_eq!(is_forbidden(&reply), wants_all, "{right}, {operation}: {reply:?}");
            assert!(reply.status != 401 && reply.status < 500, "{right}, {operation}: {reply:?}");
        }
    }
}

/// Nor may a worker push them as it completes a job.
#[test]
fn a_worker_adds_only_jobs_that_it_may_push() {
    let world = World::new();
    let (worker, pusher) = (world.token("worker", "work:mail.*"), world.token("pusher", "work:mail.*,push:mail.*"));
    let receipt = || {
        world.as_root("POST", "/v1/queues/mail.then/jobs", &json!({"payload": 1})).expect(201);
        let leased = send(&world.server, &worker, "POST", "/v1/queues/mail.then/reserve", "").ok();
        leased["leases"][0]["receipt"].as_str().unwrap().to_owned()
    };
    let first = receipt();
    let complete = |token: &str, then: Value| {
        let body = json!({ "then": [then] }).to_string();
        send(&world.server, token, "POST", &format!("/v1/leases/{first}/complete"), &body)
    };
    complete(&worker, json!({"payload": 1})).problem(403, "forbidden");
    complete(&pusher, json!({"payload": 1, "queue": "orders.a"})).problem(403, "forbidden");
    complete(&pusher, json!({"payload": 1, "then": [{"payload": 1, "queue": "orders.a"}]})).problem(403, "forbidden");
    let settle = json!([{"receipt": first, "complete": {"then": [{"payload": 1}]}}]).to_string();
    let refused = send(&world.server, &worker, "POST", "/v1/settle", &settle).ok();
    assert_eq!((&refused[0]["code"], &refused[0]["receipt"]), (&json!("forbidden"), &json!(first)));
    complete(&pusher, json!({"payload": 1, "kind": "next"})).ok();
    let next = send(&world.server, &worker, "POST", "/v1/queues/mail.then/reserve", "").ok();
    assert_eq!(next["leases"][0]["kind"], "next");
}

#[test]
fn jobs_of_ones_own_lead_to_no_queue_of_others() {
    let world = World::new();
    let token = world.token("tried", "admin:mail.*");
    let before = world.state();
    let push = |extra: Value| {
        let mut body = json!({"payload": 1});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        send(&world.server, &token, "POST", "/v1/queues/mail.a/jobs", &body.to_string())
    };
    let put = |path: &str, body: Value| send(&world.server, &token, "PUT", path, &body.to_string());
    put("/v1/queues/mail.a", json!({"target": {"queue": "mail.b"}})).ok();
    push(json!({})).expect(201);
    push(json!({"target": {"queue": "orders.a"}})).problem(403, "forbidden");
    push(json!({"when_exhausted": {"move": "orders.a"}})).problem(403, "forbidden");
    push(json!({"then": [{"payload": 1, "queue": "orders.a"}]})).problem(403, "forbidden");
    let next = json!({"payload": 1, "otherwise": [{"payload": 1, "queue": "orders.a"}]});
    push(json!({"otherwise": [next]})).problem(403, "forbidden");
    push(json!({"target": {"queue": "mail.b"}, "when_exhausted": {"move": "mail.c"}})).expect(201);
    put("/v1/queues/mail.a", json!({"target": {"queue": "orders.a"}})).problem(403, "forbidden");
    put("/v1/queues/mail.a", json!({"when_exhausted": {"move": "orders.a"}})).problem(403, "forbidden");
    let schedule = |job: Value| put("/v1/schedules/mail.a", json!({"every": "2h", "job": job}));
    schedule(json!({"queue": "orders.a", "payload": 1})).problem(403, "forbidden");
    schedule(json!({"queue": "mail.a", "payload": 1, "when_exhausted": {"move": "orders.a"}}))
        .problem(403, "forbidden");
    schedule(json!({"queue": "mail.a", "payload": 1})).ok();
    // Nor by running one that an administrator of all queues set.
    let theirs =
        json!({"every": "2h", "job": {"queue": "mail.a", "payload": 1, "when_exhausted": {"move": "orders.a"}}});
    world.as_root("PUT", "/v1/schedules/mail.moves", &theirs).ok();
    send(&world.server, &token, "POST", "/v1/schedules/mail.moves/run", "").problem(403, "forbidden");
    send(&world.server, &token, "POST", "/v1/schedules/mail.moves/pause", "").ok();
    // Nor by the name of their schedule, also with a condition that it exists, or does not.
    let theirs = json!({"every": "2h", "job": {"queue": "mail.a", "payload": 1}}).to_string();
    for header in [[].as_slice(), &[("if-match", "*")], &[("if-none-match", "*")]] {
        let bearer = format!("Bearer {token}");
        let headers = [header, &[("authorization", &*bearer)]].concat();
        world.server.send("PUT", "/v1/schedules/orders.a", &headers, &theirs).problem(403, "forbidden");
    }
    let batch = r#"[{"payload": 1}, {"payload": 2, "target": {"queue": "orders.a"}}]"#;
    let answers = send(&world.server, &token, "POST", "/v1/queues/mail.a/jobs", batch).ok();
    assert_eq!((&answers[0]["state"], &answers[1]["code"]), (&json!("ready"), &json!("forbidden")));
    let batch = r#"[{"payload": 1, "queue": "mail.a"}, {"payload": 2, "queue": "orders.a"}, {"payload": 3}]"#;
    let answers = send(&world.server, &token, "POST", "/v1/jobs", batch).ok();
    assert_eq!((&answers[0]["queue"], &answers[1]["code"]), (&json!("mail.a"), &json!("forbidden")));
    assert_eq!(answers[2]["code"], json!("forbidden"), "it is for the queue `default`");
    let both = r#"{"queues": ["mail.a", "orders.a"]}"#;
    send(&world.server, &token, "POST", "/v1/take", both).problem(403, "forbidden");
    assert_eq!(world.state(), before);
}

#[test]
fn a_payload_is_rewritten_only_by_callers_who_may_push_it() {
    let world = World::new();
    let path = format!("/v1/jobs/{}", world.there.job);
    for (name, allow, status) in [
        ("a", "change:orders.*", 403),
        ("b", "change,push:mail.*", 403),
        ("c", "push", 403),
        ("d", "change:orders.*,push:orders.*", 200),
        ("e", "admin:orders.*", 200),
    ] {
        let token = world.token(name, allow);
        let change = |body: Value| send(&world.server, &token, "PATCH", &path, &body.to_string());
        assert_eq!(change(json!({"payload": {"run": name}})).status, status, "{allow}");
        assert_eq!(change(json!({"payload_base64": "cnVu"})).status, status, "{allow}");
        let other = if allow == "push" { 403 } else { 200 };
        assert_eq!(change(json!({"priority": 7, "delay": "1h"})).status, other, "{allow}");
    }
}
