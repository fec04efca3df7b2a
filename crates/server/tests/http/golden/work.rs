//! Work: reserve, take, settle; events.

use super::Api;
use crate::http::client::{Connection, request};
use serde_json::{Value, json};

#[test]
fn handing_out() {
    let mut api = Api::new("http/reserve");
    api.post("/v1/queues/q/reserve", &json!({}));
    let id = api.push(&json!({"payload": {"a": 1}, "kind": "k", "tags": ["t"], "key": "x", "priority": 3,
        "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "meta": {"tenant": "7"}}));
    api.push(&json!({"payload_base64": "/w=="}));
    let later = api.push(&json!({"payload": "later", "delay": "2h"}));
    let reservation =
        api.post("/v1/queues/q/reserve", &json!({"limit": 10, "lease": "2h", "wait": "1s", "request_id": "r"}));
    assert_eq!(reservation.json()["leases"][0]["id"], *id);
    api.post("/v1/queues/q/reserve", &json!({"limit": 10, "lease": "2h", "wait": "1s", "request_id": "r"}));
    api.post("/v1/reserve", &json!({"queues": ["a", "q"], "limit": 3}));
    api.post(
        "/v1/reserve",
        &json!({"jobs": [{"id": later, "version": 1}, {"id": later, "version": 9}, {"id": "7"}, {"id": id}]}),
    );
    api.push(&json!({"payload": "taken", "tags": ["t"]}));
    api.post("/v1/queues/q/take", &json!({"limit": 5, "request_id": "t"}));
    api.post(
        "/v1/queues/q/take",
        &json!({"limit": 5, "due_from": "2020-01-01T00:00:00Z", "due_to": "2020-01-02T00:00:00Z"}),
    );
    api.post(
        "/v1/queues/q/take",
        &json!({"jobs": [{"id": later, "version": 1}, {"id": "7"}, {"id": id, "version": 1}]}),
    );
    api.push(&json!({"payload": "taken", "tags": ["t"]}));
    api.post("/v1/take", &json!({"queues": ["a", "q"], "limit": 5}));
    api.post("/v1/take", &json!({"jobs": [{"id": later}]}));
    for body in [json!({}), json!({"queues": ["a"], "jobs": []}), json!({"queues": ["-"]})] {
        api.post("/v1/take", &body);
    }
    api.call("/v1/queues/q/pause");
    api.post("/v1/queues/q/reserve", &json!({"jobs": [{"id": later}]}));
    api.post("/v1/queues/q/reserve", &json!({"worker": ""}));
    api.get("/v1/workers?limit=0");
    for body in [
        json!({"limit": 0}),
        json!({"limit": 1001}),
        json!({"lease": "1ms"}),
        json!({"wait": "2h"}),
        json!({"queues": ["a"]}),
        json!({"jobs": [{"id": 1}]}),
        json!({"jobs": [{"version": 1}]}),
        json!({"count": 1}),
    ] {
        api.post("/v1/queues/q/reserve", &body);
    }
    for body in
        [json!({}), json!({"queues": [], "limit": 1}), json!({"queues": ["a"], "jobs": []}), json!({"queues": ["-"]})]
    {
        api.post("/v1/reserve", &body);
    }
    for body in [json!({"due_to": "2031-01-01T00:00:00Z"}), json!({"due_from": 5}), json!({"lease": "1s"})] {
        api.post("/v1/queues/q/take", &body);
    }
    api.golden.finish();
}

#[test]
fn settling() {
    let mut api = Api::new("http/settle");
    let retry = json!({"fixed": {"delay": "2h"}});
    let leases = |api: &Api, count: usize| -> Vec<(String, String)> {
        (0..count).for_each(|n| drop(api.push(&json!({"payload": n, "retry": retry, "jitter": 0, "max_attempts": 3}))));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        api.server.reserve(count).iter().map(|lease| (text(&lease["receipt"]), text(&lease["id"]))).collect()
    };
    for (verb, body) in [
        ("complete", Some(json!({"result": {"rows": [1, 2]}}))),
        ("complete", Some(json!({"result_base64": "/w=="}))),
        ("complete", None),
        ("fail", Some(json!({"message": "no paper", "retry_after": "4h"}))),
        ("fail", Some(json!({"message": "broken", "final": true}))),
        ("fail", None),
        ("release", Some(json!({"delay": "3h"}))),
        ("release", Some(json!({"priority": 7}))),
        ("release", None),
        ("park", Some(json!({"message": "no stamps", "priority": 3}))),
        ("park", None),
        ("extend", Some(json!({"lease": "2h"}))),
        ("extend", None),
        ("progress", Some(json!({"percent": 40, "note": "half way"}))),
    ] {
        let (receipt, id) = leases(&api, 1).remove(0);
        let path = format!("/v1/leases/{receipt}/{verb}");
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        api.send("POST", &path, &[], &body);
        api.get(&format!("/v1/jobs/{id}"));
        if verb != "extend" && verb != "progress" {
            api.send("POST", &path, &[], &body);
        }
        api.server.send("DELETE", &format!("/v1/jobs/{id}"), &[], "");
        api.server.call("/v1/queues/q/purge").ok();
    }
    let [a, b, c, d] = <[(String, String); 4]>::try_from(leases(&api, 4)).unwrap().map(|(receipt, _)| receipt);
    api.post("/v1/leases/7.7/cancel", &json!({}));
    api.post(&format!("/v1/leases/{d}/progress"), &json!({"percent": 101}));
    api.post(&format!("/v1/leases/{d}/progress"), &json!({"note": "x"}));
    api.post(&format!("/v1/leases/{d}/complete"), &json!({"result": 1, "result_base64": "AA=="}));
    api.post(
        "/v1/extend",
        &json!([{"receipt": d, "lease": "3h"}, {"receipt": "7.7"}, {"receipt": "x"}, {"lease": "1s"}, 5]),
    );
    api.post(
        "/v1/settle",
        &json!([
            {"receipt": a, "complete": {"result": 1}}, {"receipt": b, "fail": {"message": "m", "retry_after": "2h"}},
            {"receipt": c, "release": {}}, {"receipt": d, "complete": {}, "fail": {}}, {"receipt": d}, {"receipt": "7.7", "complete": {}},
            {"receipt": d, "fail": {"massage": "m"}}, {"complete": {}}, "x",
        ]),
    );
    let cancelled = leases(&api, 1).remove(0);
    api.server.call(&format!("/v1/jobs/{}/cancel", cancelled.1)).ok();
    api.post(&format!("/v1/leases/{}/extend", cancelled.0), &json!({}));
    api.post(&format!("/v1/leases/{}/fail", cancelled.0), &json!({"message": "stopped"}));
    api.get(&format!("/v1/jobs/{}", cancelled.1));
    api.golden.finish();
}

#[test]
fn events() {
    let mut api = Api::new("http/events");
    let mut stream = api.server.connect();
    stream.send(request("GET", "/v1/events?queue=q", &[], ""));
    let head = stream.reply();
    api.add_reply(&head);
    let mut text = String::new();
    read_until(&mut stream, &mut text, 1);
    let job = json!({"payload": 1, "kind": "k", "retry": {"fixed": {"delay": "0s"}}, "key": "x", "tags": ["t"]});
    let id = api.push(&job);
    let receipt = api.server.receipt();
    api.server.post(&format!("/v1/leases/{receipt}/fail"), &json!({"message": "no paper"})).ok();
    let receipt = api.server.receipt();
    api.server.post(&format!("/v1/leases/{receipt}/progress"), &json!({"percent": 10})).ok();
    api.server.call(&format!("/v1/leases/{receipt}/complete")).ok();
    api.server.call(&format!("/v1/jobs/{id}/retry")).ok();
    api.server.call(&format!("/v1/jobs/{id}/cancel")).ok();
    api.push(&json!({"payload": 2}));
    api.server.call("/v1/queues/q/take").ok();
    read_until(&mut stream, &mut text, 10);
    for event in text.split_terminator("\n\n") {
        let (head, data) = event.split_once("data: ").unwrap_or((event, "null"));
        api.golden.add(head);
        api.golden.add_json(&serde_json::from_str(data).unwrap());
    }
    api.golden.blank();
    for query in ["?what=ended", "?queue=a%20b", "?kind=k"] {
        api.get(&format!("/v1/events{query}"));
    }
    api.golden.finish();
}

/// Reads until this many events have come.
fn read_until(stream: &mut Connection, text: &mut String, count: usize) {
    while text.matches("\n\n").count() < count {
        *text += &stream.chunk().expect("the stream goes on");
    }
}
