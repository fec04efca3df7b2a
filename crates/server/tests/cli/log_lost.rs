//! A log that cannot be written has no other effect: the server does its work, and stops on request.

use crate::cli::server::Server;
use crate::cli::support::{Place, until};
use duetime::Client;
use duetime_core::NewJob;
use duetime_core::engine::{Outcome, ReserveRequest, Source};
use duetime_core::rules::Failure;
use std::fs::OpenOptions;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Leases of one reserve, at most.
const LEASES_MAX: usize = 1_000;

/// A server that logs all that it does there, with the rest of its standard error.
fn server(stderr: impl Into<Stdio>) -> Server {
    let place = Place::new();
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--log-level", "trace"]);
    command.stderr(stderr.into());
    Server::spawn(place, command)
}

/// Leases end, jobs run, and SIGTERM is heard.
fn works_and_stops(mut server: Server) {
    let id = server.push(&["x"]);
    assert_eq!(server.json(&["reserve", "default", "--lease", "1s"])["leases"][0]["id"], *id);
    // Nobody settles it, so the engine takes it back.
    until("the lease ends", || (server.json(&["get", &id])["crashes"] == 1).then_some(()));
    let ran = server.run(&["work", "default", "--once", "--", "true"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(server.json(&["get", &id])["state"], "succeeded");
    assert!(server.json(&["health"])["degraded"].as_array().unwrap().is_empty());
    // Ends with 0.
    server.stop();
}

/// The number of lines that the server has lost.
fn lost(server: &Server) -> f64 {
    let metrics = server.json(&["metrics"]);
    let name = |metric: &&serde_json::Value| metric["name"] == "duetime_log_lines_lost_total";
    metrics.as_array().unwrap().iter().find(name).expect("the metric")["value"].as_f64().unwrap()
}

#[test]
fn a_log_whose_reader_is_gone_stops_nothing() {
    let mut server = server(Stdio::piped());
    drop(server.child.as_mut().unwrap().stderr.take());
    until("lines are lost", || (lost(&server) > 0.0).then_some(()));
    works_and_stops(server);
}

/// Has as many jobs fail as one call settles. Each is a line of the log, with a kilobyte of its message.
async fn fail_many(client: &Client) {
    let queue: Arc<str> = "failing".into();
    client.push_many(vec![NewJob { queue: queue.clone(), ..NewJob::new(*b"x") }; LEASES_MAX]).await.unwrap();
    let from = Source::Queues(vec![queue]);
    let request = ReserveRequest::new(from).limit(LEASES_MAX);
    let failure = Failure { message: "x".repeat(1_000).into(), is_final: true, retry_after: None };
    let leases = client.leases().reserve(request).await.unwrap().leases;
    let outcomes = leases.iter().map(|lease| (lease.job.receipt(), Outcome::Fail(failure.clone()))).collect();
    client.leases().settle(outcomes).await.unwrap();
}

#[tokio::test]
async fn a_log_that_nobody_reads_stops_nothing() {
    let server = server(Stdio::piped());
    let client = Client::connect(&server.url).await.unwrap();
    // The pipe and the queue of lines take two of them.
    for _ in 0..3 {
        fail_many(&client).await;
    }
    until("lines are lost", || (lost(&server) > 0.0).then_some(()));
    works_and_stops(server);
}

#[test]
fn a_log_on_a_full_disk_stops_nothing() {
    // There is never space left on this device.
    let server = server(OpenOptions::new().write(true).open("/dev/full").unwrap());
    until("lines are lost", || (lost(&server) > 0.0).then_some(()));
    works_and_stops(server);
}

#[test]
fn a_standard_error_that_is_closed_stops_nothing() {
    let place = Place::new();
    let mut command = Command::new("sh");
    let serve = "serve --store test.db --listen 127.0.0.1:0 --log-level trace";
    command.args(["-c", &format!("exec {} {serve} 2>&-", env!("CARGO_BIN_EXE_duetime"))]).current_dir(place.path(""));
    works_and_stops(Server::spawn(place, command));
}

#[test]
fn a_worker_whose_standard_error_nobody_reads_goes_on() {
    let place = Place::new();
    let ids = [place.push(&["--max-attempts", "1", "x"]), place.push(&["--max-attempts", "1", "x"])];
    let mut command = place.command(&["work", "default", "--once", "--", "false"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for id in ids {
        let job = place.json(&["get", &id]);
        assert_eq!((&job["state"], &job["crashes"]), (&"failed".into(), &0.into()), "{job}");
    }
}
