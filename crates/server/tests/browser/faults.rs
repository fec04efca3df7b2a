//! Each fault, made for real: the first page names it, and its button mends it.

use super::check_quiet;
use super::driver::Browser;
use crate::http::server::{Server, eventually, store_in};
use duetime_store::testing::until;
use serde_json::json;
use std::net::TcpListener;
use std::time::Duration;

/// The receipts of due jobs of a queue, for a worker that asks now and keeps them for longer than the test takes.
fn lease(server: &Server, queue: &str, limit: usize) -> Vec<String> {
    let reserved = server.post(&format!("/v1/queues/{queue}/reserve"), &json!({"limit": limit, "lease": "10m"})).ok();
    let receipt = |lease: &serde_json::Value| lease["receipt"].as_str().unwrap().to_owned();
    reserved["leases"].as_array().unwrap().iter().map(receipt).collect()
}

fn fail(server: &Server, receipt: &str, message: &str) {
    server.post(&format!("/v1/leases/{receipt}/fail"), &json!({"message": message, "final": true})).ok();
}

/// Waits until the page shows this.
fn eventually_shown(browser: &Browser, sentence: &str) {
    until(sentence, Duration::from_secs(60), || browser.text().contains(sentence).then_some(()));
}

#[test]
fn the_first_page_names_each_fault_and_mends_some_with_a_click() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with(&["--store", store_in(&folder).to_str().unwrap(), "--webhook-allow-private"]);
    let browser = Browser::start("en");
    browser.open(&server.url("/"));
    eventually_shown(&browser, "Nothing needs attention");
    let title = || browser.run("return document.title").as_str().unwrap().to_owned();
    assert_eq!(title(), "Overview · Duetime");

    // Jobs for which no worker asks, and jobs whose worker is slow.
    server.push_to("lonely", &json!({"payload": 1}));
    (0..3).for_each(|n| drop(server.push_to("slow", &json!({ "payload": n }))));
    lease(&server, "slow", 1);
    // A receiver that is down, and one that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = json!({"target": {"url": format!("http://{nobody}/hook")}});
    server.put("/v1/queues/down", &target).ok();
    let url = format!("http://{}/hook", silent.local_addr().unwrap());
    server.put("/v1/queues/silent", &json!({"target": {"url": url, "timeout": "5m"}, "max_running": 1})).ok();
    for queue in ["down", "silent"] {
        (0..3).for_each(|n| drop(server.push_to(queue, &json!({ "payload": n }))));
    }
    // Dead letters, a queue that was paused and forgotten, and a schedule whose job fails.
    let dead = server.push_to("mail", &json!({"payload": 1}));
    fail(&server, &lease(&server, "mail", 1)[0], "this address does not exist");
    server.call("/v1/queues/held/pause").ok();
    server.put("/v1/schedules/nightly", &json!({"every": "1h", "job": {"queue": "reports", "payload": 1}})).ok();
    server.call("/v1/schedules/nightly/run").expect(201);
    let due = json!({"every": "1s", "job": {"queue": "reports", "payload": 1, "kind": "nightly"}});
    server.put("/v1/schedules/nightly", &due).ok();
    // Also of the run that is pushed a little ahead of its time.
    let fail_runs = || lease(&server, "reports", 10).iter().map(|receipt| fail(&server, receipt, "no disk")).count();
    eventually(|| fail_runs() > 0);
    server.call("/v1/schedules/nightly/pause").ok();
    eventually(|| {
        fail_runs();
        server.get("/v1/queues/reports").ok()["pending"] == 0
    });

    for sentence in [
        "lonely: Waiting jobs: 1. No worker asks this server. The oldest job has waited for ",
        "slow: Waiting jobs: 2. The oldest has waited for ",
        "Its workers do not keep up.",
        &format!("down: http://{nobody}/hook has taken no job for "),
        "silent: Waiting jobs: 2. The oldest has waited for ",
        &format!("{url} does not keep up."),
        "mail: 1 failed within the last hour: this address does not exist",
        "held: The queue is paused",
        "without an end.",
        "nightly: The last run failed: ",
    ] {
        eventually_shown(&browser, sentence);
    }
    // The page shows only what is there, and each of these is.
    assert!(title().starts_with('(') && title().ends_with(" Overview · Duetime"), "{}", title());
    let status = server.get("/v1/attention").ok();
    assert!(status["items"].as_array().unwrap().len() >= 8, "{status}");
    let metrics = server.get("/metrics").body;
    for kind in ["no_worker", "target_down", "paused", "schedule_failed"] {
        assert!(metrics.contains(&format!("duetime_attention{{kind=\"{kind}\"}} 1.0")), "{kind}: {metrics}");
    }
    check_quiet(&browser, &server);

    browser.click(".attention form[action='/queues/held'] button");
    eventually(|| server.get("/v1/queues/held").ok()["paused"] == false);
    browser.open(&server.url("/"));
    browser.click(".attention form:has([value=mail]) button");
    eventually(|| browser.text().contains("Retried: 1"));
    assert_eq!(server.job(&dead)["state"], "ready");
    browser.open(&server.url("/"));
    browser.click(".attention form:has([value=retry_failed]) button");
    eventually(|| browser.url().contains("/jobs/") && browser.text().contains("Retried: 1"));
    let run = browser.url().split("/jobs/").nth(1).unwrap().split('?').next().unwrap().to_owned();
    let run = server.job(&run);
    assert_eq!((&run["queue"], &run["state"]), (&json!("reports"), &json!("ready")));
    browser.open(&server.url("/"));
    browser.click(".attention form[action='/queues/down'] [value=test]");
    eventually(|| browser.url().contains("/jobs/") && browser.text().contains("Pushed: 1"));
    let test = server.get("/v1/jobs?queue=down&kind=test").ok();
    assert_eq!(test["jobs"].as_array().unwrap().len(), 1, "{test}");
    // How to start more workers.
    browser.open(&server.url("/"));
    for queue in ["lonely", "slow"] {
        let item = format!(".attention li:has(a[href='/queues/{queue}'])");
        browser.click(&format!("{item} summary"));
        assert!(browser.text().contains(&format!("work {queue} -- sh -c cat")), "{}", browser.text());
    }
}
