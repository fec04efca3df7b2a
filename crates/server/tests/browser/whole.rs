//! Every page, in both themes and languages, on wide and narrow screens: `cargo xtask outside`.

use super::check_quiet;
use super::driver::Browser;
use crate::http::server::{Server, eventually};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Text that does something unless it is escaped.
const EVIL: &str = "</script><img src=x onerror=alert(1)>\u{202e}\u{7}";

/// A server with something on every page, and the paths of the pages.
fn shop() -> (Server, Vec<(&'static str, String)>) {
    let server = Server::start();
    for (queue, count) in [("orders", 40), ("mail.welcome", 12), (&*"a-long-name.".repeat(12), 3)] {
        for n in 0..count {
            let delay = ["0s", "10m", "45m", "5h", "3d", "20d"][n % 6];
            let kind = ["order.cancel", "mail.send", "notify"][n % 3];
            let job = json!({"payload": {"order": n}, "kind": kind, "delay": delay, "tags": [format!("order:{n}")]});
            server.push_to(queue, &job);
        }
    }
    let hostile =
        json!({"payload": {"text": EVIL}, "kind": "<b>bold</b>", "key": EVIL, "tags": ["<i>tag</i>"], "delay": "9m"});
    server.push_to("orders", &hostile);
    let leased = server.post("/v1/queues/orders/reserve", &json!({"limit": 4, "lease": "1h", "worker": "web-3"})).ok();
    let receipts: Vec<&str> =
        leased["leases"].as_array().unwrap().iter().map(|lease| lease["receipt"].as_str().unwrap()).collect();
    let failed = json!({"message": format!("payments.example refused: {EVIL}"), "final": true});
    server.post(&format!("/v1/leases/{}/fail", receipts[0]), &failed).ok();
    server.post(&format!("/v1/leases/{}/fail", receipts[1]), &json!({"message": "HTTP 502"})).ok();
    server.post(&format!("/v1/leases/{}/complete", receipts[2]), &json!({"result": {"ok": true}})).ok();
    server.post(&format!("/v1/leases/{}/progress", receipts[3]), &json!({"percent": 40, "note": "halfway"})).ok();
    server.post("/v1/queues/mail.welcome/pause", &json!({"for": "2h"})).ok();
    let nightly =
        json!({"cron": "30 2 * * *", "time_zone": "Europe/Berlin", "job": {"queue": "orders", "payload": {}}});
    server.put("/v1/schedules/nightly", &nightly).ok();
    server.put("/v1/locks/stock-42", &json!({"owner": EVIL, "ttl": "1h"})).ok();
    let job = leased["leases"][1]["id"].as_str().unwrap();
    let pages = [
        ("overview", "/".to_owned()),
        ("queues", "/queues".to_owned()),
        ("queue", "/queues/orders".to_owned()),
        ("jobs", "/jobs?queue=orders".to_owned()),
        ("job", format!("/jobs/{job}")),
        ("failed", "/failed".to_owned()),
        ("schedules", "/schedules".to_owned()),
        ("schedule", "/schedules/nightly".to_owned()),
        ("workers", "/workers".to_owned()),
        ("locks", "/locks".to_owned()),
        ("events", "/events".to_owned()),
        ("nothing", "/jobs/7".to_owned()),
    ];
    (server, pages.into())
}

/// The text of axe-core, which npm installs.
fn axe() -> String {
    let folder = tempfile::tempdir().unwrap();
    let installed =
        Command::new("npm").args(["install", "--silent", "--prefix"]).arg(folder.path()).arg("axe-core").status();
    assert!(installed.expect("npm is installed").success(), "npm installs axe-core");
    std::fs::read_to_string(folder.path().join("node_modules/axe-core/axe.min.js")).unwrap()
}

#[test]
fn axe_finds_nothing_on_any_page() {
    let (server, pages) = shop();
    let axe = axe();
    for (language, widths) in [("en", [1280, 360]), ("zh-CN", [1280, 420])] {
        let browser = Browser::start(language);
        for (scheme, width) in ["light", "dark"].into_iter().flat_map(|scheme| widths.map(|width| (scheme, width))) {
            browser.set_scheme(scheme);
            browser.set_width(width);
            for (name, path) in &pages {
                browser.open(&server.url(path));
                // A failure that is shown is one in the log as well.
                if *name != "nothing" {
                    check_quiet(&browser, &server);
                }
                // Forms that are closed until they are needed count, too.
                browser.run("for (const part of document.querySelectorAll('details')) part.open = true");
                let wide = browser.run(
                    "return document.documentElement.scrollWidth > innerWidth
                        ? [...document.querySelectorAll('body *')].filter(part => part.getBoundingClientRect().right > innerWidth)
                            .map(part => part.outerHTML.slice(0, 200)) : []",
                );
                assert_eq!(wide, json!([]), "{name} in {language} is wider than {width}");
                browser.console();
                // The policy allows no script that comes so; the protocol may run one.
                browser.tell("Runtime.evaluate", &json!({ "expression": axe }));
                let expression = "axe.run().then(found => JSON.stringify(found.violations.map(v => [v.id, v.nodes.map(n => n.html)])))";
                let found = browser.tell(
                    "Runtime.evaluate",
                    &json!({"expression": expression, "awaitPromise": true, "returnByValue": true}),
                );
                assert_eq!(found["result"]["value"], "[]", "{name}, {language}, {scheme}, {width}");
            }
        }
    }
}

#[test]
fn hostile_text_does_nothing_but_show() {
    let (server, pages) = shop();
    let browser = Browser::start("en");
    for (name, path) in pages.iter().filter(|(name, _)| *name != "nothing") {
        browser.open(&server.url(path));
        check_quiet(&browser, &server);
        let made = browser.run("return document.querySelectorAll('main img, main script, main b, main i').length");
        assert_eq!(made, 0, "{name}");
    }
}

#[test]
fn a_job_is_a_card_of_two_lines_on_a_phone() {
    let (server, _) = shop();
    for language in ["en", "zh-CN"] {
        let browser = Browser::start(language);
        for width in [420, 360] {
            browser.set_width(width);
            for path in ["/jobs", "/failed"] {
                browser.open(&server.url(path));
                // Boxes of one line begin at about the same height.
                let lines = "return Math.max(...[...document.querySelectorAll('.jobs tbody tr')].map(row => {
                    const tops = [...row.querySelectorAll('a, .state, td.due, td.kind, td.message')]
                        .flatMap(part => [...part.getClientRects()]).filter(box => box.width > 0).map(box => box.bottom);
                    return tops.sort((a, b) => a - b).filter((top, at) => at == 0 || top - tops[at - 1] > 12).length;
                }))";
                assert_eq!(browser.run(lines), 2, "{path} {language} {width}");
            }
        }
    }
}

#[test]
fn each_row_of_a_table_is_a_card_of_two_lines_on_a_phone() {
    let (server, _) = shop();
    server.put("/v1/schedules/tick", &json!({"every": "90s", "job": {"queue": "orders", "payload": {}}})).ok();
    server.call("/v1/schedules/nightly/pause").ok();
    for language in ["en", "zh-CN"] {
        let browser = Browser::start(language);
        for width in [420, 390] {
            browser.set_width(width);
            // The buttons of a group of failures are a line of their own.
            for (path, expected) in [("/", 2), ("/queues", 2), ("/schedules", 2), ("/workers", 2), ("/failed", 3)] {
                browser.open(&server.url(path));
                let lines =
                    "return Math.max(...[...document.querySelectorAll('.rows:not(.jobs) tbody tr')].map(row => {
                    const all = document.createRange();
                    all.selectNodeContents(row);
                    const ends = [...all.getClientRects()].filter(box => box.width > 1).map(box => box.bottom);
                    return ends.sort((a, b) => a - b).filter((end, at) => at == 0 || end - ends[at - 1] > 12).length;
                }))";
                assert_eq!(browser.run(lines), expected, "{path} {language} {width}");
            }
        }
    }
}

/// `cargo xtask screenshots` looks at what this leaves.
#[test]
fn each_page_is_pictured() {
    let (server, pages) = shop();
    let folder = folder();
    std::fs::create_dir_all(&folder).unwrap();
    for language in ["en", "zh-CN"] {
        let browser = Browser::start(language);
        for scheme in ["light", "dark"] {
            browser.set_scheme(scheme);
            for (screen, width) in [("wide", 1280), ("phone", 420)] {
                browser.set_width(width);
                for (name, path) in &pages {
                    browser.open(&server.url(path));
                    assert_eq!(browser.run("return document.documentElement.lang"), Value::from(language));
                    let file = folder.join(format!("{name}-{screen}-{scheme}-{language}.png"));
                    browser.picture(&file);
                    assert!(std::fs::metadata(&file).unwrap().len() > 10_000, "{}", file.display());
                }
            }
        }
    }
    println!("screenshots: {}", folder.display());
}

/// A server as an operator finds it at night, with the pages that the book shows.
fn at_night() -> (Server, Vec<(&'static str, String)>) {
    let server = Server::with(&["--store", "memory", "--webhook-allow-private"]);
    let push = |queue: &str, n: usize, delay: &str, kind: &str| {
        let order = 4700 + n;
        let job = json!({
            "payload": {"order": order}, "kind": kind, "delay": delay, "tags": [format!("order:{order}")],
            "key": format!("{kind}-{order}"),
        });
        server.push_to(queue, &job)
    };
    for n in 0..60 {
        push("orders", n, ["30m", "50m", "25m", "2h", "9h", "3d"][n % 6], "order.cancel");
    }
    let reserve = |queue: &str, limit: usize, worker: &str| {
        let body = json!({"limit": limit, "lease": "10m", "worker": worker});
        let leased = server.post(&format!("/v1/queues/{queue}/reserve"), &body).ok();
        let receipt = |lease: &Value| lease["receipt"].as_str().unwrap().to_owned();
        leased["leases"].as_array().unwrap().iter().map(receipt).collect::<Vec<_>>()
    };
    for n in 60..100 {
        push("orders", n, "0s", "order.cancel");
    }
    for receipt in reserve("orders", 38, "web-1-2071") {
        server.post(&format!("/v1/leases/{receipt}/complete"), &json!({})).ok();
    }
    reserve("orders", 2, "web-1-2071");
    for n in 0..9 {
        push("mail", n, "0s", "mail.send");
    }
    let failed = ["this address does not exist", "mail.example: 451 try again later"];
    for (n, receipt) in reserve("mail", 9, "web-2-1893").into_iter().enumerate() {
        let body = json!({"message": failed[usize::from(n > 6)], "final": true});
        server.post(&format!("/v1/leases/{receipt}/fail"), &body).ok();
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = json!({"target": {"url": format!("http://{nobody}/duetime")}, "retry": {"steps": ["5s", "1m"]}});
    server.put("/v1/queues/merchant.notify", &target).ok();
    for n in 0..4 {
        push("merchant.notify", n, "0s", "merchant.notify");
    }
    for n in 0..2 {
        push("invoices", n, "0s", "invoice.print");
    }
    server.call("/v1/queues/newsletter/pause").ok();
    push("newsletter", 1, "0s", "newsletter.send");
    for (name, cron, queue) in [("nightly-report", "0 3 * * *", "reports"), ("stock-check", "30 6 * * mon", "stock")] {
        let schedule = json!({"cron": cron, "time_zone": "Asia/Shanghai", "job": {"queue": queue, "payload": {}}});
        server.put(&format!("/v1/schedules/{name}"), &schedule).ok();
    }
    server.put("/v1/locks/stock-42", &json!({"owner": "web-1-2071", "ttl": "10m"})).ok();
    let found = server.get("/v1/jobs?queue=mail&state=failed&limit=1").ok();
    let job = found["jobs"][0]["id"].as_str().unwrap();
    let pages = [
        ("overview", "/".to_owned()),
        ("queues", "/queues".to_owned()),
        ("queue", "/queues/orders".to_owned()),
        ("jobs", "/jobs?queue=mail".to_owned()),
        ("job", format!("/jobs/{job}")),
        ("failed", "/failed".to_owned()),
        ("schedules", "/schedules".to_owned()),
        ("schedule", "/schedules/nightly-report".to_owned()),
        ("workers", "/workers".to_owned()),
        ("locks", "/locks".to_owned()),
        ("events", "/events".to_owned()),
    ];
    (server, pages.into())
}

/// `cargo xtask screenshots` puts these into the book.
#[test]
fn each_page_of_the_book_is_pictured() {
    let (server, pages) = at_night();
    let browser = Browser::start("en");
    browser.set_width(1280);
    browser.open(&server.url("/"));
    for sentence in ["No worker asks this server", "has taken no job for", "7 failed within the last hour", "is paused"]
    {
        eventually(|| browser.text().contains(sentence));
    }
    let folder = folder().join("book");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, path) in &pages {
        browser.open(&server.url(path));
        check_quiet(&browser, &server);
        let file = folder.join(format!("{name}.png"));
        browser.picture_of_top(&file);
        assert!(std::fs::metadata(&file).unwrap().len() > 10_000, "{}", file.display());
        let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/dashboard.md");
        let shown = format!("](../pictures/{name}.png)");
        assert!(std::fs::read_to_string(book).unwrap().contains(&shown), "the book lacks {shown}");
    }
}

/// Where pictures go.
fn folder() -> PathBuf {
    std::env::var_os("DUETIME_SCREENSHOTS")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots"), PathBuf::from)
}
