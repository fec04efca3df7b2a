//! Redis lists of frameworks as targets: payloads are pushed as their own clients push them.

use super::server::{Server, result};
use duetime_store::testing::RedisServer;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_of_laravel_wakes_a_worker() {
    let redis = tokio::task::spawn_blocking(RedisServer::start).await.unwrap();
    let server = Server::with(&["--deliver-redis", &redis.url()]).await;
    let target = json!({"redis_list": {"url": redis.url(), "key": "queues:default", "as": "laravel"}});
    let retry = json!({"fixed": {"delay": "50ms"}});
    server.set("mail", json!({"max_attempts": 1000, "retry": retry, "target": target})).await;
    let payload = r#"{"job": "Ship", "data": [1.10], "attempts": 0}"#;
    let first = server.push("mail", payload).await;
    assert_eq!(result(&server.completed(first).await), json!({"length": 1}));
    assert_eq!(redis.command(&["LPOP", "queues:default"]), payload);
    assert_eq!(redis.command(&["LPOP", "queues:default:notify"]), "1");

    // Whichever key is wrong, nothing is appended until both are right.
    for (wrong, other) in [("queues:default", "queues:default:notify"), ("queues:default:notify", "queues:default")] {
        redis.command(&["SET", wrong, "no list"]);
        let id = server.push("mail", payload).await;
        let job = server.until(id, |job| job.errors.len() > 2).await;
        assert!(job.errors[0].message.contains("WRONGTYPE"), "{:?}", job.errors);
        assert_eq!(redis.command(&["EXISTS", other]), "0", "{wrong}");
        redis.command(&["DEL", wrong]);
        server.completed(id).await;
        assert_eq!(redis.command(&["LLEN", "queues:default"]), "1");
        redis.command(&["DEL", "queues:default", "queues:default:notify"]);
    }
    // A worker would drop these without a word.
    for other in [
        "7",
        r#"{"order": 4711}"#,
        r#"{"attempts": 0}"#,
        r#"["x@call", 0]"#,
        r#"{"job": "Ship", "attempts": 0, "data": 1e400}"#,
    ] {
        let id = server.push("mail", other).await;
        let said = server.failed(id).await;
        assert!(said.contains("a job of Laravel"), "{other}: {said}");
    }
    assert_eq!(redis.command(&["EXISTS", "queues:default"]), "0");
    // As its drivers for other queues write it.
    let id = server.push("mail", r#"{"job": "Ship", "data": []}"#).await;
    server.completed(id).await;
    assert_eq!(redis.command(&["LPOP", "queues:default"]), r#"{"job": "Ship", "data": [],"attempts":0}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_of_bullmq_is_written_whole_or_not_at_all() {
    let redis = tokio::task::spawn_blocking(RedisServer::start).await.unwrap();
    let server = Server::with(&["--deliver-redis", &redis.url()]).await;
    let target = json!({"redis_list": {"url": redis.url(), "key": "bull:mail", "as": "bullmq"}});
    let retry = json!({"fixed": {"delay": "50ms"}});
    server.set("mail", json!({"max_attempts": 1000, "retry": retry, "target": target})).await;
    let job =
        |id: &str, score: u64| json!({"id": id, "score": score, "fields": {"name": "n", "data": "{}"}}).to_string();
    let first = server.push("mail", &job("1", 5)).await;
    assert_eq!(result(&server.completed(first).await), json!({"length": 1}));
    assert_eq!(redis.command(&["ZRANGE", "bull:mail:delayed", "0", "-1", "WITHSCORES"]), "1\n5");
    assert_eq!(redis.command(&["HGET", "bull:mail:1", "data"]), "{}");
    assert_eq!(redis.command(&["EXISTS", "bull:mail:marker"]), "0", "before BullMQ 5 there was none");

    // Whichever key is wrong, nothing is written until it is right.
    for (wrong, id) in [("bull:mail:delayed", "2"), ("bull:mail:meta", "3")] {
        redis.command(&["DEL", "bull:mail:delayed"]);
        redis.command(&["SET", wrong, "of another kind"]);
        let pushed = server.push("mail", &job(id, 5)).await;
        let failing = server.until(pushed, |job| job.errors.len() > 2).await;
        assert!(failing.errors[0].message.contains("WRONGTYPE"), "{:?}", failing.errors);
        assert_eq!(redis.command(&["EXISTS", &format!("bull:mail:{id}")]), "0", "{wrong}");
        redis.command(&["DEL", wrong]);
        server.completed(pushed).await;
        assert_eq!(redis.command(&["ZRANGE", "bull:mail:delayed", "0", "-1"]), id);
    }
    let with = |id: &str, fields: &str| format!(r#"{{"id":"{id}","score":5,"fields":{{{fields}}}}}"#);
    let keys = redis.command(&["DBSIZE"]);
    for (payload, why) in [
        ("7".to_owned(), "adopt bullmq --hand-back"),
        ("{}".to_owned(), "adopt bullmq --hand-back"),
        ("no JSON".to_owned(), "adopt bullmq --hand-back"),
        (with("", r#""name":"n","data":"{}""#), "the id of a job"),
        (with("wait", r#""name":"n","data":"{}""#), "another key of a queue"),
        (with("9", r#""name":"n""#), "without `data`"),
    ] {
        let id = server.client.push_raw("x", payload.into_bytes()).queue("mail").await.unwrap().id;
        let said = server.failed(id).await;
        assert!(said.contains(why), "{said}");
    }
    let no_log = job("10", 5).replacen('{', r#"{"log":"AAAA","#, 1);
    let pushed = server.push("mail", &no_log).await;
    let failing = server.until(pushed, |job| !job.errors.is_empty()).await;
    assert!(failing.errors[0].message.contains("log of the job"), "{:?}", failing.errors);
    assert_eq!(redis.command(&["DBSIZE"]), keys, "nothing is written");
    server.client.jobs().cancel(pushed).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_of_sidekiq_gets_the_time_and_its_queue_is_known() {
    let redis = tokio::task::spawn_blocking(RedisServer::start).await.unwrap();
    let server = Server::with(&["--deliver-redis", &redis.url()]).await;
    let target = json!({"redis_list": {"url": redis.url(), "key": "shop:queue:mail", "as": "sidekiq"}});
    server.set("mail", json!({"max_attempts": 1, "target": target})).await;
    redis.command(&["RPUSH", "shop:queue:mail", "older"]);
    let id = server.push("mail", r#"{"class": "Ship", "args": [1.10], "at": 5, "jid": "x", "enqueued_at": 1}"#).await;
    let job = server.completed(id).await;
    assert_eq!(result(&job), json!({"length": 2}));
    assert_eq!(redis.command(&["SMEMBERS", "shop:queues"]), "mail");
    let pushed = redis.command(&["LPOP", "shop:queue:mail"]);
    let (kept, time) = pushed.split_once(r#","enqueued_at":"#).unwrap();
    assert_eq!(kept, r#"{"class":"Ship","args":[1.10],"jid":"x""#);
    let enqueued_ms = time.trim_end_matches('}').parse::<f64>().unwrap() * 1_000.0;
    assert!((job.due_at.0 as f64 - 1.0..=job.finished_at.unwrap().0 as f64 + 1.0).contains(&enqueued_ms), "{pushed}");

    // Others are no jobs of Sidekiq, and never will be.
    for payload in ["7", "[]", "no JSON", r#"{"class": 7, "args": []}"#, r#"{"class": "Ship", "args": {}}"#] {
        let id = server.client.push_raw("x", payload.as_bytes().to_vec()).queue("mail").await.unwrap().id;
        let said = server.failed(id).await;
        assert!(said.contains("expected a job of Sidekiq"), "{said}");
    }
    let mails = json!({"redis_list": {"url": redis.url(), "key": "mails", "as": "sidekiq"}});
    let said = server.try_set("mail", json!({"target": mails})).await.unwrap_err();
    assert!(said.contains("NAMESPACE:queue:NAME"), "{said}");
    let values: Value = json!(server.client.queues().get("mail").await.unwrap().settings.target);
    assert_eq!(values["redis_list"]["as"], "sidekiq");
}
