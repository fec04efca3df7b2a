//! Targets that are refused.

use super::receiver::{Answer, Receiver};
use super::server::Server;
use serde_json::json;
use std::process::{Command, Stdio};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_within_is_refused_when_it_is_set() {
    let server = Server::with(&[]).await;
    for url in ["https://127.0.0.1/", "https://2130706433/", "https://[::ffff:10.0.0.1]/", "https://169.254.169.254/"] {
        let said = server.try_set("hooks", json!({"target": {"url": url}})).await.unwrap_err();
        assert!(said.contains("got one that is refused: "), "{url}: {said}");
    }
    let said = server.try_set("hooks", json!({"target": {"url": "http://shop.example/"}})).await.unwrap_err();
    assert!(said.contains("must be https"), "{said}");
    let said = server.try_set("hooks", json!({"target": {"queue": "hooks"}})).await.unwrap_err();
    assert!(said.contains("another queue"), "{said}");
    let list = json!({"target": {"redis_list": {"url": "redis://127.0.0.1:6379", "key": "k"}}});
    let said = server.try_set("hooks", list).await.unwrap_err();
    assert!(said.contains("--deliver-redis"), "{said}");
    // Targets that could be the broker itself.
    let list = json!({"target": {"redis_list": {"url": "redis://127.0.0.1:6379", "key": "{duetime:shop:0}:body"}}});
    let said = server.try_set("hooks", list).await.unwrap_err();
    assert!(said.contains("does not begin with {duetime:"), "{said}");
    assert!(server.client.queues().get("hooks").await.unwrap().settings.target.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_within_is_refused_for_good() {
    let server = Server::with(&[]).await;
    let receiver = Receiver::start(|_, _| Answer::Status(200, ""));
    server.set("hooks", json!({"target": {"url": format!("https://localhost:{}/", receiver.port())}})).await;
    let id = server.push("hooks", "{}").await;
    let said = server.failed(id).await;
    assert!(said.starts_with("refused: ") && said.contains("is a loopback address"), "{said}");
    assert!(receiver.received().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_cannot_be_used_end_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "default whsec_c2VjcmV0 *\n").unwrap();
    for (option, expected) in [("--webhook-keys", "line 1: "), ("--webhook-ca", "no certificate")] {
        let output = Command::new(env!("CARGO_BIN_EXE_duetime"))
            .env_clear()
            .args(["serve", "--store", "memory", "--listen", "127.0.0.1:0", option])
            .arg(&file)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected) && !said.contains("c2VjcmV0"), "{option}: {said}");
    }
}
