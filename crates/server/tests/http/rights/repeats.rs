//! A request id is its caller's, and its request's.

use super::world::World;
use crate::http::tokens::send;
use serde_json::{Value, json};

const RESERVE: &str = "/v1/reserve";
const TAKE: &str = "/v1/queues/orders.a/take";

#[test]
fn a_guessed_request_id_gets_nothing_of_others() {
    let world = World::new();
    let (worker, other) = (world.token("worker", "work:orders.*"), world.token("other", "work:orders.*,work:mail.*"));
    for _ in 0..9 {
        world.as_root("POST", "/v1/queues/orders.a/jobs", &json!({"payload": 1})).expect(201);
    }
    let ask = |token: &str, path: &str, body: &Value| {
        let answer = send(&world.server, token, "POST", path, &body.to_string()).ok();
        let list = answer.get("leases").or(answer.get("jobs")).unwrap().as_array().unwrap();
        list.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut handed_out: Vec<String> = Vec::new();
    let mut is_new = |ids: &[String]| {
        let is_new = ids.iter().all(|id| !handed_out.contains(id));
        handed_out.extend_from_slice(ids);
        is_new
    };
    for (path, body) in [
        (RESERVE, json!({"queues": ["orders.a"], "limit": 1, "request_id": "r"})),
        (TAKE, json!({"limit": 1, "request_id": "r"})),
    ] {
        let first = ask(&worker, path, &body);
        assert!(first.len() == 1 && is_new(&first), "{first:?}");
        assert_eq!(ask(&worker, path, &body), first, "a repeat of {path}");
        // The same of another caller, and something else of the same caller, are other requests.
        assert!(is_new(&ask(&other, path, &body)), "another caller of {path}");
        let mut changed = body.clone();
        changed["limit"] = json!(2);
        assert!(is_new(&ask(&worker, path, &changed)), "another limit of {path}");
        assert_eq!(ask(&worker, path, &body), first, "a repeat of {path}");
    }
    let elsewhere = json!({"queues": ["mail.a"], "limit": 1, "request_id": "r"});
    assert_eq!(ask(&other, RESERVE, &elsewhere), [""; 0]);
}
