//! Reserves that wait.

use super::client::{Connection, request};
use super::server::{Server, eventually};
use serde_json::{Value, json};

/// A connection on which a reserve waits, or will as soon as the server has read it.
fn poller(server: &Server, body: &Value) -> Connection {
    let mut connection = server.connect();
    connection.send(request("POST", "/v1/reserve", &[], &body.to_string()));
    connection
}

fn ids(reservation: &Value) -> Vec<&str> {
    reservation["leases"].as_array().unwrap().iter().map(|lease| lease["id"].as_str().unwrap()).collect()
}

#[test]
fn a_push_wakes_one_that_waits() {
    let server = Server::start();
    let mut poller = poller(&server, &json!({"queues": ["p", "q"], "wait": "60s"}));
    let id = server.push(&json!({"payload": 1}));
    assert_eq!(ids(&poller.reply().ok()), [&*id]);
}

#[test]
fn each_push_wakes_another() {
    let server = Server::start();
    let mut pollers: Vec<_> = (0..20).map(|_| poller(&server, &json!({"queues": ["q"], "wait": "60s"}))).collect();
    let mut pushed: Vec<_> = (0..20).map(|i| server.push(&json!({"payload": i}))).collect();
    let mut got: Vec<String> = Vec::new();
    for poller in &mut pollers {
        let reservation = poller.reply().ok();
        got.extend(ids(&reservation).into_iter().map(str::to_owned));
    }
    pushed.sort();
    got.sort();
    assert_eq!(got, pushed);
}

#[test]
fn the_due_time_wakes_and_nothing_is_early() {
    let server = Server::start();
    let mut poller = poller(&server, &json!({"queues": ["q"], "wait": "60s"}));
    let pushed = server.post("/v1/queues/q/jobs", &json!({"payload": 1, "delay": "300ms"})).expect(201);
    assert_eq!(pushed["state"], "scheduled");
    let reservation = poller.reply().ok();
    let lease = &reservation["leases"][0];
    assert_eq!(lease["due_at"], pushed["due_at"]);
    assert!(lease["started_at"].as_str() >= lease["due_at"].as_str());
}

#[test]
fn resuming_run_and_release_wake() {
    let server = Server::start();
    server.call("/v1/queues/q/pause").ok();
    let id = server.push(&json!({"payload": 1}));
    let wait = json!({"queues": ["q"], "wait": "60s"});
    let mut first = poller(&server, &wait);
    server.call("/v1/queues/q/resume").ok();
    let reservation = first.reply().ok();
    assert_eq!(ids(&reservation), [&*id]);

    let mut second = poller(&server, &wait);
    server.call(&format!("/v1/leases/{}/release", reservation["leases"][0]["receipt"].as_str().unwrap())).ok();
    assert_eq!(ids(&second.reply().ok()), [&*id]);

    let later = server.push(&json!({"payload": 1, "delay": "1h"}));
    let mut third = poller(&server, &wait);
    server.call(&format!("/v1/jobs/{later}/run")).ok();
    assert_eq!(ids(&third.reply().ok()), [&*later]);
}

#[test]
fn a_poller_that_went_away_is_handed_nothing() {
    let server = Server::start();
    let sockets = server.sockets();
    for _ in 0..20 {
        // They disconnect while they wait, or before they are read: the server must notice either way.
        let gone: Vec<_> = (0..5).map(|_| poller(&server, &json!({"queues": ["q"], "wait": "60s"}))).collect();
        let mut half_gone = poller(&server, &json!({"queues": ["q"], "wait": "60s"}));
        half_gone.shut_down_sending();
        drop(gone);
        assert!(half_gone.is_ended());
        drop(half_gone);
        eventually(|| server.sockets() == sockets);

        let mut next = poller(&server, &json!({"queues": ["q"], "wait": "60s"}));
        let id = server.push(&json!({"payload": 1}));
        let reservation = next.reply().ok();
        assert_eq!(ids(&reservation), [&*id]);
        assert_eq!(reservation["leases"][0]["attempt"], 1);
        drop(next);
        eventually(|| server.sockets() == sockets);
    }
}

#[test]
fn one_who_leaves_passes_the_turn_on() {
    let server = Server::start();
    let wait = json!({"queues": ["q"], "wait": "60s"});
    for _ in 0..20 {
        let first = poller(&server, &wait);
        let mut second = poller(&server, &wait);
        drop(first);
        let id = server.push(&json!({"payload": 1}));
        // The first may have been handed the job before it disconnected: then the second gets the next one.
        let other = server.push(&json!({"payload": 2}));
        let reservation = second.reply().ok();
        assert!([&*id, &*other].contains(&ids(&reservation)[0]));
        server.call("/v1/queues/q/purge").ok();
    }
}
