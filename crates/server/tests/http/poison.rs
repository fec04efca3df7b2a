//! Payloads that some JSON decoders refuse: no other job is lost with them.

use super::client::request;
use super::server::Server;
use serde_json::{Value, json};

/// JSON that this crate's own decoder refuses as well.
fn poisons() -> [String; 4] {
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let just_too_deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    [deep, just_too_deep, r#""\ud800""#.to_owned(), r#"{"amount": 1e400}"#.to_owned()]
}

/// Encodes the bytes in base64.
fn base64(text: &str) -> Value {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child =
        Command::new("base64").arg("--wrap=0").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().into()
}

/// Each body in which jobs are shown reads, and shows each payload as it should.
#[track_caller]
fn check(shown: &[Value]) {
    let poisons = poisons();
    assert_eq!(shown.len(), poisons.len() + 1);
    for (job, payload) in shown.iter().zip(&poisons) {
        // Without showing them.
        assert!(job["payload_base64"] == base64(payload) && job.get("payload").is_none(), "{} bytes", payload.len());
    }
    assert_eq!(shown[poisons.len()]["payload"], json!({"order": 7}));
}

#[test]
fn a_poisoned_payload_fails_no_neighbour() {
    let server = Server::start();
    let mut ids = Vec::new();
    for payload in poisons().iter().map(String::as_str).chain([r#"{"order": 7}"#]) {
        let body = format!("{{\"payload\": {payload}}}");
        let pushed = server.send("POST", "/v1/queues/q/jobs", &[], &body).expect(201);
        ids.push(pushed["id"].as_str().unwrap().to_owned());
    }
    check(server.get("/v1/jobs?queue=q").ok()["jobs"].as_array().unwrap());
    check(&ids.iter().map(|id| server.job(id)).collect::<Vec<_>>());
    let leases = server.reserve(10);
    check(&leases);

    // Results as well.
    for (lease, result) in leases.iter().zip(poisons()) {
        let path = format!("/v1/leases/{}/complete", lease["receipt"].as_str().unwrap());
        server.send("POST", &path, &[], &format!("{{\"result\": {result}}}")).ok();
        let job = server.job(lease["id"].as_str().unwrap());
        assert!(job["result_base64"] == base64(&result) && job.get("result").is_none(), "{} bytes", result.len());
    }
    // The live one first, then what ended last.
    let mut listed = server.get("/v1/jobs?queue=q").ok()["jobs"].as_array().unwrap().clone();
    listed.reverse();
    check(&listed);
}

#[test]
fn what_is_taken_or_scheduled_is_shown_so_too() {
    let server = Server::start();
    for (number, payload) in poisons().iter().map(String::as_str).chain([r#"{"order": 7}"#]).enumerate() {
        server.send("POST", "/v1/queues/q/jobs", &[], &format!("{{\"payload\": {payload}}}")).expect(201);
        let schedule =
            format!("{{\"cron\": \"0 3 1 1 *\", \"job\": {{\"queue\": \"other\", \"payload\": {payload}}}}}");
        let mut connection = server.connect();
        connection.send(request("PUT", &format!("/v1/schedules/s{number}"), &[], &schedule));
        assert!(connection.reply().status < 300);
    }
    check(server.post("/v1/queues/q/take", &json!({"limit": 10})).ok()["jobs"].as_array().unwrap());
    let schedules = server.get("/v1/schedules").ok();
    let jobs = schedules["schedules"].as_array().unwrap().iter().map(|schedule| schedule["schedule"]["job"].clone());
    check(&jobs.collect::<Vec<_>>());
}
