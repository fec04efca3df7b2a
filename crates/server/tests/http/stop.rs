//! Stopping, and the state after a restart.

use super::client::request;
use super::server::{Server, store_in};
use nix::sys::signal::Signal;
use serde_json::json;

const HEAD: &str = "HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n";

#[test]
fn idle_connections_do_not_hold_up_the_end() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut server = Server::start();
        let mut idle = server.connect();
        idle.send(request("GET", "/healthz", &[], ""));
        idle.reply().ok();
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0));
        assert!(idle.is_ended());
    }
}

#[test]
fn who_waits_is_answered_at_once() {
    let mut server = Server::start();
    let mut poller = server.connect();
    let body = r#"{"wait":"60s"}"#;
    poller.send(format!("POST /v1/queues/q/reserve {HEAD}content-length: {}\r\n\r\n", body.len()));
    assert_eq!(poller.reply().status, 100);
    poller.send(body);
    server.signal(Signal::SIGTERM);
    assert_eq!(poller.reply().ok(), json!({"leases": [], "next_due_at": null}));
    assert!(poller.is_ended());
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_running_request_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::on(&store_in(&folder));
    let mut connection = server.connect();
    connection.send(format!("POST /v1/queues/q/jobs {HEAD}content-length: 13\r\n\r\n"));
    assert_eq!(connection.reply().status, 100);
    server.signal(Signal::SIGTERM);
    server.wait_until_closed();
    connection.send(r#"{"payload":1}"#);
    let id = connection.reply().expect(201)["id"].as_str().unwrap().to_owned();
    assert!(connection.is_ended());
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(Server::on(&store_in(&folder)).job(&id)["state"], "ready");
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut server = Server::start();
    let mut connection = server.connect();
    connection.send(format!("POST /v1/queues/q/jobs {HEAD}content-length: 13\r\n\r\n"));
    assert_eq!(connection.reply().status, 100);
    server.signal(Signal::SIGTERM);
    server.wait_until_closed();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(130));
}

#[test]
fn a_request_that_never_ends_is_cut_off() {
    let mut server = Server::start();
    let mut connection = server.connect();
    connection.send(format!("POST /v1/queues/q/jobs {HEAD}content-length: 13\r\n\r\n"));
    assert_eq!(connection.reply().status, 100);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
    // The body may be given up before the stop cuts it off.
    let refused = connection.reply_without_end().map(|reply| reply.status);
    assert!(matches!(refused, None | Some(408)), "{refused:?}");
}

#[test]
fn leases_outlive_a_restart_and_stale_ones_stay_stale() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder);
    let server = Server::on(&store);
    let id = server.push(&json!({"payload": 1}));
    let stale = server.receipt();
    server.call(&format!("/v1/leases/{stale}/release")).ok();
    let receipt = server.receipt();
    let later = server.push(&json!({"payload": 2, "delay": "1h", "key": "k"}));
    server.stop();

    let server = Server::on(&store);
    assert!(server.reserve(10).is_empty());
    server.call(&format!("/v1/leases/{stale}/complete")).problem(409, "lease_lost");
    assert_eq!(server.job(&id)["state"], "running");
    assert_eq!(server.call(&format!("/v1/leases/{receipt}/complete")).ok()["state"], "succeeded");
    assert_eq!(server.job(&later)["key"], "k");
}
