//! The metrics that Prometheus scrapes.

use super::server::Server;
use serde_json::{Value, json};

/// The value of a line of the text, which begins with this.
fn value(text: &str, line: &str) -> Option<f64> {
    let found = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '))?;
    Some(found.parse().unwrap())
}

#[test]
fn transitions_are_counted_by_queue() {
    let server = Server::start();
    for n in 0..4 {
        server.push(&json!({"payload": n, "retry": {"fixed": {"delay": "1h"}}, "max_attempts": 2}));
    }
    server.push(&json!({"payload": 4, "retry": "none"}));
    server.push(&json!({"payload": 5, "delay": "1h"}));
    let receipts: Vec<Value> = server.reserve(10).iter().map(|lease| lease["receipt"].clone()).collect();
    assert_eq!(receipts.len(), 5);
    let path = |n: usize, verb: &str| format!("/v1/leases/{}/{verb}", receipts[n].as_str().unwrap());
    server.call(&path(0, "complete")).ok();
    server.call(&path(1, "complete")).ok();
    server.call(&path(2, "fail")).ok();
    server.call(&path(3, "release")).ok();
    server.call(&path(4, "fail")).ok();
    server.call("/v1/queues/q/purge").ok();
    server.push_to("r", &json!({"payload": 1}));
    server.call("/v1/queues/r/take").ok();

    let reply = server.get("/metrics");
    assert!(reply.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = reply.body;
    for (line, count) in [
        (r#"duetime_jobs_pushed_total{queue="q"}"#, 6.0),
        (r#"duetime_attempts_started_total{queue="q"}"#, 5.0),
        (r#"duetime_jobs_succeeded_total{queue="q"}"#, 2.0),
        (r#"duetime_attempts_failed_total{queue="q"}"#, 2.0),
        (r#"duetime_jobs_failed_total{queue="q"}"#, 1.0),
        (r#"duetime_attempts_released_total{queue="q"}"#, 1.0),
        // One waited for its second attempt, one was given back, one was due in an hour.
        (r#"duetime_jobs_cancelled_total{queue="q"}"#, 3.0),
        (r#"duetime_attempts_crashed_total{queue="q"}"#, 0.0),
        (r#"duetime_jobs_succeeded_total{queue="r"}"#, 1.0),
        (r#"duetime_lateness_seconds_count{queue="q"}"#, 5.0),
        (r#"duetime_lateness_seconds_bucket{le="+Inf",queue="q"}"#, 5.0),
        (r#"duetime_attempt_seconds_count{queue="q"}"#, 4.0),
        (r#"duetime_jobs_running{queue="q"}"#, 0.0),
        (r#"duetime_jobs_dead{queue="q"}"#, 1.0),
        (r#"duetime_queue_pushed_total{queue="q"}"#, 6.0),
        (r#"duetime_queue_succeeded_total{queue="q"}"#, 2.0),
        (r#"duetime_queue_failed_total{queue="q"}"#, 1.0),
        (r#"duetime_queue_cancelled_total{queue="q"}"#, 3.0),
        (r#"duetime_queue_succeeded_total{queue="r"}"#, 1.0),
        ("duetime_ready", 1.0),
    ] {
        assert_eq!(value(&text, line), Some(count), "{line}: {text}");
    }
    assert!(value(&text, r#"duetime_store_call_seconds_count{call="record"}"#).unwrap() >= 7.0);
    assert!(text.ends_with("# EOF\n"));
}
