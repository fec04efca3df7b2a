//! All-time totals of a queue.

use super::client::request;
use super::server::{Server, store_in};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

fn totals(server: &Server) -> Value {
    server.get("/v1/queues/q").ok()["totals"].clone()
}

#[test]
fn totals_are_the_same_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder);
    let mut server = Server::on(&store);
    for n in 0..10 {
        server.push(&json!({"payload": n, "retry": "none"}));
    }
    let receipts: Vec<String> =
        server.reserve(8).iter().map(|lease| lease["receipt"].as_str().unwrap().to_owned()).collect();
    receipts[..3].iter().for_each(|receipt| drop(server.call(&format!("/v1/leases/{receipt}/complete")).ok()));
    receipts[3..8].iter().for_each(|receipt| drop(server.call(&format!("/v1/leases/{receipt}/fail")).ok()));
    // Two of them get another chance, and one of these succeeds.
    for receipt in &receipts[3..5] {
        server.call(&format!("/v1/jobs/{}/retry", receipt.split('.').next().unwrap())).ok();
    }
    server.post("/v1/queues/q/take", &json!({"limit": 1})).ok();
    server.call("/v1/queues/q/purge").ok();
    // Deleting jobs does not lower the totals.
    assert_eq!(server.post("/v1/jobs/delete", &json!({"queue": "q", "state": "succeeded"})).ok()["deleted"], 4);
    let expected = json!({"pushed": 10, "succeeded": 4, "failed": 5, "cancelled": 3});
    assert_eq!(totals(&server), expected);
    assert_eq!(server.get("/v1/queues").ok()["queues"][0]["totals"], expected);
    server.signal(Signal::SIGKILL);
    server.wait();
    assert_eq!(totals(&Server::on(&store)), expected);
}

/// Pushes and completes until the server is gone; counts the acknowledgements.
fn work(address: SocketAddr, pushed: &AtomicU64, done: &AtomicU64) -> Option<()> {
    let mut connection = super::client::Connection::open(address);
    let mut send = |path: &str, body: &str| {
        let reply = connection.try_send(request("POST", path, &[], body)).then(|| connection.reply_without_end())??;
        Some(serde_json::from_str::<Value>(&reply.body).unwrap())
    };
    loop {
        send("/v1/queues/q/jobs", r#"{"payload": 1}"#)?;
        pushed.fetch_add(1, Ordering::SeqCst);
        let reservation = send("/v1/queues/q/reserve", "{}")?;
        let Some(receipt) = reservation["leases"][0]["receipt"].as_str() else { continue };
        let settled = send(&format!("/v1/leases/{receipt}/complete"), "")?;
        done.fetch_add(u64::from(settled["state"] == "succeeded"), Ordering::SeqCst);
    }
}

#[test]
fn totals_are_exact_whenever_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder);
    let (pushed, done) = (AtomicU64::new(0), AtomicU64::new(0));
    for round in 1..=3 {
        let mut server = Server::on(&store);
        let address = server.address;
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| work(address, &pushed, &done))));
            super::server::eventually(|| done.load(Ordering::SeqCst) >= 50 * round);
            server.signal(Signal::SIGKILL);
        });
        server.wait();
        let status = Server::on(&store).get("/v1/queues/q").ok();
        let rows = ["pending", "succeeded", "failed", "cancelled"].map(|state| status[state].as_u64().unwrap());
        let totals =
            ["pushed", "succeeded", "failed", "cancelled"].map(|what| status["totals"][what].as_u64().unwrap());
        assert_eq!(totals, [rows.iter().sum(), rows[1], 0, 0]);
        assert!(totals[0] >= pushed.load(Ordering::SeqCst) && totals[1] >= done.load(Ordering::SeqCst), "{status}");
    }
}
