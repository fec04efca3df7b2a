//! The dashboard and the API in an application's own server: the program of the guide, and the options of a router.

#[path = "../examples/mounted.rs"]
#[expect(dead_code, reason = "its `main` listens")]
mod program;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use duetime::event::{Event, Filter};
use duetime::job::{CancelOutcome, Stage};
use duetime::{CancellationToken, Client, ErrorKind, JobId};
use duetime_server::{RouterOptions, router};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;
use tower_service::Service;

const EXAMPLE: &str = include_str!("../examples/mounted.rs");
const GUIDE: &str = include_str!("../../../docs/guides/embedded.md");

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Reply {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

async fn send(app: &Router, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost:8080");
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    let mut request = request.body(Body::from(body.to_owned())).unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap());
    }
    let Ok(response) = app.clone().call(request).await;
    let (parts, body) = response.into_parts();
    Reply { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
}

async fn get(app: &Router, path: &str) -> Reply {
    send(app, Method::GET, path, &[], "").await
}

async fn post(app: &Router, path: &str, body: &str) -> Reply {
    send(app, Method::POST, path, &[], body).await
}

#[test]
fn the_program_of_the_guide_is_an_example() {
    let (_, program) = EXAMPLE.split_once("\n\n").unwrap();
    let program = program.replace("pub(crate) fn app", "fn app");
    assert!(GUIDE.contains(&format!("```rust,ignore\n{program}```\n")));
}

#[tokio::test]
async fn a_store_is_looked_at_while_its_program_runs() {
    let client = Client::memory().await.unwrap();
    let app = program::app(&client).unwrap();
    let id = post(&app, "/orders/7", "").await.text().to_owned();
    let jobs = get(&app, "/duetime/v1/jobs?queue=orders").await.json();
    assert_eq!(jobs["jobs"][0]["id"], id, "{jobs}");
    for (path, link) in [
        ("/duetime", "href=\"/duetime/queues/orders\""),
        ("/duetime/", "href=\"/duetime/queues/orders\""),
        ("/duetime/jobs?queue=orders", &*format!("href=\"/duetime/jobs/{id}\"")),
        (&format!("/duetime/jobs/{id}"), "curl -fsS -X POST http://localhost:8080/duetime/v1/jobs/"),
        (&format!("/duetime/jobs/{id}"), &format!("duetime cancel {id} --server http://localhost:8080/duetime")),
        ("/duetime/docs", "http://localhost:8080/duetime/v1/"),
    ] {
        let page = get(&app, path).await;
        assert_eq!((page.status, page.header("content-type")), (StatusCode::OK, "text/html; charset=utf-8"), "{path}");
        assert!(page.text().contains(link), "{path}: {}", page.text());
        for attribute in ["href", "src", "action"] {
            let begin = format!("{attribute}=\"/");
            let mut paths = page.text().split(&begin).skip(1);
            assert!(paths.all(|path| path.starts_with("duetime")), "{path}: {}", page.text());
        }
    }
    let page = get(&app, "/duetime/").await;
    let script = page.text().split_once("src=\"").unwrap().1.split_once('"').unwrap().0;
    assert_eq!(get(&app, script).await.header("content-type"), "text/javascript; charset=utf-8");
    let missing = send(&app, Method::GET, "/duetime/nowhere", &[("accept", "text/html")], "").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert!(missing.text().contains("href=\"/duetime/jobs\""), "{}", missing.text());

    let pushed = post(&app, "/duetime/v1/queues/mail/jobs", r#"{"payload": 1}"#).await;
    assert_eq!(pushed.status, StatusCode::CREATED);
    let location = pushed.header("location").to_owned();
    assert_eq!(location, format!("/duetime/v1/jobs/{}", pushed.json()["id"].as_str().unwrap()));
    assert_eq!(get(&app, &location).await.json()["queue"], "mail");
    let cancelled = post(&app, &format!("/duetime/v1/jobs/{id}/cancel"), "").await;
    assert_eq!(cancelled.json()["outcome"], "cancelled");
    let job = client.jobs().get(id.parse::<JobId>().unwrap()).await.unwrap();
    assert_eq!(job.stage, Stage::Cancelled);

    let metrics = get(&app, "/metrics").await;
    assert_eq!(metrics.header("content-type"), duetime::status::METRICS_MEDIA_TYPE);
    assert!(metrics.text().contains("duetime_jobs_cancelled_total{queue=\"orders\"} 1\n"), "{}", metrics.text());
    client.close().await.unwrap();
    let closed = get(&app, "/duetime/v1/jobs").await;
    assert_eq!((closed.status.as_u16(), &closed.json()["code"]), (503, &json!("stopping")));
}

/// With the address that its pages show, the command line and other programs reach it.
#[tokio::test]
async fn a_client_reaches_a_router_under_its_prefix() {
    let client = Client::memory().await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = Client::connect(&format!("http://{}/duetime/", listener.local_addr().unwrap())).await.unwrap();
    let server = axum::serve(listener, program::app(&client).unwrap());
    let calls = async {
        let mut events = remote.events(Filter::default()).await.unwrap();
        let id = remote.push_raw("mail", *b"1").queue("mail").key("k").await.unwrap().id;
        assert!(matches!(events.next().await.unwrap(), Some(Event::Transition(pushed)) if pushed.id == id));
        assert_eq!(remote.cancel_by_key("mail", "k").await.unwrap(), Some(CancelOutcome::Cancelled));
        assert_eq!(client.jobs().get(id).await.unwrap().stage, Stage::Cancelled);
        assert!(remote.health().await.unwrap().ready);
        assert!(remote.metrics_text().await.unwrap().contains("duetime_jobs_cancelled_total"));
    };
    tokio::select! {
        served = server.into_future() => panic!("{served:?}"),
        () = calls => {}
    }
}

/// What the path of the application captures is none of ours.
#[tokio::test]
async fn a_router_may_be_at_the_root_or_below_captures() {
    let client = Client::memory().await.unwrap();
    let id = client.push_raw("mail", *b"1").await.unwrap().id;
    let root = router(&client).unwrap();
    assert!(get(&root, "/").await.text().contains("href=\"/queues/default\""));
    assert_eq!(get(&root, &format!("/v1/jobs/{id}")).await.json()["kind"], "mail");
    let below = Router::new().nest("/of/{tenant}/jobs", router(&client).unwrap());
    assert_eq!(get(&below, &format!("/of/a/jobs/v1/jobs/{id}")).await.json()["kind"], "mail");
    assert!(get(&below, "/of/a/jobs/jobs").await.text().contains(&format!("href=\"/of/a/jobs/jobs/{id}\"")));
}

#[tokio::test]
async fn foreign_pages_do_not_reach_a_router() {
    let client = Client::memory().await.unwrap();
    let code = async |app: &Router, headers: &[(&str, &str)]| {
        let reply = send(app, Method::GET, "/v1/jobs", headers, "").await;
        (reply.status.as_u16(), reply.json()["code"].as_str().unwrap_or_default().to_owned())
    };
    let app = router(&client).unwrap();
    assert_eq!(code(&app, &[("host", "shop.example")]).await, (421, "foreign_host".to_owned()));
    assert_eq!(code(&app, &[("origin", "http://evil.example")]).await, (403, "foreign_origin".to_owned()));
    let app = RouterOptions::default().allow_host("shop.example").router(&client).unwrap();
    assert_eq!(code(&app, &[("host", "shop.example")]).await.0, 200);
    let refused = RouterOptions::default().allow_host("https://shop.example").router(&client).unwrap_err();
    assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("https://shop.example"), "{refused}");
}

#[tokio::test]
async fn a_router_may_ask_for_tokens() {
    let (client, folder) = (Client::memory().await.unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("tokens.toml");
    let missing = RouterOptions::default().tokens(&file).router(&client).unwrap_err();
    assert!(missing.kind() == ErrorKind::Invalid && missing.to_string().contains("tokens.toml"), "{missing}");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_duetime"));
    let made = command.args(["token", "create", "reader", "--allow", "read", "--tokens"]).arg(&file).output().unwrap();
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let app = RouterOptions::default().tokens(&file).https().router(&client).unwrap();
    let app = Router::new().nest("/duetime", app);
    assert_eq!(get(&app, "/duetime/v1/jobs").await.status, StatusCode::UNAUTHORIZED);
    let bearer = format!("Bearer {token}");
    let reply = send(&app, Method::GET, "/duetime/v1/jobs", &[("authorization", &bearer)], "").await;
    assert_eq!(reply.status, StatusCode::OK);
    let guest = get(&app, "/duetime/jobs").await;
    assert_eq!((guest.status.as_u16(), guest.header("location")), (303, "/duetime/sign-in?to=%2Fjobs"));
    let cookie = format!("__Host-duetime={token}");
    assert_eq!(send(&app, Method::GET, "/duetime/jobs", &[("cookie", &cookie)], "").await.status, StatusCode::OK);
}

#[tokio::test]
async fn who_waits_ends_with_the_server() {
    let (client, stop) = (Client::memory().await.unwrap(), CancellationToken::new());
    let app = RouterOptions::default().stop(stop.clone()).router(&client).unwrap();
    let begun = std::time::Instant::now();
    let reserve = post(&app, "/v1/queues/q/reserve", r#"{"wait": "30s"}"#);
    let (reply, ()) = tokio::join!(reserve, async { stop.cancel() });
    assert!(reply.status.is_success() || reply.json()["code"] == "stopping", "{}", reply.text());
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_client_of_a_server_has_no_router() {
    let client = Client::connect("http://127.0.0.1:9").await.unwrap();
    let refused = router(&client).unwrap_err();
    assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("server"), "{refused}");
}
