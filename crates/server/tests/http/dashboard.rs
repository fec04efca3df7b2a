//! The dashboard's pages, as a browser asks for them.

mod bulk;
mod commands;
mod error_pages;
mod forms;
mod settings;

use super::client::Reply;
use super::server::{Server, eventually};
use super::tokens::{Tokens, send};
use serde_json::json;

/// A browser without scripts: keeps cookies, and sends the forms of pages.
struct Browser<'a> {
    server: &'a Server,
    cookie: String,
}

impl<'a> Browser<'a> {
    fn new(server: &'a Server) -> Self {
        let mut browser = Self { server, cookie: String::new() };
        for path in ["/sign-in", "/queues"] {
            browser.keep(&browser.server.get(path));
        }
        browser
    }

    fn signed_in(server: &'a Server, token: &str) -> Self {
        let mut browser = Self::new(server);
        let form = browser.form("/sign-in");
        let reply = browser.send("/sign-in", &[("form", &form), ("token", token), ("to", "/queues")]);
        assert_eq!((reply.status, reply.header("location")), (303, Some("/queues")), "{reply:?}");
        browser.keep(&reply);
        browser
    }

    fn keep(&mut self, reply: &Reply) {
        if let Some(cookie) = reply.header("set-cookie") {
            cookie.split(';').next().unwrap().clone_into(&mut self.cookie);
        }
    }

    fn get(&self, path: &str) -> Reply {
        self.server.send("GET", path, &[("cookie", &self.cookie)], "")
    }

    /// The token that ties a form of this page to the session.
    fn form(&self, path: &str) -> String {
        let page = self.get(path).body;
        let (_, rest) = page.split_once("name=\"form\" value=\"").unwrap_or_else(|| panic!("no form: {page}"));
        rest.split('"').next().unwrap().to_owned()
    }

    fn send(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.send_from("same-origin", path, fields)
    }

    fn send_from(&self, site: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let headers = [
            ("cookie", self.cookie.as_str()),
            ("content-type", "application/x-www-form-urlencoded"),
            ("sec-fetch-site", site),
        ];
        self.server.send("POST", path, &headers, &body)
    }

    /// Does something on a page, as its form does.
    fn act(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let form = self.form(path);
        self.send(path, &[&[("form", form.as_str())], fields].concat())
    }
}

const PAGES: [&str; 11] = [
    "/",
    "/queues",
    "/queues/q",
    "/jobs",
    "/jobs?queue=q&state=scheduled",
    "/failed",
    "/schedules",
    "/workers",
    "/locks",
    "/events",
    "/events?queue=q",
];

#[test]
fn every_page_is_html_under_a_strict_policy() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    let job = format!("/jobs/{id}");
    for path in PAGES.into_iter().chain([job.as_str()]) {
        let reply = server.get(path);
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/html; charset=utf-8")), "{path}");
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert!(!reply.body.contains(" style=") && !reply.body.contains(" onclick="), "{path}");
        let title = reply.body.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
        assert!(title.ends_with(" · Duetime") && !title.contains('<'), "{title}");
        // One script, from a path with a hash, which may be kept.
        let source = reply.body.split("<script type=\"module\" src=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(reply.body.matches("<script").count(), 1, "{path}");
        let script = server.get(source);
        assert_eq!((script.status, script.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
        assert!(script.header("cache-control").unwrap().contains("immutable"));
    }
    assert_eq!(server.get("/assets/nothing.js").status, 404);
    assert_eq!(server.get("/jobs/7").status, 404);
    server.get("/nothing").problem(404, "no_route");
}

#[test]
fn text_from_strangers_does_nothing_but_show() {
    let server = Server::start();
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\u{202e}\u{1b}";
    let tag = "<i>\u{202e}tag";
    let job =
        json!({"payload": {"text": evil}, "kind": "<b>kind</b>", "key": "'\"><svg onload=alert(1)>", "tags": [tag]});
    let id = server.push_to("a%3Bb$", &job);
    let leased = server.post("/v1/queues/a%3Bb$/reserve", &json!({})).ok();
    let receipt = leased["leases"][0]["receipt"].as_str().unwrap();
    let failed = json!({"message": evil, "final": true});
    server.post(&format!("/v1/leases/{receipt}/fail"), &failed).ok();
    server.put("/v1/locks/%3Cs%3E", &json!({"owner": evil, "ttl": "1h"})).ok();
    let schedule = json!({"every": "1h", "job": {"queue": "a;b$", "kind": "<b>", "payload": evil}});
    server.put("/v1/schedules/a%2Fb", &schedule).ok();
    let job = format!("/jobs/{id}");
    let shown = [
        "/",
        "/queues",
        "/queues/a%3Bb$",
        "/jobs",
        &job,
        "/schedules",
        "/schedules/a%2Fb",
        "/locks",
        "/jobs?tag=%3Ci%3E&kind=%22%3E%3Cb%3E",
    ];
    for path in shown {
        let page = server.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        // Hidden fields hold exact names, and nobody sees them.
        let parts = page.body.split("<input type=\"hidden\"").enumerate();
        let page: String = parts.map(|(n, part)| if n == 0 { part } else { part.split_once('>').unwrap().1 }).collect();
        for hostile in ["<script>alert", "<img", "<svg onload", "<b>", "<i>", "<s>", "\u{202e}", "\u{1b}"] {
            assert!(!page.contains(hostile), "{path}: {hostile:?}");
        }
    }
    let page = server.get(&job).body;
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;") && page.contains("\\u{202e}\\u{1b}"), "{page}");
}

#[test]
fn a_token_signs_in_and_nothing_else_does() {
    let tokens = Tokens::new();
    let token = tokens.create("ops", "admin");
    let cannot_read = tokens.create("shop", "push");
    let server = tokens.server(&[]);
    let reply = server.get("/jobs?queue=a");
    assert_eq!((reply.status, reply.header("location")), (303, Some("/sign-in?to=%2Fjobs%3Fqueue%3Da")));
    let browser = Browser::new(&server);
    for wrong in ["", "x", &cannot_read, &token[..token.len() - 1]] {
        let reply = browser.act("/sign-in", &[("token", wrong)]);
        assert_eq!((reply.status, reply.header("set-cookie")), (401, None), "{wrong}");
        assert!(wrong.is_empty() || wrong == "x" || !reply.body.contains(wrong), "{}", reply.body);
    }
    for (to, went) in [
        ("//evil.example/", "/"),
        ("https://evil.example", "/"),
        ("/\\evil", "/"),
        ("/\t/evil.example", "/"),
        ("/jobs?a=b", "/jobs?a=b"),
    ] {
        let reply = browser.act("/sign-in", &[("token", &token), ("to", to)]);
        assert_eq!((reply.status, reply.header("location")), (303, Some(went)));
        let cookie = reply.header("set-cookie").unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict") && cookie.contains("Path=/"), "{cookie}");
    }
    let browser = Browser::signed_in(&server, &token);
    assert_eq!(browser.get("/queues").status, 200);
    // The API takes tokens in a header only, so that no page can make a browser call it.
    server.send("GET", "/v1/queues", &[("cookie", &browser.cookie)], "").problem(401, "unauthorized");
    let form = browser.form("/queues");
    let out = browser.send("/sign-out", &[("form", &form)]);
    assert_eq!((out.status, out.header("location")), (303, Some("/sign-in")));
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    tokens.run(&["revoke", "ops"]);
    eventually(|| browser.get("/queues").status == 303);
}

#[test]
fn a_form_of_another_site_or_session_does_nothing() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    let (path, browser, other) = (format!("/jobs/{id}"), Browser::new(&server), Browser::new(&server));
    let (form, others) = (browser.form(&path), other.form(&path));
    let version = server.job(&id)["version"].to_string();
    let fields = |form| [("form", form), ("do", "cancel"), ("version", version.as_str())];
    for site in ["cross-site", "same-site", "none", ""] {
        assert_eq!(browser.send_from(site, &path, &fields(&form)).status, 403, "{site}");
    }
    for wrong in ["", "00", &others] {
        assert_eq!(browser.send(&path, &fields(wrong)).status, 403, "{wrong}");
    }
    let body = "do=cancel";
    let plain = [("cookie", browser.cookie.as_str()), ("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(server.send("POST", &path, &plain, body).status, 403, "neither an origin nor a site");
    let foreign = [&plain[..], &[("origin", "http://evil.example")]].concat();
    assert_eq!(server.send("POST", &path, &foreign, body).status, 403);
    let json = [("cookie", browser.cookie.as_str()), ("content-type", "text/plain"), ("sec-fetch-site", "same-origin")];
    assert_eq!(server.send("POST", &path, &json, body).status, 403);
    assert_eq!(server.job(&id)["state"], "scheduled");
    // Behind a proxy that sends another host, the browser's headers count.
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields(&form)).finish();
    let behind = [&plain[..], &[("origin", "https://queue.example"), ("sec-fetch-site", "same-origin")]].concat();
    assert_eq!(server.send("POST", &path, &behind, &body).status, 303);
    assert_eq!(server.job(&id)["state"], "cancelled");
}

#[test]
fn a_token_that_may_only_read_sees_no_button_and_changes_nothing() {
    let tokens = Tokens::new();
    let (admin, reader) = (tokens.create("ops", "admin"), tokens.create("eyes", "read"));
    let server = tokens.server(&[]);
    let pushed = send(&server, &admin, "POST", "/v1/queues/q/jobs", r#"{"payload":1,"delay":"1h"}"#).expect(201);
    let id = pushed["id"].as_str().unwrap();
    let browser = Browser::signed_in(&server, &reader);
    let job = format!("/jobs/{id}");
    for path in PAGES.into_iter().filter(|path| *path != "/locks").chain([job.as_str()]) {
        let page = browser.get(path);
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.body.contains("name=\"do\""), "{path}: {}", page.body);
    }
    assert_eq!(browser.get("/locks").status, 403);
    for (path, action) in
        [(job.as_str(), "cancel"), (job.as_str(), "delete"), ("/queues/q", "purge"), ("/queues/q", "delete")]
    {
        let reply = browser.act(path, &[("do", action), ("version", "1"), ("payload", "1")]);
        assert!(matches!(reply.status, 403 | 404), "{action}: {}", reply.body);
    }
    let shown = send(&server, &admin, "GET", &format!("/v1/jobs/{id}"), "").ok();
    assert_eq!(shown["state"], "scheduled");
}

#[test]
fn a_queue_is_deleted_from_its_page() {
    let server = Server::start();
    server.push(&json!({"payload": 1, "delay": "1h"}));
    let browser = Browser::new(&server);
    let page = browser.get("/queues/q").body;
    assert!(page.contains("Ended: 0. Waiting: 1. Running: 0."), "{page}");
    let refused = browser.act("/queues/q", &[("do", "delete")]);
    assert!(refused.status == 409 && refused.body.contains("1 job waits"), "{}", refused.body);
    assert_eq!(browser.act("/queues/q", &[("do", "delete"), ("force", "true")]).status, 303);
    assert_eq!(server.get("/v1/queues").ok()["queues"], json!([]));
}

#[test]
fn a_stale_page_does_no_harm() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    let (path, browser) = (format!("/jobs/{id}"), Browser::new(&server));
    let version = server.job(&id)["version"].to_string();
    let act = |action| browser.act(&path, &[("do", action), ("version", &version), ("delay", "2h")]);
    assert_eq!(act("reschedule").status, 303);
    let now = server.job(&id);
    for action in ["reschedule", "run", "delete"] {
        let reply = act(action);
        assert_eq!(reply.status, 412, "{action}: {}", reply.body);
        assert!(reply.body.contains("Someone else changed it"), "{}", reply.body);
        assert_eq!(server.job(&id), now, "{action}");
    }
}

#[test]
fn many_jobs_are_counted_first_and_then_told_by_outcome() {
    let server = Server::start();
    let ids: Vec<String> = (0..5).map(|n| server.push(&json!({"payload": n, "delay": "1h", "tags": ["t"]}))).collect();
    let browser = Browser::new(&server);
    let path = "/jobs?queue=q&tag=t";
    let asked = browser.act(path, &[("do", "cancel_all")]);
    assert!(
        asked.status == 200 && asked.body.contains("this is for 5 jobs. Nothing has been done yet"),
        "{}",
        asked.body
    );
    assert_eq!(server.job(&ids[0])["state"], "scheduled");
    // Two of them by hand, one of which has changed meanwhile.
    let selected = |id: &String| format!("{id}.{}", server.job(id)["version"]);
    let [first, second] = [&ids[0], &ids[1]].map(selected);
    server.call(&format!("/v1/jobs/{}/run", ids[1])).ok();
    let done = browser.act(path, &[("do", "cancel"), ("job", &first), ("job", &second)]);
    assert_eq!(done.header("location"), Some("/jobs?queue=q&tag=t&done=cancelled.1-version_mismatch.1"));
    let page = browser.get(done.header("location").unwrap()).body;
    assert!(page.contains("Cancelled: 1 · Changed by someone else meanwhile: skipped: 1"), "{page}");
    let done = browser.act(path, &[("do", "cancel_all"), ("confirmed", "yes")]);
    assert_eq!(done.header("location"), Some("/jobs?queue=q&tag=t&done=cancelled.4"));
    assert_eq!(server.get("/v1/queues/q").ok()["cancelled"], 5);
    // A running job is only asked to stop.
    let running = server.push(&json!({"payload": 1, "tags": ["t"]}));
    server.receipt();
    let done = browser.act(path, &[("do", "cancel"), ("job", &selected(&running))]);
    assert_eq!(done.header("location"), Some("/jobs?queue=q&tag=t&done=cancel_requested.1"));
}

#[test]
fn numbers_are_those_of_the_api() {
    let server = Server::start();
    let jobs: Vec<_> = (0..1_234).map(|n| json!({"payload": n, "delay": "1h"})).collect();
    server.post("/v1/queues/q/jobs", &json!(jobs)).ok();
    let shown = server.get("/v1/queues/q").ok();
    assert_eq!((&shown["scheduled"], &shown["totals"]["pushed"]), (&json!(1_234), &json!(1_234)));
    for path in ["/", "/queues", "/queues/q"] {
        assert!(server.get(path).body.contains(">1,234<"), "{path}");
    }
}

#[test]
fn without_the_dashboard_there_is_nothing() {
    let server = Server::with(&["--store", "memory", "--no-dashboard"]);
    assert!(!server.banner.contains("dashboard"), "{}", server.banner);
    for path in ["/", "/queues", "/sign-in"] {
        server.get(path).problem(404, "no_route");
    }
    let server = Server::start();
    assert!(server.banner.contains(&format!("  dashboard    http://{}/\n", server.address)), "{}", server.banner);
}

#[test]
fn pages_speak_the_readers_language() {
    let server = Server::start();
    let chinese = server.send("GET", "/queues", &[("accept-language", "zh-CN,zh;q=0.9")], "");
    assert!(chinese.body.contains("lang=\"zh-CN\"") && chinese.body.contains("队列"), "{}", chinese.body);
    let chosen = server.get("/queues?language=zh-CN");
    let cookie = chosen.header("set-cookie").unwrap();
    assert!(cookie.starts_with("duetime"), "{cookie}");
    assert!(server.get("/queues").body.contains("lang=\"en\""));
}

#[test]
fn reasons_are_said_in_the_readers_language() {
    let server = Server::start();
    server.put("/v1/queues/q", &json!({"max_running": 1})).ok();
    let behind = [1, 2].map(|n| server.push(&json!({"payload": n})))[1].clone();
    server.receipt();
    let later = server.push(&json!({"payload": 3, "delay": "1h"}));
    let unasked = server.push_to("other", &json!({"payload": 4}));
    let english = ["Running jobs of the queue: 1. Its max_running is 1.", "It is not due yet.", "No worker has asked"];
    let chinese =
        ["此队列有 1 个任务正在执行，max_running 为 1。", "尚未到期。", "没有 worker 向此服务器取过此队列的任务"];
    for (language, texts) in [("en", english), ("zh", chinese)] {
        for (id, text) in [&behind, &later, &unasked].into_iter().zip(texts) {
            let page = server.send("GET", &format!("/jobs/{id}"), &[("accept-language", language)], "").body;
            let reasons = page.split("<ul class=\"reasons\">").nth(1).unwrap().split("</ul>").next().unwrap();
            assert!(reasons.contains(text), "{language}: {reasons}");
            assert!(language == "en" || !reasons.contains("queue"), "{reasons}");
        }
    }
}

#[test]
fn what_is_too_large_is_cut_or_refused() {
    let server = Server::start();
    let payload = format!("\"{}\"", "é".repeat(100_000));
    let pushed = server.send("POST", "/v1/queues/q/jobs", &[], &format!("{{\"payload\":{payload},\"delay\":\"1h\"}}"));
    let id = pushed.expect(201)["id"].as_str().unwrap().to_owned();
    let page = server.get(&format!("/jobs/{id}"));
    assert!(page.status == 200 && page.body.len() < 120_000, "{}", page.body.len());
    assert!(page.body.contains("134,467 more bytes are not shown"), "{}", page.body);
    assert!(!page.body.contains("<textarea name=\"payload\""), "a part of a payload is not edited");
    let browser = Browser::new(&server);
    browser.server.put("/v1/locks/l", &json!({"owner": "o", "ttl": "1h"})).ok();
    let lock = format!("?name={}&owner=o&fence=1", "x".repeat(100_000));
    let reply = browser.act("/locks", &[("do", "release"), ("lock", &lock)]);
    assert!(reply.status == 400 && reply.body.contains("at most 65,534 bytes"), "{reply:?}");
    let job = format!("{id}.1");
    let many: Vec<_> = std::iter::repeat_n(("job", job.as_str()), 51).chain([("do", "cancel")]).collect();
    let reply = browser.act("/jobs?queue=q", &many);
    assert!(reply.status == 400 && reply.body.contains("at most 50 selected jobs, got 51"), "{reply:?}");
    assert_eq!(server.job(&id)["state"], "scheduled");
}

#[test]
fn a_form_of_a_stranger_is_small() {
    let tokens = Tokens::new();
    let token = tokens.create("eyes", "read");
    let server = tokens.server(&[]);
    let browser = Browser::new(&server);
    for (body, status) in [("&a=".repeat(10_000), 413), ("&a=".repeat(1_001), 403)] {
        let headers = [("sec-fetch-site", "same-origin"), ("content-type", "application/x-www-form-urlencoded")];
        let reply = browser.server.send("POST", "/sign-in", &headers, &body);
        assert_eq!(reply.status, status, "{reply:?}");
    }
    let cookie = format!("other=é; duetime={token}");
    let page = server.send("GET", "/jobs", &[("cookie", &cookie)], "");
    assert_eq!(page.status, 200, "a cookie of another program: {page:?}");
}

#[test]
fn pages_count_toward_the_rate_of_a_token() {
    let tokens = Tokens::new();
    let token = tokens.run(&["create", "eyes", "--allow", "read", "--rate", "0.001/s,burst=3"]);
    let server = tokens.server(&[]);
    let browser = Browser::signed_in(&server, &token);
    let statuses: Vec<u16> = (0..5).map(|_| browser.get("/queues").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
}

#[test]
fn a_page_has_the_life_of_its_job_in_one_line() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "max_attempts": 2, "retry": {"fixed": {"delay": "0s"}}}));
    let life = || {
        let page = server.get(&format!("/jobs/{id}")).body;
        let list = page.split_once("<ol class=\"life\"").unwrap().1.split_once("</ol>").unwrap().0.to_owned();
        let steps = list.split("<li><span>").skip(1).map(|step| step.split('<').next().unwrap().to_owned());
        steps.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(life(), "Pushed Due");
    let receipt = server.receipt();
    assert_eq!(life(), "Pushed Due Started");
    server.post(&format!("/v1/leases/{receipt}/fail"), &json!({"message": "no disk"})).ok();
    assert_eq!(life(), "Pushed Due Started Failed Next attempt");
    let receipt = server.receipt();
    assert_eq!(life(), "Pushed Due Failed Started");
    server.post(&format!("/v1/leases/{receipt}/fail"), &json!({"message": "no disk"})).ok();
    assert_eq!(life(), "Pushed Due Failed Started Failed");
}
