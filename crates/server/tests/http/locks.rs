//! Locks.

use super::client::{Connection, request};
use super::server::{Server, eventually, store_in};
use serde_json::json;

fn acquire(server: &Server, owner: &str) -> u64 {
    server.put("/v1/locks/l", &json!({"owner": owner})).ok()["fence"].as_u64().unwrap()
}

fn release(server: &Server, owner: &str, fence: u64) {
    let reply = server.send("DELETE", &format!("/v1/locks/l?owner={owner}&fence={fence}"), &[], "");
    assert_eq!((reply.status, &*reply.body), (204, ""));
}

/// A connection on which somebody waits for the lock, or will as soon as the server has read it.
fn waiter(server: &Server, owner: &str) -> Connection {
    let mut connection = server.connect();
    let body = json!({"owner": owner, "wait": "60s"}).to_string();
    connection.send(request("PUT", "/v1/locks/l", &[], &body));
    connection
}

#[test]
fn a_lock_is_acquired_shown_renewed_and_released() {
    let server = Server::start();
    assert_eq!(server.get("/v1/locks/stock-42").ok(), json!({"name": "stock-42", "held": false}));
    let granted = server.put("/v1/locks/stock-42", &json!({"owner": "worker-7-a81f", "ttl": "15s", "wait": "5s"})).ok();
    let fence = granted["fence"].as_u64().unwrap();
    assert_eq!(granted.as_object().unwrap().len(), 2);
    let shown = server.get("/v1/locks/stock-42").ok();
    assert_eq!(
        (&shown["held"], &shown["owner"], &shown["fence"]),
        (&json!(true), &json!("worker-7-a81f"), &json!(fence))
    );
    assert!(shown["expires_at"].is_string());
    assert_eq!(server.get("/v1/locks").ok(), json!({"locks": [shown], "next_cursor": null}));

    let refused = server.put("/v1/locks/stock-42", &json!({"owner": "other"})).problem(423, "lock_held");
    assert_eq!(refused["lock"], "stock-42");
    assert!(refused["expires_in"].as_str().unwrap().ends_with('s'), "{refused}");

    let again = server.put("/v1/locks/stock-42", &json!({"owner": "worker-7-a81f"})).ok();
    assert_eq!(again["fence"], fence);
    let renewed =
        server.put("/v1/locks/stock-42", &json!({"owner": "worker-7-a81f", "ttl": "24h", "fence": fence})).ok();
    assert_eq!(renewed["fence"], fence);
    assert!(renewed["expires_at"].as_str() > again["expires_at"].as_str());

    let stale = fence - 1;
    let lost = server.put("/v1/locks/stock-42", &json!({"owner": "worker-7-a81f", "fence": stale}));
    let lost = lost.problem(409, "lock_lost");
    assert_eq!((&lost["lock"], &lost["fence"]), (&json!("stock-42"), &json!(stale)));
    let path = |fence: u64| format!("/v1/locks/stock-42?owner=worker-7-a81f&fence={fence}");
    server.send("DELETE", &path(stale), &[], "").problem(409, "lock_lost");
    assert_eq!(server.send("DELETE", &path(fence), &[], "").status, 204);
    server.send("DELETE", &path(fence), &[], "").problem(409, "lock_lost");
    assert_eq!(server.get("/v1/locks").ok()["locks"], json!([]));
}

#[test]
fn all_locks_of_an_owner_are_released() {
    let server = Server::start();
    for name in ["a", "b", "c%20%2F%C3%A4"] {
        server.put(&format!("/v1/locks/{name}"), &json!({"owner": "me & you"})).ok();
    }
    server.put("/v1/locks/d", &json!({"owner": "me"})).ok();
    let page = server.get("/v1/locks?limit=2").ok();
    assert_eq!((&page["locks"][1]["name"], &page["next_cursor"]), (&json!("b"), &json!("b")));
    let page = server.get("/v1/locks?cursor=b").ok();
    assert_eq!((&page["locks"][0]["name"], &page["locks"][1]["name"]), (&json!("c /ä"), &json!("d")));
    let released = server.send("DELETE", "/v1/locks?owner=me+%26%20you", &[], "").ok();
    assert_eq!(released, json!({"released": 3, "lost": 0}));
    let left = server.get("/v1/locks").ok();
    assert_eq!(left["locks"].as_array().unwrap().len(), 1);
}

#[test]
fn a_release_and_an_expiry_wake_those_who_wait_in_order() {
    let server = Server::start();
    let fence = acquire(&server, "a");
    let mut first = waiter(&server, "b");
    release(&server, "a", fence);
    let granted = first.reply().ok();
    let fence = granted["fence"].as_u64().unwrap();
    let mut second = waiter(&server, "c");
    server.put("/v1/locks/l", &json!({"owner": "b", "fence": fence, "ttl": "300ms"})).ok();
    assert!(second.reply().ok()["fence"].as_u64().unwrap() > fence, "nobody released it");
}

#[test]
fn one_who_went_away_is_not_granted() {
    let server = Server::start();
    let sockets = server.sockets();
    // Callers that disconnected are in line, if only for a moment, perhaps behind the next caller; then they give up their places.
    let waits = |owner| waiter(&server, owner).reply().ok()["fence"].as_u64().unwrap();
    for _ in 0..10 {
        let fence = waits("a");
        let gone: Vec<_> = (0..5).map(|n| waiter(&server, &format!("gone-{n}"))).collect();
        drop(gone);
        eventually(|| server.sockets() == sockets);
        release(&server, "a", fence);
        let fence = waits("b");
        release(&server, "b", fence);
    }
}

#[test]
fn a_lock_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder);
    let server = Server::on(&store);
    let fence = acquire(&server, "a");
    drop(server);
    let server = Server::on(&store);
    server.put("/v1/locks/l", &json!({"owner": "b"})).problem(423, "lock_held");
    server.put("/v1/locks/l", &json!({"owner": "a", "fence": fence})).ok();
    release(&server, "a", fence);
    assert!(acquire(&server, "b") > fence);
}

#[test]
fn what_is_malformed_or_beyond_a_limit_is_refused() {
    let server = Server::start();
    let long = "x".repeat(256);
    for body in [
        json!({}),
        json!({"owner": ""}),
        json!({"owner": long}),
        json!({"owner": "o", "ttl": "99ms"}),
        json!({"owner": "o", "ttl": "25h"}),
        json!({"owner": "o", "ttl": 15}),
        json!({"owner": "o", "wait": "61s"}),
        json!({"owner": "o", "fence": 1, "wait": "1s"}),
        json!({"owner": "o", "fence": "1"}),
        json!({"owner": "o", "bogus": 1}),
        json!(["o"]),
    ] {
        server.put("/v1/locks/l", &body).problem(400, "invalid");
    }
    server.put(&format!("/v1/locks/{long}"), &json!({"owner": "o"})).problem(400, "invalid");
    server.get(&format!("/v1/locks/{long}")).problem(400, "invalid");
    for path in ["/v1/locks?x=1", "/v1/locks?limit=0", "/v1/locks?limit=1001", "/v1/locks?owner=o", "/v1/locks/l?x=1"] {
        server.get(path).problem(400, "invalid");
    }
    server.put("/v1/locks/l?owner=o", &json!({"owner": "o"})).problem(400, "invalid");
    for path in ["/v1/locks", "/v1/locks?owner=", "/v1/locks?owner=o&fence=1", "/v1/locks?owner=a&owner=b"] {
        server.send("DELETE", path, &[], "").problem(400, "invalid");
    }
    for query in ["", "?owner=o", "?fence=1", "?owner=o&fence=x", "?owner=o&fence=1&x=1"] {
        server.send("DELETE", &format!("/v1/locks/l{query}"), &[], "").problem(400, "invalid");
    }
    assert_eq!(server.get("/v1/locks").ok()["locks"], json!([]));
}
