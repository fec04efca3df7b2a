//! The edge over stores that fail, and in gzip.

use super::testing::{app, ask};
use duetime_core::Error;
use duetime_core::engine::Options;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::{Read, Write};

const PUSH: &str = "POST /v1/queues/q/jobs";

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Errors of stores may contain paths, addresses and passwords.
#[tokio::test]
async fn what_a_store_says_stays_in_the_log() {
    let said = || "postgres://duetime:secret@db.internal/jobs: SELECT body FROM duetime_jobs".to_owned();
    for (error, status, code) in [
        (Error::Full(said()), 507, "store_full"),
        (Error::Unavailable(said()), 503, "store_unavailable"),
        (Error::Damaged(said()), 500, "store_damaged"),
        (Error::Unusable(said()), 500, "store_unusable"),
        (Error::Held { path: said(), pid: 7 }, 500, "internal"),
    ] {
        let (app, registry) = app(Options::default()).await;
        registry.fail(error);
        let schedule = json!({"every": "10s", "job": {"payload": 1}}).to_string();
        for (asked, body) in [
            ("GET /v1/schedules", ""),
            ("GET /v1/queues/q", ""),
            ("PUT /v1/schedules/s", schedule.as_str()),
            ("POST /v1/queues/q/pause", ""),
        ] {
            let reply = ask(&app, asked, &[], body.to_owned()).await;
            let problem = reply.json();
            assert_eq!((reply.status.as_u16(), &problem["code"]), (status, &json!(code)), "{asked}: {problem}");
            let text = problem.to_string();
            assert!(["secret", "postgres", "SELECT", "internal/"].iter().all(|words| !text.contains(words)), "{text}");
            assert!(problem["detail"].as_str().unwrap().contains("log"), "{text}");
            assert_eq!(reply.header("retry-after"), (status == 503).then_some("1"), "{code}");
        }
    }
}

#[tokio::test]
async fn a_limit_that_is_reached_is_named() {
    let (app, registry) = app(Options::default()).await;
    registry.fail(Error::LimitReached("9 are there, the limit; delete one".to_owned()));
    let reply = ask(&app, "GET /v1/schedules", &[], "").await;
    let problem = reply.json();
    assert_eq!((reply.status.as_u16(), &problem["code"]), (507, &json!("store_full")));
    assert_eq!(problem["detail"], "9 are there, the limit; delete one");
}

#[tokio::test]
async fn who_stops_says_so() {
    let (app, _) = app(Options::default()).await;
    app.engine.stop().await.unwrap();
    let reply = ask(&app, "POST /v1/queues/q/reserve", &[], "").await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (503, &json!("stopping")));
    assert_eq!(reply.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn who_waits_for_the_end_of_a_job_is_shown_it_when_the_server_stops() {
    let (app, _) = app(Options::default()).await;
    let pushed = ask(&app, PUSH, &[], r#"{"payload":1}"#).await.json();
    app.stopping.cancel();
    let reply = ask(&app, &format!("GET /v1/jobs/{}?wait=60s", pushed["id"].as_str().unwrap()), &[], "").await;
    assert_eq!((reply.status.as_u16(), &reply.json()["state"]), (200, &json!("ready")));
}

/// Results of workers that cannot be recorded are kept in memory, up to a limit.
#[tokio::test]
async fn who_can_record_no_more_hands_nothing_out() {
    let (app, stores) = app(Options { backlog_max: 1, ..Options::default() }).await;
    ask(&app, PUSH, &[], r#"{"payload":1}"#).await;
    let reservation = ask(&app, "POST /v1/queues/q/reserve", &[], "").await.json();
    let receipt = reservation["leases"][0]["receipt"].as_str().unwrap();
    stores.close_ledger().await;
    let settled = ask(&app, &format!("POST /v1/leases/{receipt}/complete"), &[], "").await;
    assert_eq!((settled.status.as_u16(), &settled.json()["code"]), (503, &json!("stopping")));
    let reply = ask(&app, "POST /v1/queues/q/reserve", &[], "").await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (503, &json!("backlog")));
    assert_eq!((&reply.json()["backlog"], reply.header("retry-after")), (&json!(1), Some("1")));
}

#[tokio::test]
async fn large_answers_are_packed_for_who_takes_that() {
    let (app, _) = app(Options::default()).await;
    let plain = ask(&app, "GET /openapi.json", &[], "").await;
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("accept-encoding")));
    let packed = ask(&app, "GET /openapi.json", &[("accept-encoding", "br, gzip")], "").await;
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), (Some("gzip"), Some("accept-encoding")));
    assert!(packed.body.len() * 4 < plain.body.len(), "{} of {}", packed.body.len(), plain.body.len());
    let mut read = Vec::new();
    GzDecoder::new(&packed.body[..]).read_to_end(&mut read).unwrap();
    assert_eq!(read, plain.body);
    for (asked, accepted) in [("GET /healthz", "gzip"), ("GET /openapi.json", "br"), ("GET /openapi.json", "identity")]
    {
        let reply = ask(&app, asked, &[("accept-encoding", accepted)], "").await;
        assert_eq!((reply.status.as_u16(), reply.header("content-encoding")), (200, None), "{asked}: {accepted}");
    }
}

#[tokio::test]
async fn bodies_may_come_packed() {
    let (app, _) = app(Options::default()).await;
    let whole = packed(br#"{"payload":"packed"}"#);
    let reply = ask(&app, PUSH, &[("content-encoding", "gzip")], whole.clone()).await;
    assert_eq!(reply.status.as_u16(), 201);
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    let job = ask(&app, &format!("GET /v1/jobs/{id}"), &[], "").await;
    assert_eq!(job.json()["payload"], "packed");
    // Less than a hundredth of the limit as sent, but beyond the limit once decoded.
    let bomb = packed(&[&br#"{"message":""#[..], &vec![b'x'; 3 << 20], br#""}"#].concat());
    assert!(bomb.len() < 20_000);
    for (asked, encoding, body, status, code) in [
        ("POST /v1/leases/7.7/fail", "gzip", bomb, 413, "body_too_large"),
        (PUSH, "gzip", whole[..whole.len() - 4].to_vec(), 400, "body_unreadable"),
        (PUSH, "gzip", b"{}".to_vec(), 400, "body_unreadable"),
        (PUSH, "gzip, gzip", whole.clone(), 415, "media_type"),
        (PUSH, "br", whole, 415, "media_type"),
    ] {
        let reply = ask(&app, asked, &[("content-encoding", encoding)], body).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (status, &json!(code)), "{encoding}");
    }
    let empty = ask(&app, "POST /v1/queues/q/reserve", &[("content-encoding", "gzip")], "").await;
    assert_eq!(empty.status.as_u16(), 200);
}

/// Each command of the page is a call that the server understands.
#[tokio::test]
async fn commands_of_the_docs_are_valid_calls() {
    let (app, _) = app(Options::default()).await;
    let page = ask(&app, "GET /docs", &[], "").await;
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    let html = html.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let (mut called, mut wrong) = (0, Vec::new());
    for command in html.split("<pre>curl -fsS").skip(1).map(|rest| rest.split("</pre>").next().unwrap()) {
        let (line, body) =
            command.split_once(" -d '").map_or((command, ""), |(line, body)| (line, body.trim_end_matches('\'')));
        let words: Vec<&str> = line.split_whitespace().collect();
        let method = match words[..] {
            ["-X", method, ..] => method,
            _ if body.is_empty() => "GET",
            _ => "POST",
        };
        let url = words.iter().find_map(|word| word.trim_matches('\'').strip_prefix("http://127.0.0.1:7300")).unwrap();
        if url == "/v1/events" {
            continue; // It does not end.
        }
        let reply =
            ask(&app, &format!("{method} {url}"), &[("content-type", "application/json")], body.to_owned()).await;
        let refused = serde_json::from_slice::<Value>(&reply.body).map(|body| body["code"].clone()).unwrap_or_default();
        let status = reply.status.as_u16();
        let is_understood = status < 400 || (matches!(status, 404 | 409) && refused != "no_route");
        if !is_understood {
            wrong.push(format!("{command}: {status} {}", String::from_utf8_lossy(&reply.body)));
        }
        called += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(called > 50, "{called}");
}

/// The page that is read needs nothing from elsewhere, and is not allowed to load it either.
#[tokio::test]
async fn the_docs_load_nothing_from_elsewhere() {
    let (app, _) = app(Options::default()).await;
    let page = ask(&app, "GET /docs", &[], "").await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    let mut assets = Vec::new();
    for (attribute, rest) in html
        .split("src=\"")
        .skip(1)
        .map(|rest| ("src", rest))
        .chain(html.split("href=\"").skip(1).map(|rest| ("href", rest)))
    {
        let url = rest.split('"').next().unwrap();
        assert!(url.starts_with('#') || (url.starts_with('/') && !url.starts_with("//")), "{attribute} {url}");
        if url.starts_with('/') {
            assets.push(url.to_owned());
        }
    }
    assert_eq!(assets, ["/docs/style.css", "/", "/openapi.json"]);
    for words in ["<script", "<iframe", "<img", "style=\"", "@import", "url("] {
        assert!(!html.contains(words), "{words}");
    }
    for asset in ["/docs", "/docs/style.css"] {
        let reply = ask(&app, &format!("GET {asset}"), &[], "").await;
        assert_eq!(reply.status.as_u16(), 200);
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'self';") && !policy.contains("unsafe"), "{policy}");
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        assert!(!text.contains("url(") && !text.contains("@import"), "{asset}");
    }
    for part in [
        "id=\"push\"",
        "id=\"schema-Job\"",
        "id=\"error-lease_lost\"",
        "href=\"#error-lease_lost\"",
        "acquire_lock",
        "curl -fsS -X PUT http://127.0.0.1:7300/v1/locks/stock-42",
        "curl -fsS -X DELETE http://127.0.0.1:7300/v1/jobs/117111681613568<",
    ] {
        assert!(html.contains(part), "{part}");
    }
}
