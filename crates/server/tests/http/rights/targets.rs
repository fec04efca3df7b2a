//! The rights to set a delivery target, and to read the secrets in it.

use super::world::World;
use crate::http::tokens::send;
use serde_json::{Value, json};

const QUEUE: &str = "/v1/queues/mail.a";
const SECRET: &str = "hush";

fn target() -> Value {
    json!({"url": format!("https://shop.example/hook?token={SECRET}"), "headers": {"authorization": SECRET}})
}

#[test]
fn a_job_has_its_own_target_only_by_a_right_of_its_own() {
    let world = World::new();
    world.as_root("PUT", QUEUE, &json!({"target": {"url": "https://shop.example/"}})).ok();
    // Nothing is sent: the queue is paused.
    world.as_root("POST", &format!("{QUEUE}/pause"), &Value::Null).ok();
    let job = json!({"payload": 1, "target": target()});
    let push =
        |token: &str, job: &Value| send(&world.server, token, "POST", &format!("{QUEUE}/jobs"), &job.to_string());
    for (name, allow, status) in [
        ("a", "push", 403),
        ("b", "push:mail.*,target:orders.*", 403),
        ("c", "push:mail.*,target:mail.*", 201),
        ("d", "target:mail.*", 403),
        ("e", "admin:mail.*", 201),
    ] {
        let token = world.token(name, allow);
        assert_eq!(push(&token, &job).status, status, "{allow}");
        let answers = push(&token, &json!([job]));
        assert_eq!(answers.body.contains("forbidden"), status == 403, "{allow}: {answers:?}");
    }
    // Wherever it is set, it is judged then.
    let token = world.token("f", "admin:mail.*");
    for (target, what) in [
        (json!({"url": "https://127.0.0.1/"}), "`target.url`"),
        (json!({"url": "https://shop.example/", "key": "of-others"}), "`target.key`"),
        (json!({"redis_list": {"url": "redis://127.0.0.1", "key": "k"}}), "--deliver-redis"),
        (
            json!({"redis_list": {"url": "redis://127.0.0.1", "key": "{duetime:default:0}:meta"}}),
            "`target.redis_list.key`",
        ),
        (json!({"url": "https://shop.example/", "final_statuses": vec![404; 33]}), "`target.final_statuses`"),
        (
            json!({"redis_list": {"url": "redis://127.0.0.1", "key": "k", "as": "resque"}}),
            "or \"bullmq\", got \"resque\"",
        ),
        (json!({"redis_list": {"url": "redis://127.0.0.1", "key": "k", "as": "sidekiq"}}), "NAMESPACE:queue:NAME"),
    ] {
        let job = json!({"queue": "mail.a", "payload": 1, "target": target});
        let schedule = json!({"every": "2h", "job": job}).to_string();
        for reply in [
            push(&token, &json!({"payload": 1, "target": target})),
            send(&world.server, &token, "PUT", QUEUE, &json!({"target": target}).to_string()),
            send(&world.server, &token, "PUT", "/v1/schedules/mail.a", &schedule),
        ] {
            let problem = reply.problem(400, "invalid");
            assert!(problem["detail"].as_str().unwrap().contains(what), "{target}: {problem}");
        }
    }
}

#[test]
fn secrets_of_targets_are_shown_to_who_may_set_them() {
    let world = World::new();
    world.as_root("PUT", QUEUE, &json!({"target": target()})).ok();
    world.as_root("POST", &format!("{QUEUE}/pause"), &Value::Null).ok();
    let job = json!({"queue": "mail.a", "payload": 1, "target": target()});
    world.as_root("PUT", "/v1/schedules/mail.a", &json!({"every": "2h", "job": job})).ok();
    let job = json!({"payload": 1, "target": target()});
    let id = world.as_root("POST", &format!("{QUEUE}/jobs"), &job).expect(201)["id"].as_str().unwrap().to_owned();
    let (reader, changer, admin) =
        (world.token("a", "read"), world.token("b", "read,change,admin:orders.*"), world.token("c", "admin:mail.*"));
    let paths = [
        QUEUE,
        "/v1/queues",
        "/v1/schedules",
        "/v1/schedules/mail.a",
        "/v1/jobs?queue=mail.a",
        &format!("/v1/jobs/{id}"),
    ];
    for path in paths {
        for (token, sees) in [(&reader, false), (&changer, false), (&admin, true)] {
            let shown = send(&world.server, token, "GET", path, "").ok().to_string();
            assert_eq!(shown.contains(SECRET), sees, "{path}: {shown}");
            assert!(shown.contains("https://shop.example/hook?"), "{path}: {shown}");
        }
    }
    let patched = send(&world.server, &changer, "PATCH", &format!("/v1/jobs/{id}"), r#"{"priority": 7}"#).ok();
    assert!(!patched.to_string().contains(SECRET) && patched["payload"] == 1, "{patched}");
}

#[test]
fn who_may_change_a_job_but_not_read_it_is_not_shown_what_is_in_it() {
    let world = World::new();
    let job = json!({"payload": {"card": SECRET}, "key": format!("key-{SECRET}"), "tags": [SECRET], "delay": "1h"});
    let pushed = world.as_root("POST", &format!("{QUEUE}/jobs"), &job).expect(201);
    let path = format!("/v1/jobs/{}", pushed["id"].as_str().unwrap());
    let token = world.token("a", "change:mail.*,work:mail.*,read:orders.*");
    let change = |method: &str, path: String, body: &str| {
        let shown = send(&world.server, &token, method, &path, body).ok();
        assert!(!shown.to_string().contains(SECRET) && shown["id"] == pushed["id"], "{path}: {shown}");
        shown
    };
    assert_eq!(change("PATCH", path.clone(), r#"{"priority": 7}"#)["priority"], 7);
    assert_eq!(change("POST", format!("{path}/run"), "")["state"], "ready");
    let leases = send(&world.server, &token, "POST", &format!("{QUEUE}/reserve"), "").ok()["leases"].clone();
    let fail = format!("/v1/leases/{}/fail", leases[0]["receipt"].as_str().unwrap());
    send(&world.server, &token, "POST", &fail, &json!({"message": SECRET, "final": true}).to_string()).ok();
    // Not even if another job holds its key.
    world.as_root("POST", &format!("{QUEUE}/jobs"), &job).expect(201);
    let refused = send(&world.server, &token, "POST", &format!("{path}/retry"), "").problem(409, "key_conflict");
    assert!(!refused.to_string().contains(SECRET) && refused.get("holder").is_none(), "{refused}");
}

/// Wherever jobs are shown that follow another one, however deep.
#[test]
fn secrets_in_targets_of_jobs_that_follow_are_for_administrators() {
    let world = World::new();
    world.as_root("PUT", QUEUE, &json!({"target": {"url": "https://shop.example/"}})).ok();
    world.as_root("POST", &format!("{QUEUE}/pause"), &Value::Null).ok();
    let next = json!({"payload": 2, "target": target()});
    let job = json!({"payload": 1, "then": [{"payload": 3, "otherwise": [next]}]});
    let pushed = world.as_root("POST", &format!("{QUEUE}/jobs"), &job).expect(201);
    let path = format!("/v1/jobs/{}", pushed["id"].as_str().unwrap());
    let shown = |allow: &str| send(&world.server, &world.token(allow, allow), "GET", &path, "").ok().to_string();
    assert!(shown("admin:mail.*").contains(SECRET));
    let read = shown("read:mail.*");
    assert!(!read.contains(SECRET) && read.contains("shop.example"), "{read}");
}
