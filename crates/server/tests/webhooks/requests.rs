//! The requests that are sent: headers, signatures, and their keys.

use super::receiver::{Answer, Receiver};
use super::server::{Server, result, soon};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use duetime_core::Target;
use ring::hmac;
use serde_json::json;
use std::fmt::Write as _;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A key by its first byte.
pub(crate) fn key(byte: u8) -> String {
    format!("whsec_{}", STANDARD.encode([byte; 32]))
}

/// The signature of a request by a key.
pub(crate) fn signature(byte: u8, id: &str, seconds: &str, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &[byte; 32]);
    format!("v1,{}", STANDARD.encode(hmac::sign(&key, format!("{id}.{seconds}.{body}").as_bytes())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_says_what_it_is() {
    let server = Server::start().await;
    let receiver = Receiver::start(|_, _| Answer::Status(202, ""));
    let target = json!({"url": receiver.url(), "method": "PUT", "headers": {"authorization": "Bearer abc"}});
    server.set("hooks", json!({"target": target})).await;
    let id = server.push("hooks", r#"{"order": 7}"#).await;
    let job = server.completed(id).await;
    assert_eq!(result(&job), json!({"status": 202}));
    let got = receiver.received().remove(0);
    assert_eq!((&*got.method, &*got.body), ("PUT", br#"{"order": 7}"#.as_slice()));
    for (name, value) in [
        ("authorization", "Bearer abc"),
        ("content-type", "application/json"),
        ("duetime-queue", "hooks"),
        ("duetime-kind", "order.paid"),
        ("duetime-attempt", "1"),
        ("duetime-due-at", &job.due_at.to_string()),
        ("webhook-id", &id.to_string()),
        ("webhook-signature", ""),
    ] {
        assert_eq!(got.header(name), value, "{name}");
    }
    assert!(got.header("user-agent").starts_with("duetime/"));
    let seconds: u64 = got.header("webhook-timestamp").parse().unwrap();
    assert!((job.due_at.0 / 1_000..=job.due_at.0 / 1_000 + 60).contains(&seconds));
    let id = server.push("hooks", "no json").await;
    server.completed(id).await;
    assert_eq!(receiver.received()[1].header("content-type"), "application/octet-stream");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_keys_of_a_name_sign_and_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let write = |keys: &[(&str, u8)]| {
        let lines = keys.iter().fold("# keys\n".to_owned(), |mut lines, (name, byte)| {
            writeln!(lines, "{name} {} plain,shop,none", key(*byte)).unwrap();
            lines
        });
        std::fs::write(&file, lines).unwrap();
    };
    write(&[("default", 1), ("shop", 2), ("none", 4)]);
    let server = Server::with(&["--webhook-allow-private", "--webhook-keys", file.to_str().unwrap()]).await;
    let receiver = Receiver::start(|_, _| Answer::Status(200, ""));
    server.set("plain", json!({"target": {"url": receiver.url()}})).await;
    server.set("shop", json!({"target": {"url": receiver.url(), "key": "shop"}})).await;
    server.set("none", json!({"retry": "none", "target": {"url": receiver.url(), "key": "none"}})).await;
    let signed = async |queue: &str| {
        let id = server.push(queue, "{}").await;
        server.completed(id).await;
        receiver.received().pop().unwrap()
    };
    let by = |got: &super::receiver::Received, bytes: &[u8]| {
        let sign = |byte: &u8| signature(*byte, got.header("webhook-id"), got.header("webhook-timestamp"), "{}");
        got.header("webhook-signature") == bytes.iter().map(sign).collect::<Vec<_>>().join(" ")
    };
    let got = signed("plain").await;
    assert!(by(&got, &[1]), "{got:?}");
    assert!(by(&signed("shop").await, &[2]));

    write(&[("default", 1), ("shop", 2), ("shop", 3)]);
    // Until the change is seen.
    let got = soon(async {
        loop {
            let got = signed("shop").await;
            if !by(&got, &[2]) {
                return got;
            }
        }
    })
    .await;
    assert!(by(&got, &[2, 3]), "{got:?}");
    let id = server.push("none", "{}").await;
    let said = server.failed(id).await;
    assert!(said.contains("has no key \"none\"") && !said.contains("whsec_"), "{said}");
}

/// Setting a target, of a queue or of a job, never yields a signature that a receiver takes for another queue's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_signs_jobs_of_its_queues_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    std::fs::write(&file, format!("default {} orders.*\nshop {} orders.eu\n", key(1), key(2))).unwrap();
    let server = Server::with(&["--webhook-allow-private", "--webhook-keys", file.to_str().unwrap()]).await;
    let receiver = Receiver::start(|_, _| Answer::Status(200, ""));
    let target = |key: Option<&str>| {
        key.map_or(json!({"url": receiver.url()}), |key| json!({"url": receiver.url(), "key": key}))
    };
    for (queue, key) in [("mail", "shop"), ("mail", "none"), ("mail", "default"), ("orders.us", "shop")] {
        let said = server.try_set(queue, json!({"target": target(Some(key))})).await.unwrap_err();
        assert!(said.contains("for this queue"), "{queue}, {key}: {said}");
    }
    for queue in ["orders.eu", "mail"] {
        server.set(queue, json!({"target": target(None)})).await;
    }
    let push = async |queue: &str, key: Option<&str>| {
        let own: Target = serde_json::from_value(target(key)).unwrap();
        server.client.push_raw("order.paid", *b"{}").queue(queue).target(own).await.map(|pushed| pushed.id)
    };
    let said = push("mail", Some("shop")).await.unwrap_err().to_string();
    assert!(said.contains("for this queue"), "{said}");
    for (queue, key, byte) in [("orders.eu", Some("shop"), Some(2)), ("orders.eu", None, Some(1)), ("mail", None, None)]
    {
        server.completed(push(queue, key).await.unwrap()).await;
        let got = receiver.received().pop().unwrap();
        let sign = |byte: u8| signature(byte, got.header("webhook-id"), got.header("webhook-timestamp"), "{}");
        assert_eq!(got.header("webhook-signature"), byte.map(sign).unwrap_or_default(), "{queue}, {key:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_names_the_job_before_it() {
    let server = Server::start().await;
    let receiver = Receiver::start(|_, _| Answer::Status(200, ""));
    server.set("hooks", json!({"target": {"url": receiver.url()}})).await;
    let follower = server.client.push_raw("next", *b"{}").queue("hooks");
    let first = server.client.push_raw("first", *b"{}").queue("hooks").then(follower).await.unwrap().id;
    server.completed(first).await;
    let received = receiver.after(2).await;
    assert_eq!((received[0].header("duetime-previous"), received[1].header("duetime-kind")), ("", "next"));
    let previous: serde_json::Value = serde_json::from_str(received[1].header("duetime-previous")).unwrap();
    assert_eq!((&previous["id"], &previous["state"]), (&json!(first), &json!("succeeded")));
}

/// The request also carries the job's trace and its metadata.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jobs_own_target_counts_in_place_of_its_queues() {
    let server = Server::start().await;
    let [usual, own] = [0, 1].map(|_| Receiver::start(|_, _| Answer::Status(200, "")));
    let target = |url: &str| -> Target { serde_json::from_value(json!({ "url": url })).unwrap() };
    let push = |target: Target| server.client.push_raw("order.paid", *b"{}").queue("hooks").target(target).trace(TRACE);
    let push = |target: Target| push(target).meta("tenant", "7").meta("user", "ä %");
    let refused = push(target(&own.url())).await.unwrap_err();
    assert_eq!(refused.code(), "invalid", "workers would get it");
    server.set("hooks", json!({"retry": "none", "target": {"url": usual.url()}})).await;
    let id = push(target(&own.url())).await.unwrap().id;
    server.completed(id).await;
    assert_eq!((usual.received().len(), own.received().len()), (0, 1));
    assert_eq!(own.received()[0].header("traceparent"), TRACE);
    assert_eq!(own.received()[0].header("duetime-meta"), r#"{"tenant":"7","user":"%C3%A4%20%25"}"#);
    let said = push(target("https://169.254.169.254/latest")).await.unwrap_err().to_string();
    assert!(said.contains("refused: 169.254.169.254"), "{said}");
    let usual_one = server.push("hooks", "{}").await;
    server.completed(usual_one).await;
    assert_eq!(usual.received().len(), 1);
}
