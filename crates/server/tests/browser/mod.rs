//! The dashboard in a real Chromium.

mod actions;
mod driver;
mod faults;
mod stores;
mod whole;

use crate::http::server::{Server, eventually};
use crate::http::tokens::{Tokens, send};
use driver::Browser;
use serde_json::json;

impl Server {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Nothing on the console, and nothing from elsewhere.
#[track_caller]
fn check_quiet(browser: &Browser, server: &Server) {
    assert_eq!(browser.console(), [""; 0], "{}", browser.url());
    let loaded = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)");
    let origin = server.url("/");
    for name in loaded.as_array().unwrap() {
        assert!(name.as_str().unwrap().starts_with(&origin), "{name}");
    }
}

#[test]
fn a_job_is_pushed_changed_and_cancelled_on_pages() {
    let server = Server::start();
    let browser = Browser::start("en");
    server.call("/v1/queues/orders/pause").ok();
    browser.open(&server.url("/queues/orders"));
    browser.click("details:has([value=push]) > summary");
    browser.fill("[name=kind]", "order.cancel");
    browser.fill("[name=payload]", r#"{"order": 12345678901234567890}"#);
    browser.fill("[name=delay]", "30m");
    browser.click("form:has([value=push]) button");
    eventually(|| browser.text().contains("Pushed: 1"));
    let text = browser.text();
    assert!(text.contains("12345678901234567890") && text.contains("order.cancel"), "{text}");
    let id = browser.url().split("/jobs/").nth(1).unwrap().split('?').next().unwrap().to_owned();
    assert_eq!(server.job(&id)["state"], "scheduled");
    browser.click("form:has([value=cancel]) button");
    eventually(|| browser.text().contains("Cancelled: 1"));
    assert_eq!(server.job(&id)["state"], "cancelled");
    browser.click("form:has([value=retry]) button");
    eventually(|| browser.text().contains("Retried: 1"));
    assert_eq!(server.job(&id)["state"], "ready");
    check_quiet(&browser, &server);
}

/// On a busy machine it appears over a button that is about to be clicked.
#[test]
fn a_notice_that_the_page_is_old_covers_no_button() {
    let server = Server::start();
    let browser = Browser::start("en");
    server.call("/v1/queues/orders/pause").ok();
    browser.open(&server.url("/queues/orders"));
    browser.click("details:has([value=push]) > summary");
    browser.fill("[name=kind]", "order.cancel");
    browser.fill("[name=payload]", "1");
    let send = "form:has([value=push]) [type=submit]";
    browser.run(&format!(
        "const stale = document.getElementById('stale'); stale.hidden = false; \
         const send = document.querySelector('{send}').getBoundingClientRect(); \
         stale.style.bottom = `${{innerHeight - send.bottom}}px`; stale.style.height = `${{send.height}}px`;"
    ));
    browser.click(send);
    eventually(|| browser.text().contains("Pushed: 1"));
}

#[test]
fn each_action_does_what_it_says() {
    actions::do_each_action(&Server::start());
}

#[test]
fn a_page_follows_what_happens_and_a_restart_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("duetime.db");
    let mut server = Server::on(&store);
    let (address, browser) = (server.address, Browser::start("en"));
    browser.open(&server.url("/queues"));
    browser.run("window.loaded = true");
    server.push(&json!({"payload": 1, "delay": "1h"}));
    eventually(|| browser.text().contains("\nq 1 0 – 0"));
    server.signal(nix::sys::signal::Signal::SIGKILL);
    server.wait();
    eventually(|| browser.text().contains("does not answer."));
    let server = Server::with(&["--store", store.to_str().unwrap(), "--listen", &address.to_string()]);
    eventually(|| !browser.text().contains("does not answer."));
    server.push(&json!({"payload": 2, "delay": "1h"}));
    eventually(|| browser.text().contains("\nq 2 0 – 0"));
    assert_eq!(browser.run("return window.loaded"), true, "the page was not reloaded");
}

#[test]
fn events_appear_as_they_happen() {
    let server = Server::start();
    let browser = Browser::start("en");
    browser.open(&server.url("/events?queue=q"));
    // From when the stream is open.
    eventually(|| {
        server.push_to("other", &json!({"payload": 1, "delay": "1h"}));
        server.push(&json!({"payload": 1, "delay": "1h", "kind": "<b>kind"}));
        browser.text().contains("<b>kind")
    });
    let text = browser.text();
    assert!(text.contains("pushed") && !text.contains("other"), "{text}");
    check_quiet(&browser, &server);
    // Who comes later sees them, too.
    browser.open(&server.url("/events?queue=q"));
    eventually(|| browser.text().contains("<b>kind"));
}

#[test]
fn the_next_runs_are_shown_as_a_schedule_is_typed() {
    let server = Server::start();
    let browser = Browser::start("en");
    browser.open(&server.url("/schedules"));
    browser.click("details:has([value=edit]) > summary");
    browser.fill("form:has([value=edit]) [name=cron]", "0 9 1 * mon");
    eventually(|| browser.text().contains("Either its day or its weekday is enough"));
    assert_eq!(browser.run("return document.querySelectorAll('#preview li').length"), 5);
    browser.fill("form:has([value=edit]) [name=cron]", "0 9 * *");
    eventually(|| browser.text().contains("`cron` must be"));
    assert_eq!(server.get("/v1/schedules").ok()["schedules"], json!([]), "nothing was saved");
}

#[test]
fn chosen_jobs_are_counted_where_their_actions_stay_in_sight() {
    let server = Server::start();
    (0..40).for_each(|n| drop(server.push(&json!({"payload": n, "delay": "1h"}))));
    let browser = Browser::start("en");
    browser.open(&server.url("/jobs?queue=q"));
    browser.click("tbody tr:nth-child(1) [name=job]");
    browser.click("tbody tr:nth-child(2) [name=job]");
    assert!(browser.text().contains("With the selected jobs (2)"), "{}", browser.text());
    let is_in_sight = "const bar = document.querySelector('.bar.selected').getBoundingClientRect(); \
                       scrollTo(0, 0); return bar.top >= 0 && bar.bottom <= innerHeight";
    assert_eq!(browser.run(is_in_sight), true);
    browser.click("[data-all]");
    assert!(browser.text().contains("With the selected jobs (40)"), "{}", browser.text());
}

#[test]
fn without_scripts_everything_works() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    let browser = Browser::start("en");
    browser.set_scripts(false);
    browser.open(&server.url("/"));
    browser.click("nav a[href='/jobs']");
    browser.click(&format!("a[href='/jobs/{id}']"));
    browser.click("details:has([value=reschedule]) > summary");
    browser.fill("details:has([value=reschedule]) [name=delay]", "2h");
    browser.click("form:has([value=reschedule]) button");
    eventually(|| browser.text().contains("Rescheduled: 1"));
    browser.click("form:has([value=run]) button");
    eventually(|| browser.text().contains("Due now: 1"));
    assert_eq!(server.job(&id)["state"], "ready");
    browser.open(&server.url("/"));
    browser.click("a[href*='due=day']");
    eventually(|| browser.url().ends_with("/?due=day#due"));
    browser.open(&server.url("/schedules"));
    browser.click("details:has([value=edit]) > summary");
    browser.fill("form:has([value=edit]) [name=queue]", "reports");
    browser.click("form:has([value=edit]) [name=preview]");
    eventually(|| browser.text().contains("Next runs"));
}

#[test]
fn of_two_tabs_the_second_is_told_that_the_job_has_changed() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    let browser = Browser::start("en");
    // A page that follows would know.
    browser.open(&server.url("/"));
    browser.run("localStorage.setItem('duetime-live', 'off')");
    let tabs = browser.new_tab();
    for tab in &tabs {
        browser.go_to(tab);
        browser.open(&server.url(&format!("/jobs/{id}")));
    }
    browser.click("form:has([value=run]) button");
    eventually(|| browser.text().contains("Due now: 1"));
    let run = server.job(&id);
    browser.go_to(&tabs[0]);
    browser.click("form:has([value=cancel]) button");
    eventually(|| browser.text().contains("Someone else changed it"));
    assert_eq!(server.job(&id), run);
}

#[test]
fn a_session_ends_with_its_token() {
    let tokens = Tokens::new();
    let (token, admin) = (tokens.create("eyes", "read"), tokens.create("ops", "admin"));
    let server = tokens.server(&[]);
    let browser = Browser::start("en");
    browser.open(&server.url("/queues"));
    assert!(browser.url().ends_with("/sign-in?to=%2Fqueues"), "{}", browser.url());
    browser.fill("[name=token]", &token);
    browser.click("main button");
    eventually(|| browser.url().ends_with("/queues"));
    assert_eq!(browser.run("return document.cookie"), "", "no script reads the cookie");
    tokens.run(&["revoke", "eyes"]);
    // The open page goes to the sign-in with the next change.
    eventually(|| {
        send(&server, &admin, "POST", "/v1/queues/q/jobs", r#"{"payload":1,"delay":"1h"}"#).expect(201);
        browser.url().contains("/sign-in")
    });
}
