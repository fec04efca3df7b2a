//! At every operation, other users' things look as if they did not exist.

use super::needed;
use super::world::{Things, World};
use crate::http::client::Reply;
use serde_json::json;

/// The parts of an answer that could tell one thing from another.
fn shown(reply: &Reply, things: &Things) -> (u16, Option<String>, String) {
    let media_type = reply.header("content-type").map(str::to_owned);
    (reply.status, media_type, things.hidden_in(&reply.body))
}

#[test]
fn what_is_not_yours_looks_like_what_does_not_exist() {
    let world = World::new();
    let token = world.token("tried", "admin:mail.*");
    let before = world.state();
    for operation in world.operations.iter().filter(|operation| needed(operation).is_some()) {
        // A stream of events does not end, and a list of what is wrong has the time. Both have their own tests.
        if ["GET /v1/events", "GET /v1/attention"].contains(&&**operation) {
            continue;
        }
        let (there, nothing) = (&world.there, Things::of_nothing());
        let (of_there, of_nothing) = (world.call(&token, operation, there), world.call(&token, operation, &nothing));
        assert_eq!(shown(&of_there, there), shown(&of_nothing, &nothing), "{operation}");
        let reply = of_there;
        match &**operation {
            "GET /v1/queues" | "GET /v1/schedules" | "GET /v1/locks" | "GET /v1/workers" => {
                assert!(!reply.ok().to_string().contains("orders.a"), "{reply:?}");
            }
            "POST /v1/reserve" | "POST /v1/take" | "POST /v1/queues/{queue}/take" => {
                let reservation = reply.ok();
                assert_eq!(reservation["refused"][0]["code"], "not_found", "{operation}: {reservation}");
                assert_eq!(reservation["refused"].as_array().map(Vec::len), Some(1), "{operation}: {reservation}");
            }
            "POST /v1/settle" | "POST /v1/extend" => assert_eq!(reply.ok()[0]["code"], "lease_lost"),
            named if named.contains("{receipt}") => drop(reply.problem(409, "lease_lost")),
            named if named.contains("/v1/jobs/{id}") => drop(reply.problem(404, "not_found")),
            "PUT /v1/schedules/{name}" => drop(reply.problem(403, "forbidden")),
            named if named.contains("/v1/schedules/{name}") => drop(reply.problem(404, "schedule_not_found")),
            // By name, whether or not it is there.
            _ => drop(reply.problem(403, "forbidden")),
        }
    }
    assert_eq!(world.state(), before);
}

/// The broker and the ledger of a server without a right to some give the same answers about missing ones.
#[test]
fn who_may_do_everything_hears_the_same_of_what_does_not_exist() {
    let world = World::new();
    let (root, narrow) = (world.token("all", "admin"), world.token("tried", "admin:mail.*"));
    let nothing = Things::of_nothing();
    let named = |operation: &&String| {
        operation.contains("{id}") || operation.contains("{receipt}") || operation.contains("/schedules/{name}/")
    };
    let more =
        ["POST /v1/settle", "POST /v1/extend", "POST /v1/reserve", "POST /v1/take", "DELETE /v1/schedules/{name}"]
            .map(str::to_owned);
    for operation in world.operations.iter().filter(named).chain(&more) {
        let (of_root, of_narrow) = (world.call(&root, operation, &nothing), world.call(&narrow, operation, &nothing));
        assert_eq!(shown(&of_root, &nothing), shown(&of_narrow, &nothing), "{operation}");
    }
}

#[test]
fn of_named_jobs_those_of_ones_own_are_handed_out() {
    let world = World::new();
    let token = world.token("tried", "work:mail.*,push:mail.*");
    let push = |queue: &str| {
        let pushed = world.as_root("POST", &format!("/v1/queues/{queue}/jobs"), &json!({"payload": 1})).expect(201);
        pushed["id"].as_str().unwrap().to_owned()
    };
    let (own, theirs) = (push("mail.a"), push("orders.a"));
    let missing = Things::of_nothing().job;
    let jobs = json!({"jobs": [{"id": missing}, {"id": theirs}, {"id": own}]}).to_string();
    let reservation = crate::http::tokens::send(&world.server, &token, "POST", "/v1/reserve", &jobs).ok();
    assert_eq!(reservation["leases"].as_array().unwrap().len(), 1);
    assert_eq!(reservation["leases"][0]["id"], json!(own));
    let refused: Vec<_> = reservation["refused"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(refused, [json!(missing), json!(theirs)]);
    assert_eq!(world.as_root("GET", &format!("/v1/jobs/{theirs}"), &json!(null)).ok()["state"], "ready");
}
