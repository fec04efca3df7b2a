//! Pushing.

use super::client::check_problem;
use super::server::Server;
use serde_json::{Value, json};

#[test]
fn the_documented_push_is_answered_as_documented() {
    let server = Server::start();
    let body = json!({
        "kind": "order.cancel", "payload": {"order": "202010250100"}, "delay": "30m", "priority": 1024,
        "key": "cancel-202010250100", "on_conflict": "keep", "key_until": "finished", "tags": ["order:202010250100"],
        "lease": "60s", "max_attempts": 16,
        "retry": {"exponential": {"first": "1s", "factor": 2.0, "max": "1h", "jitter": 0.1}}, "expires": "24h",
    });
    let reply = server.post("/v1/queues/orders/jobs", &body);
    let pushed = reply.expect(201);
    let id = pushed["id"].as_str().unwrap();
    assert_eq!(reply.header("location"), Some(&*format!("/v1/jobs/{id}")));
    assert_eq!((&pushed["queue"], &pushed["state"]), (&json!("orders"), &json!("scheduled")));
    assert_eq!((&pushed["outcome"], pushed.as_object().unwrap().len()), (&json!("created"), 5));

    let job = server.job(id);
    for field in ["kind", "payload", "priority", "key", "key_until", "tags", "max_attempts", "retry"] {
        assert_eq!(job[field], body[field], "{field}");
    }
    assert_eq!((&job["lease"], &job["expires"]), (&json!("1m"), &json!("1d")));
    assert_eq!((&job["attempt"], &job["errors"], &job["due_at"]), (&json!(0), &json!([]), &pushed["due_at"]));
}

#[test]
fn a_push_with_an_idempotency_key_may_be_repeated() {
    let server = Server::start();
    let push = |key: &str, body: &serde_json::Value| {
        server.send("POST", "/v1/queues/q/jobs", &[("idempotency-key", key)], &body.to_string())
    };
    let first = push("a b", &json!({"payload": 1})).expect(201);
    let repeat = push("a b", &json!({"payload": 1}));
    let answer = repeat.expect(200);
    assert_eq!((&answer["id"], &answer["outcome"]), (&first["id"], &json!("repeated")));
    assert_eq!(repeat.header("location"), Some(&*format!("/v1/jobs/{}", first["id"].as_str().unwrap())));
    assert_eq!(server.job(first["id"].as_str().unwrap())["origin"], "a b");
    let reused = push("a b", &json!({"payload": 2, "delay": "1h"})).problem(422, "origin_reused");
    assert_eq!((&reused["id"], &reused["origin"]), (&first["id"], &json!("a b")));
    assert_eq!(reused["differs"], json!(["payload", "due_at"]));
    let own = push("a b", &json!({"payload": 1, "origin": "mine"})).expect(201);
    assert_eq!(server.job(own["id"].as_str().unwrap())["origin"], "mine");

    let batch = json!([{"payload": 1}, {"wrong": 1}, {"payload": 3}, {"payload": 4, "origin": "fourth"}]);
    let made = push("b", &batch).ok();
    assert_eq!((&made[0]["outcome"], &made[1]["code"]), (&json!("created"), &json!("invalid")));
    for (n, origin) in [(0, "b-0"), (2, "b-2"), (3, "fourth")] {
        assert_eq!(server.job(made[n]["id"].as_str().unwrap())["origin"], origin);
    }
    // A refused entry may be corrected in the next request, and does not shift the others.
    let mended = json!([{"payload": 1}, {"payload": 2}, {"payload": 3}, {"payload": 4, "origin": "fourth"}]);
    let again = push("b", &mended).ok();
    let outcomes: Vec<_> = again.as_array().unwrap().iter().map(|answer| answer["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["repeated", "created", "repeated", "repeated"]);
    assert_eq!((&again[0]["id"], &again[2]["id"]), (&made[0]["id"], &made[2]["id"]));

    // One that is left out shifts the others.
    let shifted = push("b", &json!([{"payload": 3}, {"payload": 2}])).ok();
    assert_eq!((&shifted[0]["code"], &shifted[1]["outcome"]), (&json!("origin_reused"), &json!("repeated")));

    let long = "k".repeat(251);
    for wrong in ["", long.as_str(), "gr\u{fc}n", "duetime:mine"] {
        let refused = push(wrong, &json!({"payload": 1})).problem(400, "invalid");
        assert!(refused["detail"].as_str().unwrap().contains("` must be "), "{refused}");
    }
    let two = [("idempotency-key", "a"), ("idempotency-key", "b")];
    server.send("POST", "/v1/queues/q/jobs", &two, r#"{"payload": 1}"#).problem(400, "invalid");
    server
        .put("/v1/schedules/s", &json!({"every": "1h", "job": {"payload": 1, "origin": "o"}}))
        .problem(400, "invalid");
}

#[test]
fn payloads_come_back_byte_for_byte() {
    let server = Server::start();
    for payload in
        ["123456789012345678901234567890", "1.0", "null", r#"{ "b" : 1,"a":"\u00fc\/" }"#, "\"\\ud83d\\ude00\""]
    {
        let body = format!("{{\"payload\":{payload}}}");
        let pushed = server.send("POST", "/v1/queues/q/jobs", &[], &body).expect(201);
        let shown = format!("\"payload\":{payload},");
        let lease = server.send("POST", "/v1/queues/q/reserve", &[], "{}");
        assert!(lease.body.contains(&shown), "{}", lease.body);
        let job = server.get(&format!("/v1/jobs/{}", pushed["id"].as_str().unwrap()));
        assert!(job.body.contains(&shown), "{}", job.body);
    }
    for base64 in ["/w==", "", "IDEg"] {
        let id = server.push(&json!({"payload_base64": base64}));
        assert_eq!(server.job(&id)["payload_base64"], base64);
    }
}

#[test]
fn a_job_has_the_target_and_the_trace_that_it_is_pushed_with() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let server = Server::start();
    let other = TRACE.replace("4bf9", "1111");
    let target = json!({"url": "https://a.example/one", "method": "PUT", "timeout": "5s", "final_statuses": [404]});
    let job = json!({"payload": 1, "target": target});
    let refused = server.post("/v1/queues/q/jobs", &job).problem(400, "invalid");
    assert!(refused["detail"].as_str().unwrap().contains("has no target in its settings"), "{refused}");
    server.put("/v1/queues/q", &json!({"target": {"url": "https://a.example/all"}})).ok();

    let jobs = format!(r#"[{job}, {{"payload": 2, "trace": "{other}"}}]"#);
    let pushed = server.send("POST", "/v1/queues/q/jobs", &[("traceparent", TRACE)], &jobs).ok();
    let shown = server.job(pushed[0]["id"].as_str().unwrap());
    assert_eq!((&shown["target"], &shown["trace"]), (&target, &json!(TRACE)), "that of the request");
    assert_eq!(server.job(pushed[1]["id"].as_str().unwrap())["trace"], other, "its own");
    let pushed = server.send("POST", "/v1/queues/q/jobs", &[("traceparent", "mine")], r#"{"payload": 1}"#).expect(201);
    assert_eq!(server.job(pushed["id"].as_str().unwrap()).get("trace"), None);
    server.post("/v1/queues/q/jobs", &json!({"payload": 1, "trace": "mine"})).problem(400, "invalid");
}

#[test]
fn keys_differ_in_every_byte() {
    let server = Server::start();
    let keys = ["key", "Key", "key ", " key", "kéy"];
    for key in keys {
        server.push(&json!({"payload": 1, "key": key}));
    }
    for key in keys {
        let kept = server.post("/v1/queues/q/jobs", &json!({"payload": 2, "key": key})).ok();
        assert_eq!(kept["outcome"], "kept");
        assert_eq!(server.job(kept["id"].as_str().unwrap())["key"], key);
    }
}

#[test]
fn pushes_with_a_key_are_debounced() {
    let server = Server::start();
    let push = |on_conflict: Value| {
        server.post("/v1/queues/q/jobs", &json!({"payload": 1, "key": "k", "on_conflict": on_conflict}))
    };
    let first = push(json!({"debounce": "1h", "at_latest": "2h"})).expect(201);
    let again = push(json!({"debounce": "90m"})).ok();
    assert_eq!((&first["outcome"], &again["outcome"]), (&json!("created"), &json!("replaced")));
    assert_eq!(
        (&first["id"], &server.job(again["id"].as_str().unwrap())["key_until"]),
        (&again["id"], &json!("started"))
    );
    for wrong in [json!("wait"), json!({"debounce": "soon"}), json!({"debounce": "1h", "latest": "2h"}), json!({})] {
        let problem = push(wrong.clone()).problem(400, "invalid");
        assert!(problem["field"].as_str().unwrap().starts_with("on_conflict"), "{wrong}: {problem}");
    }
    let both = json!({"payload": 1, "key": "k", "delay": "1h", "on_conflict": {"debounce": "1h"}});
    let problem = server.post("/v1/queues/q/jobs", &both).problem(400, "invalid");
    assert_eq!(problem["field"], "delay");
}

#[test]
fn a_held_key_keeps_replaces_or_rejects() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "key": "k"}));
    let push = |on_conflict: &str| {
        server.post("/v1/queues/q/jobs", &json!({"payload": 2, "priority": 7, "key": "k", "on_conflict": on_conflict}))
    };
    assert_eq!(push("keep").ok()["id"], id);
    assert_eq!(server.job(&id)["payload"], 1);

    let problem = push("reject").problem(409, "key_conflict");
    assert_eq!((&problem["holder"], &problem["key"], &problem["queue"]), (&json!(id), &json!("k"), &json!("q")));

    let replaced = push("replace").ok();
    assert_eq!((&replaced["id"], &replaced["outcome"]), (&json!(id), &json!("replaced")));
    let job = server.job(&id);
    assert_eq!((&job["payload"], &job["priority"]), (&json!(2), &json!(7)));

    let other = server.post("/v1/queues/other/jobs", &json!({"payload": 1, "key": "k", "on_conflict": "reject"}));
    other.expect(201);
}

#[test]
fn an_array_is_answered_one_by_one_in_order() {
    let server = Server::start();
    server.push(&json!({"payload": 0, "key": "held"}));
    let reply = server.post(
        "/v1/queues/q/jobs",
        &json!([
            {"payload": 1},
            {"paylod": 1},
            {"payload": 2, "delay": "11 years"},
            {"payload": 3, "delay": "4018d"},
            {"payload": 4, "key": "held", "on_conflict": "reject"},
            {"payload": 5, "key": "held"},
            7,
            {"payload": 6, "delay": "1h"},
        ]),
    );
    let answers = reply.ok();
    let outcomes: Vec<_> = answers.as_array().unwrap().iter().map(|a| a["outcome"].as_str()).collect();
    assert_eq!(outcomes, [Some("created"), None, None, None, None, Some("kept"), None, Some("created")]);
    for place in [1, 2, 3, 6] {
        check_problem(&answers[place], 400, "invalid");
    }
    check_problem(&answers[4], 409, "key_conflict");
    assert!(answers[1]["detail"].as_str().unwrap().contains("`paylod`"));
    assert_eq!((&answers[0]["state"], &answers[7]["state"]), (&json!("ready"), &json!("scheduled")));
    assert_eq!(server.post("/v1/queues/q/jobs", &json!([])).ok(), json!([]));
}

#[test]
fn jobs_of_several_queues_are_pushed_in_one_request() {
    let server = Server::start();
    let one = server.post("/v1/jobs", &json!({"payload": 1, "queue": "mail"})).expect(201);
    assert_eq!((&one["queue"], &one["outcome"]), (&json!("mail"), &json!("created")));
    let answers = server
        .post(
            "/v1/jobs",
            &json!([{"payload": 2, "queue": "mail"}, {"payload": 3}, {"payload": 4, "queue": "-"}, {"queue": 5}]),
        )
        .ok();
    assert_eq!((&answers[0]["queue"], &answers[1]["queue"]), (&json!("mail"), &json!("default")));
    check_problem(&answers[2], 400, "invalid");
    check_problem(&answers[3], 400, "invalid");
    assert_eq!(server.get("/v1/queues/mail").ok()["ready"], 2);
    server.send("POST", "/v1/jobs?queue=mail", &[], r#"{"payload": 1}"#).problem(400, "invalid");
}

#[test]
fn a_batch_has_a_limit() {
    let server = Server::start();
    let jobs = |count: usize| json!(vec![json!({"payload": 0}); count]);
    let answers = server.post("/v1/queues/q/jobs", &jobs(10_000)).ok();
    assert_eq!(answers.as_array().unwrap().len(), 10_000);
    let problem = server.post("/v1/queues/q/jobs", &jobs(10_001)).problem(400, "invalid");
    assert!(problem["detail"].as_str().unwrap().contains("10000"), "{problem}");
    assert_eq!(server.get("/v1/queues/q").ok()["ready"], 10_000);
}

#[test]
fn queue_names_are_decoded_and_checked() {
    let server = Server::start();
    for (segment, name) in [("a%2Fb", "a/b"), ("a+b", "a+b"), ("a%2bb", "a+b"), ("$(x);_.-", "$(x);_.-")] {
        let pushed = server.post(&format!("/v1/queues/{segment}/jobs"), &json!({"payload": 1})).expect(201);
        assert_eq!(pushed["queue"], name);
        assert_eq!(server.get(&format!("/v1/queues/{segment}")).ok()["queue"], name);
    }
    let long = "q".repeat(201);
    for segment in ["-a", "a%20b", "%C3%BC", "a%00", &long] {
        let path = format!("/v1/queues/{segment}/jobs");
        server.post(&path, &json!({"payload": 1})).problem(400, "invalid");
    }
    server.post("/v1/queues/%FF/jobs", &json!({"payload": 1})).problem(400, "invalid");
    server.post("/v1/queues/a/b/jobs", &json!({"payload": 1})).problem(404, "no_route");
}
