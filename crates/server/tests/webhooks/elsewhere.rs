//! Targets that are no URLs: Redis lists, and other queues.

use super::server::{Server, result};
use duetime_core::Stage;
use duetime_store::testing::RedisServer;
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_are_appended_to_a_redis_list() {
    let mut redis = tokio::task::spawn_blocking(RedisServer::start).await.unwrap();
    let server = Server::with(&["--deliver-redis", &redis.url()]).await;
    let list = json!({"url": redis.url(), "key": "mail"});
    let retry = json!({"fixed": {"delay": "50ms"}});
    server
        .set("mail", json!({"max_running": 1, "max_attempts": 1000, "retry": retry, "target": {"redis_list": list}}))
        .await;
    let (first, second) = (server.push("mail", r#"{"n": 1}"#).await, server.push("mail", "2\r\n").await);
    assert_eq!(result(&server.completed(first).await), json!({"length": 1}));
    assert_eq!(result(&server.completed(second).await), json!({"length": 2}));
    assert_eq!(redis.command(&["LPOP", "mail"]), r#"{"n": 1}"#);
    assert_eq!(redis.command(&["LPOP", "mail"]), "2\r\n");

    redis.command(&["SET", "mail", "no list"]);
    let wrong = server.push("mail", "3").await;
    let job = server.until(wrong, |job| !job.errors.is_empty()).await;
    assert!(job.errors[0].message.contains("WRONGTYPE"), "{:?}", job.errors);
    redis.command(&["DEL", "mail"]);
    server.completed(wrong).await;

    // To others it looks like a new server at the same address.
    redis = tokio::task::spawn_blocking(move || {
        redis.restart();
        redis
    })
    .await
    .unwrap();
    let after = server.push("mail", "4").await;
    server.completed(after).await;
    assert_eq!(redis.command(&["LRANGE", "mail", "-1", "-1"]), "4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_handed_on_to_another_queue() {
    let server = Server::with(&[]).await;
    server.set("in", json!({"target": {"queue": "out"}})).await;
    let id = server.client.push_raw("order.paid", *b"{}").queue("in").priority(7).tag("t").await.unwrap().id;
    let handed_on = result(&server.completed(id).await);
    let copies = server.jobs("out").await;
    assert_eq!((copies.len(), handed_on["queue"].as_str()), (1, Some("out")));
    let copy = &copies[0];
    assert_eq!((json!(copy.id), copy.stage, copy.attempt), (handed_on["job"].clone(), Stage::Pending, 0));
    assert_eq!((&*copy.kind, &*copy.payload, copy.priority, &*copy.tags[0]), ("order.paid", &b"{}"[..], 7, "t"));
    let due_at = server.client.jobs().get(id).await.unwrap().first_due_at.0;
    assert_eq!(copy.origin.as_deref(), Some(&*format!("duetime:forward-{id}-{due_at}")));
    // A retry by hand makes another copy.
    server.client.jobs().retry(id).await.unwrap();
    assert_ne!(result(&server.completed(id).await), handed_on);
    assert_eq!(server.jobs("out").await.len(), 2);
}

/// Ids are no secret, so origins of copies can be guessed: nobody may push one beforehand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_origin_keeps_a_copy_away() {
    let server = Server::with(&[]).await;
    server.set("in", json!({"target": {"queue": "out"}})).await;
    let before = server.push("other", "{}").await.get();
    let last = server.push("other", "{}").await.get();
    // The refusal below uses one up.
    let next = last + 2 * (last - before);
    let hold = async |origin: String| {
        server.client.push_raw("x", *b"{}").queue("out").origin(origin).after(Duration::from_secs(60)).await
    };
    let said = hold(format!("duetime:forward-{next}")).await.unwrap_err().to_string();
    assert!(said.contains("does not begin with duetime:"), "{said}");
    let id = server.push("in", r#"{"order": 7}"#).await;
    let handed_on = result(&server.completed(id).await);
    assert_eq!(id.get(), next, "it was the id that was guessed");
    let copies = server.jobs("out").await;
    assert_eq!(
        (copies.len(), json!(copies[0].id), &*copies[0].payload),
        (1, handed_on["job"].clone(), &br#"{"order": 7}"#[..])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circle_of_targets_ends() {
    let server = Server::with(&[]).await;
    server.set("a", json!({"target": {"queue": "b"}})).await;
    server.set("b", json!({"target": {"queue": "a"}})).await;
    let mut id = server.push("a", "{}").await;
    for _ in 0..8 {
        let handed_on = result(&server.completed(id).await);
        id = serde_json::from_value(handed_on["job"].clone()).unwrap();
    }
    assert!(server.failed(id).await.contains("form a circle"));
    assert_eq!((server.jobs("a").await.len(), server.jobs("b").await.len()), (5, 4));
}
