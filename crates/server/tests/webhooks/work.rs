//! `duetime work --url`.

use super::receiver::{Answer, Receiver};
use super::requests::key;
use super::server::Server;
use std::process::{Command, Output, Stdio};

async fn work(server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
    command.env_clear().args(["work", "hooks", "--once", "--json", "--server", &server.address]);
    command.args(arguments).stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_sent_to_a_url() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    std::fs::write(&file, format!("shop {} *\n", key(9))).unwrap();
    let server = Server::with(&[]).await;
    let receiver = Receiver::start(|_, got| match &*got.body {
        b"1" => Answer::Status(200, "ok"),
        b"2" => Answer::Status(404, ""),
        _ => Answer::Status(500, "later"),
    });
    let (taken, wrong, fails) =
        (server.push("hooks", "1").await, server.push("hooks", "2").await, server.push("hooks", "3").await);
    let url = receiver.url();
    let arguments = ["--url", &url, "--webhook-allow-private", "--header", "X-Shop: 7", "--final-status", "404"];
    let keys = ["--webhook-keys", file.to_str().unwrap(), "--key", "shop", "--concurrency", "3"];
    let output = work(&server, &[&arguments[..], &keys].concat()).await;
    assert!(output.status.success(), "{output:?}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["succeeded"], &summary["failed"]), (&1.into(), &2.into()));
    server.completed(taken).await;
    assert_eq!(server.failed(wrong).await, "HTTP 404 Not Found");
    let job = server.client.jobs().get(fails).await.unwrap();
    assert_eq!(&*job.errors[0].message, "HTTP 500 Internal Server Error: later");
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("job {fails}, attempt 1: HTTP 500")));
    for got in receiver.received() {
        assert!(got.header("webhook-signature").starts_with("v1,"));
        assert_eq!(got.header("x-shop"), "7");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_may_not_be_sent_to_touches_no_job() {
    let server = Server::with(&[]).await;
    let id = server.push("hooks", "1").await;
    let output = work(&server, &["--url", "http://127.0.0.1:1/"]).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("--webhook-allow-private"), "{output:?}");
    assert_eq!(server.client.jobs().get(id).await.unwrap().attempt, 0);
}
