//! Unknown fields, at every endpoint.

use super::server::Server;
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
