//! Lists, streams and cursors reveal only things that the token has a right to.

use super::world::World;
use crate::http::client::request;
use crate::http::tokens::send;
use serde_json::{Value, json};

/// The entries in the pages of a list, one entry a page.
fn pages(world: &World, token: &str, path: &str, list: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = send(&world.server, token, "GET", &format!("{path}limit=1{cursor}"), "").ok();
        assert!(!page.to_string().contains("orders."), "{page}");
        all.extend(page[list].as_array().unwrap().iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { return all };
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn pages_and_cursors_name_nothing_of_others() {
    let world = World::new();
    for name in ["mail.a", "mail.b", "mail.c", "orders.b", "a", "zoo"] {
        world.as_root("POST", &format!("/v1/queues/{name}/jobs"), &json!({"payload": 1, "delay": "1h"})).expect(201);
        world.as_root("PUT", &format!("/v1/locks/{name}"), &json!({"owner": "root", "ttl": "1h"})).ok();
        let schedule = json!({"every": "1h", "job": {"queue": name, "payload": 1}});
        world.as_root("PUT", &format!("/v1/schedules/{name}"), &schedule).ok();
        world.as_root("POST", &format!("/v1/queues/{name}/reserve"), &json!({"worker": name})).ok();
    }
    let token = world.token("tried", "read:mail.*,lock:mail.*,lock:zoo,read:zoo");
    for (path, list, name) in [
        ("/v1/queues?", "queues", "queue"),
        ("/v1/locks?", "locks", "name"),
        ("/v1/schedules?", "schedules", "name"),
        ("/v1/workers?", "workers", "worker"),
    ] {
        let names: Vec<_> = pages(&world, &token, path, list).into_iter().map(|one| one[name].clone()).collect();
        assert_eq!(json!(names), json!(["mail.a", "mail.b", "mail.c", "zoo"]), "{path}");
    }
    for n in 0..3 {
        world.as_root("POST", "/v1/queues/mail.a/jobs", &json!({"payload": n, "delay": "1h"})).expect(201);
    }
    assert_eq!(pages(&world, &token, "/v1/jobs?queue=mail.a&", "jobs").len(), 4);
    // Other callers' cursors lead only to one's own data.
    for query in ["queue=orders.a", "queue=orders.a&state=scheduled", "queue=orders.b"] {
        let theirs = world.as_root("GET", &format!("/v1/jobs?{query}&limit=1"), &Value::Null).ok();
        let Some(cursor) = theirs["next_cursor"].as_str() else { continue };
        for state in ["", "&state=scheduled"] {
            let path = format!("/v1/jobs?queue=mail.a{state}&cursor={cursor}");
            let reply = send(&world.server, &token, "GET", &path, "");
            assert!(!reply.body.contains("orders."), "{path}: {reply:?}");
        }
    }
}

#[test]
fn a_stream_tells_of_ones_own_queues_only() {
    let world = World::new();
    let token = world.token("tried", "read:mail.*");
    let bearer = format!("Bearer {token}");
    let mut streams = ["", "?queue=orders.*&queue=mail.*", "?queue=*"].map(|query| {
        let mut stream = world.server.connect();
        stream.send(request("GET", &format!("/v1/events{query}"), &[("authorization", &bearer)], ""));
        assert_eq!(stream.reply().status, 200);
        assert!(stream.chunk().unwrap().contains("subscribed"));
        stream
    });
    for queue in ["orders.a", "orders.b", "mail.a"] {
        world.as_root("POST", &format!("/v1/queues/{queue}/jobs"), &json!({"payload": 1})).expect(201);
    }
    for stream in &mut streams {
        let mut told = String::new();
        while !told.contains("mail.a") {
            told += &stream.chunk().unwrap();
        }
        assert!(!told.contains("orders."), "{told}");
    }
}
