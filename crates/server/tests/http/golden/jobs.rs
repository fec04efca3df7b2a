//! Jobs: push, look, change, find, bulk.

use super::Api;
use serde_json::{Value, json};

/// A job with everything that may be said of one.
fn whole() -> Value {
    json!({
        "kind": "order.cancel", "payload": {"order": "202010250100", "lines": [1, 2.50, null]}, "delay": "2h", "priority": 7,
        "key": "cancel-202010250100", "on_conflict": "keep", "key_until": "started", "tags": ["order:7", "b"],
        "lease": "90s", "max_attempts": 16, "max_age": "3d", "max_crashes": 2, "expires": "24h",
        "retry": {"exponential": {"first": "1s", "factor": 2.0, "max": "1h", "jitter": 0.1}},
        "when_exhausted": {"move": "orders-dead"},
        "target": {"url": "https://a.example/one", "method": "PUT", "headers": {"x-a": "b"}, "timeout": "5s", "final_statuses": [404]},
        "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "meta": {"tenant": "7"},
    })
}

#[test]
fn pushing() {
    let mut api = Api::new("http/push");
    api.put("/v1/queues/orders", &json!({"target": {"url": "https://a.example/all"}}));
    let pushed = api.post("/v1/queues/orders/jobs", &whole()).json();
    api.get(&format!("/v1/jobs/{}", pushed["id"].as_str().unwrap()));
    api.post("/v1/queues/orders/jobs", &whole());
    let mut replaced = whole();
    replaced["on_conflict"] = "replace".into();
    replaced["payload"] = json!([1]);
    api.post("/v1/queues/orders/jobs", &replaced);
    replaced["on_conflict"] = "reject".into();
    api.post("/v1/queues/orders/jobs", &replaced);
    let least = api.post("/v1/queues/q/jobs", &json!({"payload": null})).json();
    api.get(&format!("/v1/jobs/{}", least["id"].as_str().unwrap()));
    let bytes = api.post("/v1/queues/q/jobs", &json!({"payload_base64": "/wA=", "delay_ms": 7_200_000})).json();
    api.get(&format!("/v1/jobs/{}", bytes["id"].as_str().unwrap()));
    api.post("/v1/queues/q/jobs", &json!({"payload": 1, "due_at": "2031-01-01T01:00:00+01:00"}));
    api.post("/v1/queues/q/jobs", &json!({"payload": 1, "due_at_ms": 1_925_000_000_000_u64}));
    for retry in [
        json!("none"),
        json!("default"),
        json!({"steps": ["15s", "1m", "2h"]}),
        json!({"fixed": {"delay": "90s"}}),
        json!({"exponential": {"first": "1s", "factor": 2, "max": "1h", "jitter": 0}}),
    ] {
        let pushed = api.post("/v1/queues/q/jobs", &json!({"payload": 1, "retry": retry, "delay": "1h"})).json();
        let shown = api.server.job(pushed["id"].as_str().unwrap());
        api.golden.add_json(&json!({ "retry": shown["retry"] }));
    }
    for when in [json!("keep"), json!("drop"), json!("restart")] {
        let pushed = api.server.push(&json!({"payload": 1, "when_exhausted": when, "delay": "1h"}));
        let shown = api.server.job(&pushed);
        api.golden.add_json(&json!({ "when_exhausted": shown["when_exhausted"] }));
    }
    for target in [json!({"queue": "mail"}), json!({"redis_list": "list"})] {
        api.post("/v1/queues/orders/jobs", &json!({"payload": 1, "delay": "1h", "target": target}));
    }
    api.post(
        "/v1/queues/q/jobs",
        &json!([
            {"payload": 1}, {"paylod": 1}, {"payload": 2, "delay": "11 years"}, {"payload": 5, "key": "held"},
            {"payload": 4, "key": "held", "on_conflict": "reject"}, {"payload": 5, "key": "held"}, 7, {},
            {"payload": 6, "delay": "1h", "retry": {"steps": ["1s", 5]}},
        ]),
    );
    api.post("/v1/queues/q/jobs", &json!([]));
    api.post("/v1/jobs", &json!({"payload": 1, "queue": "mail", "delay": "1h"}));
    api.post(
        "/v1/jobs",
        &json!([{"payload": 1, "queue": "mail", "delay": "1h"}, {"payload": 1, "delay": "1h"}, {"payload": 1, "queue": "-"}]),
    );
    api.golden.finish();
}

#[test]
fn looking_and_changing() {
    let mut api = Api::new("http/jobs");
    let id = api.push(&json!({"payload": {"a": 1}, "delay": "2h", "key": "k", "tags": ["t"]}));
    let path = format!("/v1/jobs/{id}");
    api.get(&path);
    api.get(&format!("{path}/why"));
    api.send("GET", &path, &[("if-none-match", "\"1\"")], "");
    api.send("PATCH", &path, &[("if-match", "\"7\"")], r#"{"priority": 1}"#);
    api.send("PATCH", &path, &[("if-match", "\"1\"")], r#"{"priority": 1, "delay": "4h", "payload": "new"}"#);
    api.send("PATCH", &path, &[], r#"{"payload_base64": "AAE=", "due_at": "2031-01-01T00:00:00Z"}"#);
    api.send("PATCH", &path, &[], r#"{"key": "k"}"#);
    api.send("PATCH", &path, &[], "{}");
    api.call(&format!("{path}/retry"));
    api.call(&format!("{path}/run"));
    let receipt = api.server.receipt();
    api.get(&path);
    api.get(&format!("{path}/why"));
    api.send("PATCH", &path, &[], r#"{"priority": 1}"#);
    api.send("DELETE", &path, &[], "");
    api.call(&format!("{path}/run"));
    api.call(&format!("{path}/cancel"));
    api.get(&path);
    api.server.call(&format!("/v1/leases/{receipt}/release")).ok();
    api.call(&format!("{path}/cancel"));
    api.get(&path);
    api.send("PATCH", &path, &[], r#"{"priority": 1}"#);
    api.send("POST", &format!("{path}/cancel"), &[("if-match", "\"1\"")], "");
    let holder = api.push(&json!({"payload": 1, "key": "k", "delay": "1h"}));
    api.call(&format!("{path}/retry"));
    api.send("DELETE", &format!("/v1/jobs/{holder}"), &[], "");
    api.call(&format!("{path}/retry"));
    api.send("DELETE", &path, &[("if-match", "\"1\"")], "");
    api.send("DELETE", &path, &[], "");
    api.send("DELETE", &path, &[], "");
    for (method, verb) in
        [("GET", ""), ("GET", "/why"), ("PATCH", ""), ("POST", "/cancel"), ("POST", "/retry"), ("POST", "/run")]
    {
        api.send(method, &format!("/v1/jobs/7{verb}"), &[], if method == "PATCH" { r#"{"priority":1}"# } else { "" });
    }
    api.golden.finish();
}

#[test]
fn finding() {
    let mut api = Api::new("http/find");
    for n in 0..3 {
        api.push(&json!({"payload": n, "delay": format!("{}h", n + 1), "tags": [format!("t{n}"), "all"], "kind": "k"}));
    }
    api.push(&json!({"payload": "keyed", "key": "only", "delay": "9h"}));
    let page = api.get("/v1/jobs?queue=q&limit=2").json();
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(api.server.get(&format!("/v1/jobs?queue=q&limit=2&cursor={cursor}")).ok()["next_cursor"], Value::Null);
    for query in [
        "?tag=t1",
        "?queue=q&key=only",
        "?state=ready",
        "?state=succeeded,failed",
        "?state=retrying",
        "?kind=k&limit=1000",
        "?due_from=2031-01-01T00:00:00Z",
        "?queue=none",
    ] {
        let found = api.server.get(&format!("/v1/jobs{query}")).ok();
        let payloads: Vec<&Value> = found["jobs"].as_array().unwrap().iter().map(|job| &job["payload"]).collect();
        api.golden.add_json(&json!({"query": query, "payloads": payloads, "next_cursor": found["next_cursor"]}));
    }
    api.golden.blank();
    for query in [
        "?state=done",
        "?limit=0",
        "?limit=many",
        "?due_from=tomorrow",
        "?colour=red",
        "?key=only",
        "?cursor=x",
        "?queue=-q",
        "?state=retrying,ready",
        "?tag=a&tag=b",
    ] {
        api.get(&format!("/v1/jobs{query}"));
    }
    api.golden.finish();
}

#[test]
fn bulk() {
    let mut api = Api::new("http/bulk");
    (0..4)
        .for_each(|n| drop(api.push(&json!({"payload": n, "tags": ["t"], "delay": if n == 0 { "0s" } else { "1h" }}))));
    api.server.receipt();
    for (verb, body) in [
        ("cancel", json!({"tag": "t", "state": ["scheduled", "running"]})),
        ("retry", json!({"queue": "q", "state": "cancelled"})),
        ("reschedule", json!({"selection": {"tag": "t"}, "delay": "2h"})),
        (
            "reschedule",
            json!({"selection": {"queue": "q", "state": ["scheduled", "running"]}, "due_at": "2031-01-01T00:00:00Z"}),
        ),
        ("reschedule", json!({"selection": {"queue": "q"}})),
        ("reschedule", json!({"selection": {"queue": "q"}, "delay": "1h", "delay_ms": 7})),
        ("reschedule", json!({"selection": {}, "delay": "1h"})),
        ("reschedule", json!({"selection": {"queue": "q", "state": "done"}, "delay": "1h"})),
        ("reschedule", json!({"queue": "q", "delay": "1h"})),
        ("cancel", json!({"queue": "q", "due_from": "2020-01-01T00:00:00Z", "due_to": "2031-01-01T00:00:00Z"})),
        ("delete", json!({"queue": "q", "kind": "default"})),
        ("delete", json!({"queue": "q", "key": "none"})),
        ("cancel", json!({})),
        ("cancel", json!({"state": "done", "queue": "q"})),
        ("cancel", json!({"state": ["ready", "retrying"], "queue": "q"})),
        ("retry", json!({"tags": ["t"]})),
        ("delete", json!([])),
    ] {
        api.post(&format!("/v1/jobs/{verb}"), &body);
    }
    api.golden.finish();
}
