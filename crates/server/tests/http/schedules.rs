//! Schedules.

use super::server::{Server, eventually};
use serde_json::{Value, json};

fn nightly() -> Value {
    json!({"cron": "0 3 * * *", "time_zone": "Asia/Shanghai", "job": {"queue": "reports", "kind": "nightly", "payload": {"a": 1}},
        "missed": "once", "overlap": "allow", "start": "2030-03-17T00:00:00.000Z"})
}

#[test]
fn a_schedule_is_set_shown_and_deleted() {
    let server = Server::start();
    assert_eq!(server.get("/v1/schedules").ok(), json!({"schedules": [], "next_cursor": null}));
    let reply = server.put("/v1/schedules/reports%2Fnightly", &nightly());
    let set = reply.ok();
    assert_eq!(reply.header("etag").unwrap(), format!("\"{}\"", set["version"]));
    assert_eq!((&set["name"], set["next"].as_array().unwrap().len()), (&json!("reports/nightly"), 10));
    assert_eq!(set["next"][0], "2030-03-17T19:00:00.000Z");
    for (field, value) in nightly().as_object().unwrap().iter().filter(|(field, _)| *field != "job") {
        assert_eq!(set["schedule"][field], *value);
    }
    assert_eq!(set["schedule"]["job"]["payload"], json!({"a": 1}));
    assert_eq!(set["schedule"]["job"]["queue"], "reports");
    assert_eq!(server.get("/v1/schedules/reports%2Fnightly").ok(), set);
    assert_eq!(server.get("/v1/schedules").ok(), json!({"schedules": [set], "next_cursor": null}));
    // A schedule can be set from its own JSON.
    assert_eq!(server.put("/v1/schedules/reports%2Fnightly", &set["schedule"]).ok(), set);
    let changed = server.put("/v1/schedules/reports%2Fnightly", &json!({"every": "1h", "job": {"payload": 1}})).ok();
    assert!(changed["version"].as_u64() > set["version"].as_u64());
    assert_eq!((&changed["schedule"]["every"], &changed["schedule"]["cron"]), (&json!("1h"), &Value::Null));
    let condition = [("if-match", "\"1\"")];
    server.send("DELETE", "/v1/schedules/reports%2Fnightly", &condition, "").problem(412, "version_mismatch");
    assert_eq!(server.send("DELETE", "/v1/schedules/reports%2Fnightly", &[], "").status, 204);
    let gone = server.send("DELETE", "/v1/schedules/reports%2Fnightly", &[], "").problem(404, "schedule_not_found");
    assert_eq!(gone["schedule"], "reports/nightly");
    server.get("/v1/schedules/reports%2Fnightly").problem(404, "schedule_not_found");
}

#[test]
fn a_schedule_is_paused_resumed_and_run() {
    let server = Server::start();
    let etag = server.put("/v1/schedules/s", &nightly()).header("etag").unwrap().to_owned();
    let paused = server.post("/v1/schedules/s/pause", &json!({"until": "2030-03-20T00:00:00Z"}));
    assert_eq!(paused.ok()["schedule"]["paused_until"], "2030-03-20T00:00:00.000Z");
    assert_eq!(paused.ok()["next"][0], "2030-03-20T19:00:00.000Z");
    assert_ne!(paused.header("etag").unwrap(), etag);
    let stale = [("if-match", &*etag)];
    for action in ["pause", "resume", "run"] {
        let path = format!("/v1/schedules/s/{action}");
        server.send("POST", &path, &stale, "").problem(412, "version_mismatch");
        server.send("POST", &format!("/v1/schedules/none/{action}"), &[], "").problem(404, "schedule_not_found");
    }
    let current = paused.header("etag").unwrap().to_owned();
    let key = [("if-match", &*current), ("idempotency-key", "by-hand")];
    let run = server.send("POST", "/v1/schedules/s/run", &key, "");
    let job = run.expect(201)["id"].as_str().unwrap().to_owned();
    assert_eq!(run.header("location").unwrap(), format!("/v1/jobs/{job}"));
    let repeated = server.send("POST", "/v1/schedules/s/run", &key, "").expect(200);
    assert_eq!((&repeated["id"], &repeated["outcome"]), (&json!(job), &json!("repeated")));
    let shown = server.get(&format!("/v1/jobs/{job}")).ok();
    assert_eq!((&shown["tags"], &shown["state"]), (&json!(["schedule:s"]), &json!("ready")));
    assert_eq!(server.post("/v1/schedules/s/resume", &json!({})).ok()["schedule"]["paused"], false);
    let runs = server.get("/v1/schedules/s/next?limit=2").ok();
    let run = |at: &str, local: &str| json!({"at": at, "local": local, "clock_change": null});
    let expected = [
        run("2030-03-17T19:00:00.000Z", "2030-03-18T03:00:00+08:00[Asia/Shanghai]"),
        run("2030-03-18T19:00:00.000Z", "2030-03-19T03:00:00+08:00[Asia/Shanghai]"),
    ];
    assert_eq!(runs, json!({"runs": expected}));
    assert_eq!(server.get("/v1/schedules/s/next").ok()["runs"].as_array().unwrap().len(), 10);
    for wrong in ["limit=0", "limit=101", "limit=x", "from=1"] {
        server.get(&format!("/v1/schedules/s/next?{wrong}")).problem(400, "invalid");
    }
}

#[test]
fn a_rehearsal_saves_nothing() {
    let server = Server::start();
    let seen = server.put("/v1/schedules/s?dry_run=true", &nightly()).ok();
    assert_eq!(seen["next"][9], "2030-03-26T19:00:00.000Z");
    assert_eq!(server.get("/v1/schedules").ok(), json!({"schedules": [], "next_cursor": null}));
    server.put("/v1/schedules/s?dry_run=yes", &nightly()).problem(400, "invalid");
    server.put("/v1/schedules/s?rehearse=true", &nightly()).problem(400, "invalid");
    server.put("/v1/schedules/s?dry_run=false", &nightly()).ok();
    assert_eq!(server.get("/v1/schedules/s").ok()["next"], seen["next"]);
}

#[test]
fn what_is_no_schedule_is_refused() {
    let server = Server::start();
    let job = json!({"payload": 1});
    for (body, field) in [
        (json!({"cron": "* * * *", "job": job}), "cron"),
        (json!({"cron": "0 0 30 2 *", "job": job}), "cron"),
        (json!({"cron": "* * * * *", "time_zone": "Mars/Base", "job": job}), "time_zone"),
        (json!({"every": "10ms", "job": job}), "every"),
        (json!({"job": job}), "cron"),
        (json!({"every": "10s", "job": {"payload": 1, "queue": "-q"}}), "queue"),
        (json!({"every": "10s", "job": {"payload": "x".repeat(65_536)}}), "payload"),
        (json!({"every": "10s", "job": job, "start": "2030-01-02T00:00:00Z", "end": "2030-01-01T00:00:00Z"}), "end"),
    ] {
        let problem = server.put("/v1/schedules/s", &body).problem(400, "invalid");
        assert_eq!(problem["field"], field, "{body}");
    }
    for body in [
        json!({}),
        json!([]),
        json!({"every": "10s"}),
        json!({"every": "10s", "job": job, "until": 1}),
        json!({"every": "10s", "job": {"payload": 1, "delay": "5s"}}),
        json!({"every": "10s", "job": job, "missed": "all"}),
    ] {
        server.put("/v1/schedules/s", &body).problem(400, "invalid");
    }
    server.put("/v1/schedules/a%20b", &json!({"every": "10s", "job": job})).problem(400, "invalid");
    assert_eq!(server.get("/v1/schedules").ok(), json!({"schedules": [], "next_cursor": null}));
}

#[test]
fn a_tick_is_a_job_like_any_other() {
    let server = Server::start();
    let body = json!({"every": "1s", "job": {"queue": "q", "kind": "beat", "payload": 1}});
    let set = server.put("/v1/schedules/beat", &body).ok();
    let lease = server.post("/v1/queues/q/reserve", &json!({"wait": "30s"})).ok()["leases"][0].clone();
    assert_eq!((&lease["kind"], &lease["due_at"]), (&json!("beat"), &set["next"][0]));
    eventually(|| !server.get("/v1/schedules/beat").ok()["last"].is_null());
    let last = server.get("/v1/schedules/beat").ok()["last"].clone();
    assert_eq!(last["outcome"], "pushed");
    let found = server.get("/v1/jobs?tag=schedule:beat").ok();
    assert!(found["jobs"].as_array().unwrap().iter().any(|job| job["id"] == last["job"]));
}
