//! Queues: statistics and settings; and health.

use super::server::Server;
use serde_json::{Value, json};

#[test]
fn settings_are_kept_where_they_are_not_named() {
    let server = Server::start();
    let put = |body: Value| server.put("/v1/queues/orders", &body).ok();
    let set = json!({"retry": {"steps": ["15s", "15s", "30s"]}, "max_attempts": 5, "when_exhausted": {"move": "dead"}});
    let answer = put(set.clone());
    assert_eq!(answer, json!({"queue": "orders", "paused": false, "settings": set}));
    let answer = put(json!({"lease": "5s"}));
    assert_eq!((&answer["settings"]["lease"], &answer["settings"]["max_attempts"]), (&json!("5s"), &json!(5)));
    let answer = put(json!({"retry": null, "max_attempts": null, "when_exhausted": null}));
    assert_eq!(answer["settings"], json!({"lease": "5s"}));
    assert_eq!(server.get("/v1/queues/orders").ok()["settings"], json!({"lease": "5s"}));
    for wrong in
        [json!({"lease": "13h"}), json!({"retry": {"steps": []}}), json!({"rate": {}}), json!({"paused": true})]
    {
        server.put("/v1/queues/orders", &wrong).problem(400, "invalid");
    }
    for wrong in [
        json!({"max_running": 0}),
        json!({"rate": {"per_second": 0}}),
        json!({"rate": {"per_second": 5, "every": "1s"}}),
        json!({"target": {"url": "https://a.example", "queue": "b"}}),
        json!({"target": {"url": "a.example"}}),
    ] {
        server.put("/v1/queues/orders", &wrong).problem(400, "invalid");
    }
    let limits = json!({
        "lease": "5s", "max_running": 50, "rate": {"per_second": 100.0, "burst": 20},
        "target": {"queue": "others"},
    });
    assert_eq!(put(limits.clone())["settings"], limits);
    assert_eq!(put(json!({"max_running": null, "rate": null, "target": null}))["settings"], json!({"lease": "5s"}));
    server.put("/v1/queues/-orders", &json!({})).problem(400, "invalid");

    server.push_to("orders", &json!({"payload": 1}));
    let lease = server.call("/v1/queues/orders/reserve").ok();
    assert_eq!(lease["leases"][0]["lease"], "5s");
}

#[test]
fn a_full_queue_refuses_or_drops() {
    let server = Server::start();
    server.put("/v1/queues/q", &json!({"when_full": "drop"})).problem(400, "invalid");
    server.put("/v1/queues/q", &json!({"max_waiting": 2})).ok();
    let push = |key: &str, body: &Value| {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        server.send("POST", "/v1/queues/q/jobs", &headers, &body.to_string())
    };
    let first = push("a", &json!({"payload": 1})).expect(201);
    server.push_to("q", &json!({"payload": 2, "delay": "1h"}));
    let refused = push("b", &json!({"payload": 3}));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let problem = refused.problem(429, "queue_full");
    assert_eq!((&problem["queue"], &problem["max_waiting"]), (&json!("q"), &json!(2)));
    let repeated = push("a", &json!({"payload": 1})).ok();
    assert_eq!((&repeated["outcome"], &repeated["id"]), (&json!("repeated"), &first["id"]));
    let batch = json!([{"payload": 4, "queue": "q"}, {"payload": 5, "queue": "other"}]);
    let answers = server.post("/v1/jobs", &batch).ok();
    assert_eq!((&answers[0]["code"], &answers[0]["status"]), (&json!("queue_full"), &json!(429)));
    assert_eq!(answers[1]["outcome"], "created");
    server.put("/v1/queues/q", &json!({"when_full": "drop"})).ok();
    let dropped = push("c", &json!({"payload": 3}));
    assert_eq!(dropped.header("location"), None);
    let dropped = dropped.ok();
    assert_eq!((&dropped["outcome"], &dropped["state"]), (&json!("dropped"), &json!("cancelled")));
    server.get(&format!("/v1/jobs/{}", dropped["id"].as_str().unwrap())).problem(404, "not_found");
    let item = &server.get("/v1/attention").ok()["items"][0];
    assert_eq!((&item["kind"], &item["jobs"], &item["limit"]), (&json!("full"), &json!(3), &json!(2)));
    assert!(server.get("/metrics").body.contains("duetime_queue_full_total{queue=\"q\"} 3\n"));
    let page = server.get("/queues").body;
    assert!(page.contains(">full</span>"), "{page}");
    assert!(
        server.get("/").body.contains("Its max_waiting of 2 was reached. New jobs that found no place within the last")
    );
}

#[test]
fn a_paused_queue_hands_out_nothing() {
    let server = Server::start();
    server.push(&json!({"payload": 1}));
    let paused = server.call("/v1/queues/q/pause").ok();
    let since = paused["paused_at"].clone();
    assert_eq!(paused, json!({"queue": "q", "paused": true, "paused_at": since, "settings": {}}));
    assert!(server.reserve(1).is_empty());
    assert_eq!(server.get("/v1/queues/q").ok()["paused"], true);
    assert_eq!(server.call("/v1/queues/q/resume").ok()["paused"], false);
    assert_eq!(server.reserve(1).len(), 1);
}

#[test]
fn a_pause_may_have_an_end() {
    let server = Server::start();
    let pause = |body: &Value| server.post("/v1/queues/q/pause", body);
    let paused = pause(&json!({"for": "1h"})).ok();
    assert_eq!(paused["paused"], true);
    let until = paused["paused_until"].as_str().unwrap().to_owned();
    assert_eq!(server.get("/v1/queues/q").ok()["paused_until"], until);
    let paused = pause(&json!({"until": until})).ok();
    assert_eq!(paused["paused_until"], until);
    for wrong in [json!({"until": "2026-01-01T00:00:00Z"}), json!({"for": "0s"}), json!({"for": "1h", "until": until})]
    {
        pause(&wrong).problem(400, "invalid");
    }
    let since = &paused["paused_at"];
    let forever = json!({"queue": "q", "paused": true, "paused_at": since, "settings": {}});
    assert_eq!(pause(&json!({})).ok(), forever, "for good, and since the first one");
    pause(&json!({"for": "1ms"})).ok();
    server.push(&json!({"payload": 1}));
    let reserved = server.post("/v1/queues/q/reserve", &json!({"wait": "20s"})).ok();
    assert_eq!(reserved["leases"].as_array().unwrap().len(), 1);
}

/// Over all who ask.
#[test]
fn no_more_run_than_may() {
    let server = Server::start();
    server.put("/v1/queues/q", &json!({"max_running": 2})).ok();
    (0..4).for_each(|n| drop(server.push(&json!({"payload": n}))));
    let receipts: Vec<Value> = server.reserve(10).iter().map(|lease| lease["receipt"].clone()).collect();
    assert_eq!(receipts.len(), 2);
    assert!(server.reserve(10).is_empty());
    server.call(&format!("/v1/leases/{}/complete", receipts[0].as_str().unwrap())).ok();
    assert_eq!(server.reserve(10).len(), 1);
}

#[test]
fn statistics_count_by_state() {
    let server = Server::start();
    assert_eq!(server.get("/v1/queues").ok(), json!({"queues": [], "next_cursor": null}));
    let unknown = server.get("/v1/queues/none").ok();
    assert_eq!((&unknown["queue"], &unknown["pending"]), (&json!("none"), &json!(0)));
    for (delay, count) in [("1h", 3), ("0s", 4)] {
        for _ in 0..count {
            server.push(&json!({"payload": 1, "delay": delay}));
        }
    }
    server.push_to("another", &json!({"payload": 1}));
    let receipts: Vec<Value> = server.reserve(2).iter().map(|lease| lease["receipt"].clone()).collect();
    server.call(&format!("/v1/leases/{}/complete", receipts[0].as_str().unwrap())).ok();
    let queues = server.get("/v1/queues").ok();
    let names: Vec<_> = queues["queues"].as_array().unwrap().iter().map(|queue| queue["queue"].clone()).collect();
    assert_eq!(names, ["another", "q"]);
    let queue = &queues["queues"][1];
    assert_eq!(*queue, server.get("/v1/queues/q").ok());
    for (state, count) in [("scheduled", 3), ("ready", 2), ("running", 1), ("pending", 6), ("succeeded", 1)] {
        assert_eq!(queue[state], count, "{state}: {queue}");
    }
    assert!(queue["oldest_due_at"].is_string());
}

#[test]
fn purging_cancels_what_waits() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1}));
    let receipt = server.receipt();
    server.push(&json!({"payload": 2}));
    server.push(&json!({"payload": 3, "delay": "1h"}));
    let other = server.push_to("other", &json!({"payload": 4}));
    assert_eq!(server.call("/v1/queues/q/purge").ok(), json!({"purged": 2}));
    assert_eq!(server.job(&id)["state"], "running");
    server.call(&format!("/v1/leases/{receipt}/complete")).ok();
    assert_eq!(server.job(&other)["state"], "ready");
}

/// A queue from a typing error disappears. One in use stays.
#[test]
fn a_queue_is_deleted() {
    let server = Server::start();
    let delete = |query: &str| server.send("DELETE", &format!("/v1/queues/q{query}"), &[], "");
    let names = || {
        let queues = server.get("/v1/queues").ok()["queues"].as_array().unwrap().clone();
        queues.iter().map(|queue| queue["queue"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    server.put("/v1/queues/q", &json!({"max_running": 1})).ok();
    server.push(&json!({"payload": 1}));
    server.push(&json!({"payload": 2, "delay": "1h"}));
    server.push_to("other", &json!({"payload": 3}));
    let receipt = server.receipt();
    let schedule = json!({"every": "1h", "job": {"queue": "q", "payload": 1}});
    server.put("/v1/schedules/hourly", &schedule).ok();
    let refused = delete("").problem(409, "queue_in_use");
    let shown = [&refused["queue"], &refused["waiting"], &refused["running"], &refused["schedules"]];
    assert_eq!(shown, [&json!("q"), &json!(1), &json!(1), &json!(["hourly"])]);
    assert_eq!(delete("?force=true").problem(409, "queue_in_use")["waiting"], 0);
    server.call(&format!("/v1/leases/{receipt}/complete")).ok();
    delete("").problem(409, "queue_in_use");
    assert_eq!(delete("?force=true").ok(), json!({"existed": true, "cancelled": 0, "deleted": 2}));
    assert_eq!(names(), ["other"]);
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("queue=\"other\"") && !metrics.contains("queue=\"q\""), "{metrics}");
    let again = server.get("/v1/queues/q");
    assert_eq!((&again.ok()["settings"], again.header("etag")), (&json!({}), Some("\"0\"")));
    assert_eq!(delete("?force=true").ok(), json!({"existed": false, "cancelled": 0, "deleted": 0}));
    assert_eq!(delete("?force=yes").problem(400, "invalid")["field"], "force");
    assert_eq!(server.send("DELETE", "/v1/queues/other", &[], "").problem(409, "queue_in_use")["waiting"], 1);
}

#[test]
fn health_is_for_the_platform() {
    let server = Server::start();
    assert_eq!(server.get("/healthz").ok(), json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}));
    let ready = server.get("/readyz").ok();
    assert_eq!((&ready["ready"], &ready["degraded"], &ready["backlog"]), (&json!(true), &json!([]), &json!(0)));
}
