//! The answers to invalid requests, compared with the files in `tests/golden/http`.

use super::Api;

/// Fields of a push, each with its error.
const WRONG: [&str; 61] = [
    "",
    "5",
    "null",
    "\"x\"",
    "{",
    "{\"payload\": 1,}",
    "{\"payload\": 1} 2",
    "{\"payload\": 1, \"payload\": 2}",
    "{}",
    "{\"payload\": 1, \"payload_base64\": \"AA==\"}",
    "{\"payload_base64\": 5}",
    "{\"payload_base64\": \"?\"}",
    "{\"payload\": 1, \"colour\": \"red\"}",
    "{\"payload\": 1, \"kind\": 5}",
    "{\"payload\": 1, \"kind\": \"\"}",
    "{\"payload\": 1, \"kind\": null}",
    "{\"payload\": 1, \"delay\": \"1h\", \"due_at\": \"2031-01-01T00:00:00Z\"}",
    "{\"payload\": 1, \"delay_ms\": 5, \"due_at_ms\": 1925000000000}",
    "{\"payload\": 1, \"delay\": 5}",
    "{\"payload\": 1, \"delay\": \"soon\"}",
    "{\"payload\": 1, \"delay\": \"-5s\"}",
    "{\"payload\": 1, \"delay\": \"11y\"}",
    "{\"payload\": 1, \"delay\": \"4018d\"}",
    "{\"payload\": 1, \"delay_ms\": \"5\"}",
    "{\"payload\": 1, \"delay_ms\": -5}",
    "{\"payload\": 1, \"due_at\": 5}",
    "{\"payload\": 1, \"due_at\": \"tomorrow\"}",
    "{\"payload\": 1, \"due_at_ms\": 1925000000}",
    "{\"payload\": 1, \"priority\": -1}",
    "{\"payload\": 1, \"priority\": 4294967296}",
    "{\"payload\": 1, \"priority\": 1.5}",
    "{\"payload\": 1, \"key\": \"\"}",
    "{\"payload\": 1, \"key\": [1]}",
    "{\"payload\": 1, \"key_until\": \"ended\"}",
    "{\"payload\": 1, \"on_conflict\": \"keep\"}",
    "{\"payload\": 1, \"key\": \"k\", \"on_conflict\": \"merge\"}",
    "{\"payload\": 1, \"tags\": \"t\"}",
    "{\"payload\": 1, \"tags\": [\"t\", 5]}",
    "{\"payload\": 1, \"tags\": [\"t\", \"\"]}",
    "{\"payload\": 1, \"tags\": [\"t\", \"t\"]}",
    "{\"payload\": 1, \"lease\": \"1ms\"}",
    "{\"payload\": 1, \"lease\": true}",
    "{\"payload\": 1, \"expires\": \"x\"}",
    "{\"payload\": 1, \"max_attempts\": \"many\"}",
    "{\"payload\": 1, \"max_age\": \"0s\"}",
    "{\"payload\": 1, \"max_crashes\": 0}",
    "{\"payload\": 1, \"retry\": 5}",
    "{\"payload\": 1, \"retry\": \"never\"}",
    "{\"payload\": 1, \"retry\": {\"steps\": [5]}}",
    "{\"payload\": 1, \"retry\": {\"steps\": [\"1s\", \"x\"]}}",
    "{\"payload\": 1, \"retry\": {\"steps\": [\"1s\"], \"fixed\": {\"delay\": \"1s\"}}}",
    "{\"payload\": 1, \"retry\": {\"fixed\": {\"delay\": 5}}}",
    "{\"payload\": 1, \"retry\": {\"exponential\": {\"first\": \"1s\", \"factor\": \"x\"}}}",
    "{\"payload\": 1, \"retry\": {\"exponential\": {\"first\": \"1s\", \"jitter\": 7}}}",
    "{\"payload\": 1, \"when_exhausted\": {\"move\": 5}}",
    "{\"payload\": 1, \"target\": {\"url\": \"https://a.example/x\"}}",
    "{\"payload\": 1, \"target\": {\"url\": \"https://a.example/x\", \"headers\": {\"a\": 1}}}",
    "{\"payload\": 1, \"trace\": \"mine\"}",
    "{\"payload\": 1, \"meta\": {\"tenant\": 7}}",
    "{\"payload\": 1, \"meta\": {\"a\": \"1\", \"a\": \"2\"}}",
    "{\"payload\": 1, \"meta\": {\"Tenant\": \"7\"}}",
];

#[test]
fn wrong_bodies() {
    let mut api = Api::new("http/refusals_push");
    for body in WRONG {
        api.send("POST", "/v1/queues/q/jobs", &[], body);
    }
    api.golden.finish();
}

#[test]
fn wrong_requests() {
    let mut api = Api::new("http/refusals");
    let job = r#"{"payload": 1}"#;
    for (method, path) in [
        ("GET", "/v2"),
        ("GET", "/v1/nothing"),
        ("PUT", "/v1/jobs"),
        ("GET", "/v1/queues/q/jobs"),
        ("GET", "/v1/jobs/x"),
        ("GET", "/v1/jobs/0"),
        ("GET", "/v1/jobs/99999999999999999999"),
        ("GET", "/v1/jobs/7?wait=61s"),
        ("GET", "/v1/jobs/7?wiat=1s"),
        ("GET", "/v1/queues/-q"),
        ("GET", "/v1/queues/%FF"),
        ("POST", "/v1/leases/x/complete"),
        ("POST", "/v1/leases/7.7/complete"),
        ("POST", "/v1/leases/7.7/extend"),
        ("POST", "/v1/leases/7.7/release"),
        ("POST", "/v1/leases/7.7/park"),
        ("POST", "/v1/leases/7.7/fail"),
        ("GET", "/v1/schedules/none"),
        ("DELETE", "/v1/jobs/7"),
    ] {
        api.send(method, path, &[], "");
    }
    api.send("POST", "/v1/leases/7.7/progress", &[], r#"{"percent": 1}"#);
    for headers in [
        [("content-encoding", "gzip")],
        [("content-encoding", "br")],
        [("origin", "https://elsewhere.example")],
        [("traceparent", "mine")],
    ] {
        api.send("POST", "/v1/queues/q/jobs", &headers, job);
    }
    for headers in [[("if-match", "7")], [("if-match", "\"x\"")], [("if-match", "W/\"1\"")], [("if-match", "*")]] {
        api.send("POST", "/v1/jobs/7/cancel", &headers, "");
    }
    api.send("POST", "/v1/jobs/7/cancel", &[], r#"{"why": 1}"#);
    api.golden.finish();
}
