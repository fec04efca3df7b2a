//! Targets that come and go, and servers that do.

use super::receiver::{Answer, Receiver};
use super::server::{Server, soon};
use duetime_core::Stage;
use duetime_core::api::Span;
use duetime_core::engine::{ReserveRequest, Source};
use nix::sys::signal::Signal;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_may_be_set_changed_and_taken_away() {
    let server = Server::start().await;
    let (first, second) =
        (Receiver::start(|_, _| Answer::Status(200, "")), Receiver::start(|_, _| Answer::Status(200, "")));
    let id = server.push("hooks", "before").await;
    server.set("hooks", json!({"target": {"url": first.url()}})).await;
    server.completed(id).await;
    server.set("hooks", json!({"target": {"url": second.url()}})).await;
    let id = server.push("hooks", "after").await;
    server.completed(id).await;
    let bodies = |receiver: &Receiver| receiver.received().into_iter().map(|got| got.body).collect::<Vec<_>>();
    assert_eq!((bodies(&first), bodies(&second)), (vec!["before".into()], vec!["after".into()]));
    server.set("hooks", json!({"target": null})).await;
    server.push("hooks", "for a worker").await;
    let request = ReserveRequest {
        from: Source::Queues(vec!["hooks".into()]),
        limit: 1,
        free: None,
        lease: None,
        wait: Span(20_000),
        request_id: None,
        worker: None,
    };
    let lease = server.client.leases().reserve(request).await.unwrap().leases.pop().unwrap();
    assert_eq!((&*lease.job.payload, lease.job.attempt), (&b"for a worker"[..], 1));
    assert_eq!((first.received().len(), second.received().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_finishes_what_is_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("jobs.db");
    let server = Server::on(&store, &["--webhook-allow-private"]).await;
    let receiver = Receiver::start(|number, _| if number == 0 { Answer::WhenOpened(200) } else { Answer::Silence });
    server.set("hooks", json!({"max_running": 1, "target": {"url": receiver.url()}})).await;
    let (id, waits) = (server.push("hooks", "1").await, server.push("hooks", "2").await);
    receiver.after(1).await;
    server.signal(Signal::SIGTERM);
    // It no longer serves, and yet is there.
    soon(async { while server.client.health().await.is_ok() {} }).await;
    receiver.open();
    assert_eq!(server.ended().await, Some(0));
    let server = Server::on(&store, &[]).await;
    assert_eq!(server.client.jobs().get(id).await.unwrap().stage, Stage::Succeeded);
    let waits = server.client.jobs().get(waits).await.unwrap();
    assert_eq!((waits.stage, waits.attempt, receiver.received().len()), (Stage::Pending, 0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_gives_back_what_takes_too_long() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("jobs.db");
    let server = Server::on(&store, &["--webhook-allow-private"]).await;
    let receiver = Receiver::start(|_, _| Answer::Silence);
    server.set("hooks", json!({"target": {"url": receiver.url()}})).await;
    let id = server.push("hooks", "1").await;
    receiver.after(1).await;
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().await, Some(0));
    let server = Server::on(&store, &[]).await;
    let job = server.client.jobs().get(id).await.unwrap();
    assert_eq!((job.attempt, job.lease_until, job.errors.len(), job.crashes), (0, None, 0, 0));
}
