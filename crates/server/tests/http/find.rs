//! Finding.

use super::server::Server;
use serde_json::{Value, json};

fn payloads(page: &Value) -> Vec<u64> {
    page["jobs"].as_array().unwrap().iter().map(|job| job["payload"].as_u64().unwrap()).collect()
}

fn id_of(job: &Value) -> u64 {
    job["id"].as_str().unwrap().parse().unwrap()
}

#[test]
fn each_filter_selects() {
    let server = Server::start();
    server.push_to("a", &json!({"payload": 1, "tags": ["t &=ü", "u"], "due_at": "2026-01-01T00:00:00Z"}));
    server.push_to("a", &json!({"payload": 2, "key": "k ", "kind": "mail", "delay": "1h"}));
    server.push_to("b", &json!({"payload": 3, "key": "k ", "tags": ["u"]}));
    for (query, found) in [
        ("queue=a", &[1, 2][..]),
        ("tag=u", &[1, 3]),
        ("tag=u&queue=b", &[3]),
        ("tag=t+%26%3D%C3%BC", &[1]),
        ("queue=a&key=k%20", &[2]),
        ("queue=a&key=k", &[]),
        ("queue=a&kind=mail", &[2]),
        ("queue=a&state=ready", &[1]),
        ("queue=a&state=ready,scheduled", &[1, 2]),
        ("queue=a&state=ready&state=scheduled", &[1, 2]),
        ("queue=a&state=running", &[]),
        ("queue=a&state=retrying", &[]),
        ("queue=a&due_to=2026-01-01T00:00:00Z", &[1]),
        ("queue=a&due_from=2026-01-01T00:00:00.001Z", &[2]),
    ] {
        let page = server.get(&format!("/v1/jobs?{query}")).ok();
        assert_eq!(payloads(&page), found, "{query}");
        assert_eq!(page["next_cursor"], Value::Null, "{query}");
    }
    assert_eq!(payloads(&server.get("/v1/jobs").ok()).len(), 3);
}

#[test]
fn a_failed_attempt_is_retrying() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1}));
    let receipt = server.receipt();
    server.post(&format!("/v1/leases/{receipt}/fail"), &json!({"message": "no", "retry_after": "1h"})).ok();
    server.push(&json!({"payload": 2}));
    let page = server.get("/v1/jobs?queue=q&state=retrying").ok();
    assert_eq!((page["jobs"].as_array().unwrap().len(), &page["jobs"][0]["id"]), (1, &json!(id)));
    assert_eq!(page["jobs"][0]["errors"][0]["message"], "no");
}

/// Of all queues or one, in pages of any size.
#[test]
fn what_has_ended_is_listed_with_the_newest_end_first() {
    let server = Server::start();
    let jobs: Vec<(u64, &str)> = (1..=12).zip(["a", "b", "c"].into_iter().cycle()).collect();
    let ids: Vec<String> = jobs.iter().map(|(n, queue)| server.push_to(queue, &json!({"payload": n}))).collect();
    server.push_to("a", &json!({"payload": 99}));
    let order: Vec<usize> = (0..12).map(|n| n * 5 % 12).collect();
    for &n in &order {
        server.call(&format!("/v1/jobs/{}/cancel", ids[n])).ok();
    }
    for (queue, limit) in [("", 1), ("", 5), ("", 100), ("&queue=b", 1), ("&queue=b", 3)] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("/v1/jobs?state=cancelled&limit={limit}{queue}{cursor}")).ok();
            found.extend(page["jobs"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let place = |job: &Value| (job["finished_at"].to_string(), id_of(job));
        assert!(found.is_sorted_by(|one, next| place(one) > place(next)), "{queue}, {limit}: {found:?}");
        assert_eq!(found.len(), if queue.is_empty() { 12 } else { 4 }, "{queue}, {limit}");
    }
    // A cursor is of its list.
    let next = server.get("/v1/jobs?state=cancelled&limit=1").ok()["next_cursor"].as_str().unwrap().to_owned();
    for other in [
        "state=ready",
        "state=cancelled,failed",
        "state=cancelled&queue=a",
        "state=cancelled&kind=k",
        "tag=t",
        "queue=a",
    ] {
        let problem = server.get(&format!("/v1/jobs?{other}&cursor={next}")).problem(400, "invalid");
        assert!(problem["got"].as_str().unwrap().ends_with("of another list"), "{other}: {problem}");
    }
}

#[test]
fn pages_follow_each_other_in_due_order() {
    let server = Server::start();
    let jobs: Vec<_> = (0..25_u64).map(|i| json!({"payload": i, "delay_ms": 3_600_000 - 1_000 * i})).collect();
    server.post("/v1/queues/q/jobs", &json!(jobs)).ok();
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/jobs?queue=q&state=scheduled&limit=10{cursor}")).ok();
        assert!(page["jobs"].as_array().unwrap().len() <= 10);
        found.extend(payloads(&page));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, (0..25).rev().collect::<Vec<_>>());
}

#[test]
fn a_wrong_question_is_refused() {
    let server = Server::start();
    for query in [
        "stat=ready",
        "state=done",
        "state=retrying,failed",
        "queue=a&queue=b",
        "limit=0",
        "limit=1001",
        "limit=x",
        "due_to=1795168800250",
        "queue=a&cursor=nonsense",
        "key=",
        "queue=-a",
    ] {
        server.get(&format!("/v1/jobs?{query}")).problem(400, "invalid");
    }
}
