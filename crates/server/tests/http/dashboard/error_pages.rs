//! Errors that a browser gets, and pages whose names browsers would resolve.

use super::Browser;
use crate::http::client::Reply;
use crate::http::server::Server;
use serde_json::json;

/// A browser gets errors of pages as pages; a program gets them as before.
#[test]
fn errors_are_pages_for_browsers() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let accept = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let refused = [
        ("GET", "/queues/%FF", 400, "UTF-8"),
        ("GET", "/jobs/abc", 400, "a job id"),
        ("GET", "/nothing", 404, "no path /nothing"),
        ("GET", "/nothing/%3Cb%3E", 404, "no path"),
        ("PUT", "/queues", 405, "does not accept PUT"),
        ("POST", "/queues", 403, "expected a form"),
    ];
    let is_page = |reply: &Reply, status, says: &str| {
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (status, Some("text/html; charset=utf-8")),
            "{reply:?}"
        );
        assert!(reply.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"), "{reply:?}");
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert!(reply.body.contains(says) && !reply.body.contains("<b>"), "{reply:?}");
    };
    for (method, path, status, says) in refused {
        is_page(&server.send(method, path, &[accept], ""), status, says);
    }
    let nothing = server.send("GET", "/nothing", &[accept], "").body;
    assert!(nothing.contains("see </bdi><a href=\"/docs\">/docs</a>"), "{nothing}");
    assert!(server.send("PUT", "/queues", &[accept], "").header("allow").unwrap().contains("POST"));
    let headers = [accept, ("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    let headers = [&headers[..], &[("cookie", &browser.cookie)]].concat();
    is_page(&server.send("POST", "/queues", &headers, &"a".repeat(5 << 20)), 413, "at most 4194304 bytes");
    // Requests that are refused before routing.
    is_page(&server.send("GET", "/queues", &[accept, ("origin", "http://evil.example")], ""), 403, "evil.example");
    // The API and programs.
    server.send("GET", "/v1/nothing", &[accept], "").problem(404, "no_route");
    server.send("PUT", "/queues", &[("accept", "*/*")], "").problem(405, "method_not_allowed");
    server.get("/queues/%FF").problem(400, "invalid");
}

/// Browsers resolve them in paths.
#[test]
fn queues_with_dots_for_names_have_pages() {
    let server = Server::start();
    let browser = Browser::new(&server);
    for name in [".", "..", "..."] {
        server.push_to(name, &json!({"payload": 1, "delay": "1h"}));
    }
    let page = browser.get("/queues").body;
    for (name, path) in [(".", "/queues/-?name=."), ("..", "/queues/-?name=.."), ("...", "/queues/...")] {
        assert!(page.contains(&format!("href=\"{path}\"")), "{page}");
        assert!(browser.get(path).body.contains(&format!("<h1><bdi>{name}</bdi></h1>")), "{path}");
        let done = browser.act(path, &[("do", "pause"), ("for", "2h")]);
        let to = done.header("location").unwrap();
        assert!(done.status == 303 && to.starts_with(path), "{done:?}");
        assert!(browser.get(to).body.contains("This queue is paused"), "{to}");
    }
}
