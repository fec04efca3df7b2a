//! The example receivers, as users run them: they accept signed requests, and nothing else.

use super::requests::{key, signature};
use super::server::{Server, result};
use duetime_core::{Clock as _, SystemClock};
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, body::Bytes};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The time limit for a condition; never reached if all is well.
const LIMIT: Duration = Duration::from_secs(60);
/// Ports outside the range from which the system takes those of clients.
const PORTS: std::ops::Range<u16> = 20_000..30_000;
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/webhook");
const OLD: u8 = 1;
const NEW: u8 = 2;
const OTHER: u8 = 3;

/// Killed when it is dropped.
struct Receiver {
    child: Child,
    port: u16,
}

impl Receiver {
    /// One that knows the new key only.
    async fn start(command: impl Fn(&str, u16) -> Command) -> Self {
        let from = PORTS.start + u16::try_from(std::process::id() % 10_000).unwrap();
        let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let port = (from..PORTS.end).chain(PORTS).find(free).expect("a free port");
        let mut command = command("127.0.0.1", port);
        command.env("WEBHOOK_KEYS", key(NEW)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let listens = async { while TcpStream::connect(("127.0.0.1", port)).await.is_err() {} };
        timeout(LIMIT, listens).await.expect("it never listened");
        Self { child, port }
    }

    /// Sends a request signed with a key, as of this many seconds ago, with another body. Returns the status and the text.
    async fn send(&self, byte: u8, age_seconds: u64, signed: &str, body: &str) -> (u16, String) {
        let seconds = (SystemClock::new().wall() / 1_000 - age_seconds).to_string();
        let request = Request::post(format!("http://127.0.0.1:{}/", self.port))
            .header("webhook-id", "7")
            .header("webhook-timestamp", &seconds)
            .header("webhook-signature", format!("v1a,unknown {}", signature(byte, "7", &seconds, signed)))
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        let response = Client::builder(TokioExecutor::new()).build_http().request(request).await.unwrap();
        let status = response.status().as_u16();
        let said = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(said.to_vec()).unwrap())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn checks_signatures(command: impl Fn(&str, u16) -> Command) {
    let receiver = Receiver::start(command).await;
    let refused = |why: &str| (401, why.to_owned());
    assert_eq!(receiver.send(NEW, 0, "{}", "{}").await, (200, "taken: 7".to_owned()));
    assert_eq!(receiver.send(NEW, 0, "{}", "{} ").await, refused("no key has signed this"));
    assert_eq!(receiver.send(OTHER, 0, "{}", "{}").await, refused("no key has signed this"));
    let old = refused("the timestamp is more than five minutes off");
    assert_eq!(receiver.send(NEW, 400, "{}", "{}").await, old);
    assert_eq!(receiver.send(NEW, 200, "{}", "{}").await.0, 200);

    // The server signs with both, until every receiver knows the new one.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    std::fs::write(&file, format!("default {} hooks\ndefault {} hooks\nold {} old\n", key(OLD), key(NEW), key(OLD)))
        .unwrap();
    let server = Server::with(&["--webhook-allow-private", "--webhook-keys", file.to_str().unwrap()]).await;
    let url = format!("http://127.0.0.1:{}/hook", receiver.port);
    server.set("hooks", json!({"target": {"url": url}})).await;
    let id = server.push("hooks", r#"{"größe": "1\n"}"#).await;
    let said = format!("taken: {id}");
    assert_eq!(result(&server.completed(id).await), json!({"status": 200, "body": said}));
    server.set("old", json!({"max_attempts": 1, "target": {"url": url, "key": "old"}})).await;
    let id = server.push("old", "{}").await;
    assert_eq!(server.failed(id).await, "HTTP 401 Unauthorized: no key has signed this");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_receiver_in_php_checks_signatures() {
    let command = |host: &str, port: u16| {
        let mut command = Command::new("php");
        command.args(["-S", &format!("{host}:{port}"), &format!("{FOLDER}/receiver.php")]);
        command
    };
    checks_signatures(command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_receiver_in_python_checks_signatures() {
    let command = |host: &str, port: u16| {
        let mut command = Command::new("/usr/bin/python3");
        command.args([&format!("{FOLDER}/receiver.py"), host, &port.to_string()]);
        command
    };
    checks_signatures(command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_receiver_in_rust_checks_signatures() {
    // Cargo puts examples beside the folder of tests.
    let test = std::env::current_exe().unwrap();
    let example: PathBuf = test.ancestors().nth(2).unwrap().join("examples/webhook_receiver");
    assert!(example.is_file(), "expected {}: cargo build -p duetime-server --examples", example.display());
    let command = |host: &str, port: u16| {
        let mut command = Command::new(&example);
        command.arg(format!("{host}:{port}"));
        command
    };
    checks_signatures(command).await;
}
