//! Every action on the other stores, and pages that stay open while a store fails over: `cargo xtask outside`.

use super::actions::do_each_action;
use super::driver::Browser;
use crate::http::pressure::Disk;
use crate::http::server::{Server, eventually};
use duetime_store::testing::{FakeClock, MariaDbServer, PostgresServer, RedisSentinel, RedisServer};
use serde_json::json;

/// The text that a page shows while its server gets no answer from the store.
const STALE: &str = "does not answer.";

fn beside(redis: &str, ledger: &str) -> Server {
    Server::with(&["--broker", redis, "--ledger", ledger])
}

#[test]
fn each_action_works_in_memory() {
    do_each_action(&Server::with(&["--store", "memory"]));
}

#[test]
fn each_action_works_on_redis() {
    let redis = RedisServer::start();
    do_each_action(&Server::with(&["--broker", &redis.url()]));
}

#[test]
fn each_action_works_on_redis_beside_postgres() {
    let (redis, ledger) = (RedisServer::start(), PostgresServer::with(true, &[]));
    do_each_action(&beside(&redis.url(), &ledger.url()));
}

#[test]
fn each_action_works_on_redis_beside_maria_db() {
    let (redis, ledger) = (RedisServer::start(), MariaDbServer::with(true, &[]));
    do_each_action(&beside(&redis.url(), &ledger.url()));
}

/// Fails a store under an open page, and checks the page before, during and after that.
fn fail_over(server: &Server, fail: impl FnOnce(&mut dyn FnMut())) {
    let browser = Browser::start("en");
    server.push(&json!({"payload": 1, "delay": "1h"}));
    browser.open(&server.url("/queues"));
    browser.run("window.loaded = true");
    eventually(|| browser.text().contains("\nq 1 0 – 0"));
    fail(&mut || {
        eventually(|| browser.text().contains(STALE));
        let text = browser.text();
        assert!(text.contains("\nq 1 0 – 0"), "the last state stays: {text}");
        // A page that is opened now shows the problem.
        let overview = server.get("/");
        assert!(overview.status == 503 && overview.body.contains("no jobs are handed out"), "{}", overview.body);
        let chinese = server.send("GET", "/", &[("accept-language", "zh")], "");
        assert!(chinese.body.contains("Broker 没有响应，因此不分发任务。"), "{}", chinese.body);
    });
    eventually(|| !browser.text().contains(STALE));
    // Whether a push is answered is for others to test.
    eventually(|| server.post("/v1/queues/q/jobs", &json!({"payload": 2, "delay": "1h"})).status == 201);
    eventually(|| browser.text().contains("\nq 2 0 – 0"));
    assert_eq!(browser.run("return window.loaded"), true, "the page was not reloaded");
}

#[test]
fn a_page_recovers_once_sentinels_have_a_new_master() {
    let (mut redis, ledger) = (RedisSentinel::start(), PostgresServer::with(true, &[]));
    let server = beside(&redis.url(), &ledger.url());
    fail_over(&server, |look| {
        // One sentinel alone elects nobody.
        redis.sentinels_mut()[1..].iter_mut().for_each(RedisServer::kill);
        let old = redis.kill_master();
        look();
        redis.sentinels_mut()[1..].iter_mut().for_each(RedisServer::start_again);
        redis.wait_for_failover(old);
    });
}

#[test]
fn a_page_recovers_once_redis_is_back_with_nothing() {
    let (mut redis, ledger) = (RedisServer::start(), PostgresServer::with(true, &[]));
    let server = beside(&redis.url(), &ledger.url());
    fail_over(&server, |look| {
        redis.kill();
        look();
        redis.start_again();
    });
}

#[test]
fn the_first_page_names_a_clock_that_is_wrong_and_a_redis_that_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeClock::new(folder.path());
    clock.set(600_000);
    let mut redis = RedisServer::start();
    let server = Server::with_clock(&clock, &["--broker", &redis.url()]);
    let browser = Browser::start("en");
    browser.open(&server.url("/"));
    eventually(|| browser.text().contains("The clocks of Redis and of this machine differ."));
    clock.set(0);
    eventually(|| browser.text().contains("Nothing needs attention."));
    redis.kill();
    eventually(|| {
        browser.open(&server.url("/"));
        browser.text().contains("The broker does not answer, so no jobs are handed out.")
    });
    let title = browser.run("return document.title");
    assert!(title.as_str().unwrap().starts_with('('), "{title}");
    redis.start_again();
    eventually(|| {
        browser.open(&server.url("/"));
        browser.text().contains("Nothing needs attention.")
    });
}

#[test]
fn the_first_page_names_a_store_that_is_full() {
    let disk = Disk::mount("16m");
    let server = Server::on(&disk.0.path().join("duetime.db"));
    let job = json!({"payload": "x".repeat(500_000)});
    let push = || server.post("/v1/queues/q/jobs", &job).status;
    let browser = Browser::start("en");
    eventually(|| push() == 507);
    eventually(|| {
        // It is full for ten seconds after a refusal.
        push();
        browser.open(&server.url("/"));
        browser.text().contains("The store is full, so changes are refused. Make room.")
    });
}
