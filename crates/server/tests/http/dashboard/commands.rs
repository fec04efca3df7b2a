//! Commands, times and failures on pages, and the confirmation before an action.

use super::Browser;
use crate::common::binary;
use crate::http::client::request;
use crate::http::server::{Server, eventually};
use crate::http::tokens::Tokens;
use serde_json::json;
use std::process::Command;

/// A page as a browser asks for it, from this host.
fn page_from(server: &Server, host: &str, path: &str) -> String {
    let asked = String::from_utf8(request("GET", path, &[], "")).unwrap();
    let mut connection = server.connect();
    connection.send(asked.replace("host: localhost", &format!("host: {host}")));
    connection.reply().body
}

/// The commands on a page.
fn commands(page: &str) -> Vec<String> {
    let parts = page.split("<pre>duetime ").skip(1).map(|part| part.split("</pre>").next().unwrap());
    parts.map(|command| command.replace("&quot;", "\"").replace("&amp;", "&")).collect()
}

#[test]
fn commands_are_for_the_server_of_the_page() {
    let server = Server::start();
    let host = server.address.to_string();
    let to = format!(" --server http://{host}");
    let first = commands(&page_from(&server, &host, "/"));
    assert_eq!(first[0], format!("push --queue orders '{{\"order\": 17}}' --delay 30s{to}"));
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    server.put("/v1/schedules/s", &json!({"every": "1h", "job": {"queue": "q", "payload": 1}})).ok();
    for (path, count) in [("/queues", 1), ("/queues/q", 5), (&*format!("/jobs/{id}"), 4), ("/schedules/s", 3)] {
        let shown = commands(&page_from(&server, &host, path));
        assert_eq!(shown.len(), count, "{path}: {shown:?}");
        assert!(shown.iter().all(|command| command.ends_with(&to)), "{path}: {shown:?}");
        let usual = commands(&page_from(&server, "127.0.0.1:7300", path));
        assert!(usual.len() == count && !usual.iter().any(|command| command.contains("--server")), "{path}: {usual:?}");
    }
    let shown = commands(&page_from(&server, &host, &format!("/jobs/{id}")));
    let cancel = shown.iter().find(|command| command.starts_with("cancel")).unwrap();
    let done = Command::new(binary()).env_clear().args(cancel.split(' ')).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(server.job(&id)["state"], "cancelled");
}

#[test]
fn a_job_that_has_succeeded_runs_again_only_after_a_question() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let id = server.push(&json!({"payload": 1}));
    server.call(&format!("/v1/leases/{}/complete", server.receipt())).ok();
    eventually(|| server.job(&id)["state"] == "succeeded");
    let page = browser.get(&format!("/jobs/{id}")).body;
    assert!(page.contains("<summary>Run again…</summary>") && page.contains("Run it once more?"), "{page}");
    let job = format!("{id}.{}", server.job(&id)["version"]);
    for action in ["retry", "delete"] {
        let asked = browser.act("/jobs?queue=q", &[("do", action), ("job", &job)]);
        assert!(asked.status == 200 && asked.body.contains("this is for 1 jobs"), "{action}: {}", asked.body);
    }
    assert_eq!(server.job(&id)["state"], "succeeded");
    let done = browser.act("/jobs?queue=q", &[("do", "retry"), ("job", &job), ("confirmed", "yes")]);
    assert_eq!(done.header("location"), Some("/jobs?queue=q&done=retried.1"), "{}", done.body);
}

#[test]
fn the_last_failure_is_shown_first() {
    let server = Server::start();
    for message in ["old", "old", "new"] {
        server.push(&json!({"payload": 1}));
        let failed = json!({"message": message, "final": true});
        server.post(&format!("/v1/leases/{}/fail", server.receipt()), &failed).ok();
    }
    eventually(|| {
        let page = server.get("/failed").body;
        let groups = page.split("<tbody>").nth(1).unwrap_or_default();
        let [old, new] = ["<bdi>old</bdi>", "<bdi>new</bdi>"].map(|message| groups.find(message));
        matches!((old, new), (Some(old), Some(new)) if new < old)
    });
}

#[test]
fn a_schedule_is_listed_with_the_time_of_its_zone() {
    let server = Server::start();
    let body = json!({"cron": "0 3 * * *", "time_zone": "Asia/Tokyo", "job": {"queue": "q", "payload": 1}});
    server.put("/v1/schedules/s", &body).ok();
    for path in ["/schedules", "/schedules/s"] {
        let page = server.get(path).body;
        assert!(page.contains(" 03:00:00 +09:00 Asia/Tokyo</bdi>"), "{path}: {page}");
    }
}

#[test]
fn each_page_names_the_version_and_links_the_api() {
    let server = Server::start();
    for path in ["/", "/jobs"] {
        let page = server.get(path).body;
        let footer = page.split("<footer>").nth(1).unwrap();
        assert!(footer.contains("href=\"/docs\"") && footer.contains(env!("CARGO_PKG_VERSION")), "{footer}");
    }
}

#[test]
fn the_sign_in_page_says_how_to_get_a_token() {
    let tokens = Tokens::new();
    tokens.create("ops", "admin");
    let page = tokens.server(&[]).get("/sign-in").body;
    assert!(page.contains("<pre>duetime token create NAME --allow read --tokens FILE</pre>"), "{page}");
    assert!(page.contains("--allow read,push,change") && page.contains("admin"), "{page}");
}

/// The original is there as well.
#[test]
fn a_long_line_of_json_is_shown_with_a_line_for_each_value() {
    let server = Server::start();
    let payload = json!({"address": {"street": "x".repeat(60), "number": 17}, "items": [1, 2]});
    let page = server.get(&format!("/jobs/{}", server.push(&json!({"payload": payload, "delay": "1h"})))).body;
    assert!(page.contains("    &quot;number&quot;: 17"), "{page}");
    assert!(page.contains(&format!("<pre>{}</pre>", payload.to_string().replace('"', "&quot;"))), "{page}");
}
