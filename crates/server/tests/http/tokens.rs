//! Tokens: a request without a valid one is refused; they are made and revoked while the server runs.

use super::client::{Connection, Reply, request};
use super::server::{Server, eventually};
use serde_json::json;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A file of tokens.
pub(crate) struct Tokens(TempDir);

impl Tokens {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("tokens.toml")
    }

    /// `duetime token …`, which must succeed; returns its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
        let output =
            command.env_clear().arg("token").args(arguments).arg("--tokens").arg(self.file()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A new token with these rights, comma between.
    pub(crate) fn create(&self, name: &str, allow: &str) -> String {
        self.run(&["create", name, "--allow", allow])
    }

    /// A server that asks for them.
    pub(crate) fn server(&self, arguments: &[&str]) -> Server {
        let file = self.file();
        Server::with(&[&["--store", "memory", "--tokens", file.to_str().unwrap()], arguments].concat())
    }
}

/// Sends a request with a token.
pub(crate) fn send(server: &Server, token: &str, method: &str, path: &str, body: &str) -> Reply {
    server.send(method, path, &[("authorization", &format!("Bearer {token}"))], body)
}

#[test]
fn without_a_token_that_counts_nothing_is_done() {
    let tokens = Tokens::new();
    let token = tokens.create("shop", "push");
    let server = tokens.server(&[]);
    let shorter = &token[..token.len() - 1];
    for value in ["", "Bearer", "Bearer ", &token, &format!("Basic {token}"), &format!("Bearer {shorter}")] {
        let reply = server.send("POST", "/v1/queues/q/jobs", &[("authorization", value)], r#"{"payload":1}"#);
        let problem = reply.problem(401, "unauthorized");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"duetime\""));
        assert!(!problem.to_string().contains(&token), "{problem}");
        let is_bearer = value.trim_end().starts_with("Bearer ");
        let said = if is_bearer { "the token is unknown" } else { "must be `Bearer TOKEN`, got another scheme" };
        assert!(problem["detail"].as_str().unwrap().contains(said), "{value}: {problem}");
    }
    // Paths that do not exist get the same answer, so that paths cannot be probed.
    server.get("/v1/nothing").problem(401, "unauthorized");
    for open in ["/healthz", "/readyz"] {
        server.get(open).ok();
    }
    send(&server, &token, "POST", "/v1/queues/q/jobs", r#"{"payload":1}"#).expect(201);
    let twice = [("authorization", &*format!("Bearer {token}")), ("authorization", "Bearer x")];
    server.send("POST", "/v1/queues/q/jobs", &twice, r#"{"payload":1}"#).problem(401, "unauthorized");
}

#[test]
fn tokens_come_and_go_while_the_server_runs() {
    let tokens = Tokens::new();
    let first = tokens.create("first", "read");
    let server = tokens.server(&[]);
    let status = |token: &str| send(&server, token, "GET", "/v1/queues", "").status;
    assert_eq!(status(&first), 200);
    let second = tokens.create("second", "admin");
    eventually(|| status(&second) == 200);
    let mut stream = server.connect();
    stream.send(request("GET", "/v1/events", &[("authorization", &format!("Bearer {first}"))], ""));
    assert_eq!(tokens.run(&["revoke", "first"]), "first is revoked: servers refuse it within two seconds");
    eventually(|| status(&first) == 401);
    // A stream that was let in ends with the next thing that happens.
    send(&server, &second, "POST", "/v1/queues/q/jobs", r#"{"payload":1}"#).expect(201);
    send(&server, &second, "POST", "/v1/queues/q/jobs", r#"{"payload":1}"#).expect(201);
    let told = stream.until_closed();
    assert!(told.contains("event: subscribed") && told.contains("event: stopping"), "{told}");
    assert!(!told.contains("event: pushed"), "{told}");
    assert_eq!(status(&second), 200);
    // A file that is wrong changes nothing.
    std::fs::write(tokens.file(), "[[token]]\nname = 7").unwrap();
    eventually(|| {
        std::fs::metadata(tokens.file())
            .is_ok_and(|found| found.modified().unwrap().elapsed().unwrap().as_millis() > 1500)
    });
    assert_eq!(status(&second), 200);
}

/// A waiting client whose token is revoked gets nothing, and takes nothing from others.
#[test]
fn who_waits_with_a_revoked_token_is_refused() {
    let tokens = Tokens::new();
    let (first, second) = (tokens.create("first", "admin"), tokens.create("second", "admin"));
    let server = tokens.server(&[]);
    let lock = |owner: &str, wait: &str| format!(r#"{{"owner": "{owner}", "ttl": "1h", "wait": "{wait}"}}"#);
    let held = send(&server, &second, "PUT", "/v1/locks/stock", &lock("b", "0s")).ok();
    let bearer = format!("Bearer {first}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let (mut work, mut waits) = (server.connect(), server.connect());
    work.send(request("POST", "/v1/queues/orders/reserve", &headers, r#"{"wait": "60s"}"#));
    waits.send(request("PUT", "/v1/locks/stock", &headers, &lock("a", "60s")));
    tokens.run(&["revoke", "first"]);
    eventually(|| send(&server, &first, "GET", "/v1/queues", "").status == 401);
    send(&server, &second, "POST", "/v1/queues/orders/jobs", r#"{"payload":1}"#).expect(201);
    work.reply().problem(401, "unauthorized");
    let leased = send(&server, &second, "POST", "/v1/queues/orders/reserve", r#"{"wait": "20s"}"#).ok();
    assert_eq!(leased["leases"][0]["attempt"], 1, "{leased}");
    let fence = &held["fence"];
    let released = send(&server, &second, "DELETE", &format!("/v1/locks/stock?owner=b&fence={fence}"), "");
    assert_eq!(released.status, 204);
    waits.reply().problem(401, "unauthorized");
    send(&server, &second, "PUT", "/v1/locks/stock", &lock("c", "20s")).ok();
}

#[test]
fn a_token_may_end_and_may_ask_so_much() {
    let tokens = Tokens::new();
    let over = tokens.run(&["create", "over", "--allow", "read", "--expires", "1ms"]);
    let slow = tokens.run(&["create", "slow", "--allow", "read", "--rate", "0.001/s,burst=2"]);
    let server = tokens.server(&[]);
    send(&server, &over, "GET", "/v1/queues", "").problem(401, "unauthorized");
    for _ in 0..2 {
        send(&server, &slow, "GET", "/v1/queues", "").ok();
    }
    let reply = send(&server, &slow, "GET", "/v1/queues", "");
    let problem = reply.problem(429, "too_many_requests");
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((900..=1_000).contains(&seconds), "{seconds}");
    assert!(problem["retry_after"].is_string());
}

#[test]
fn with_tokens_other_machines_may_come() {
    let tokens = Tokens::new();
    let token = tokens.create("ops", "admin");
    let server = tokens.server(&["--listen", "0.0.0.0:0"]);
    assert!(server.banner.contains("holders of a token, sent unencrypted"), "{}", server.banner);
    let mut connection = Connection::open((Ipv4Addr::LOCALHOST, server.address.port()).into());
    let bearer = format!("Bearer {token}");
    // Under any name.
    let text = String::from_utf8(request("GET", "/v1/queues", &[("authorization", &bearer)], "")).unwrap();
    connection.send(text.replace("localhost", "queue.example"));
    connection.reply().ok();
}

#[test]
fn what_administrators_do_is_taken_down() {
    let tokens = Tokens::new();
    let (admin, shop) = (tokens.create("root", "admin"), tokens.create("shop", "push"));
    let log = tokens.0.path().join("audit.jsonl");
    let server = tokens.server(&["--audit-log", log.to_str().unwrap()]);
    let bearer = format!("Bearer {admin}");
    let headers = [("authorization", &*bearer), ("request-id", "r-1")];
    server.send("POST", "/v1/queues/q/pause", &headers, "").ok();
    send(&server, &shop, "POST", "/v1/queues/q/purge", "").problem(403, "forbidden");
    send(&server, &shop, "POST", "/v1/queues/q/jobs", r#"{"payload":1}"#).expect(201);
    send(&server, &admin, "POST", "/v1/jobs/cancel", r#"{"queue":"q"}"#).ok();
    send(&server, &admin, "POST", "/v1/jobs/reschedule", r#"{"selection":{"queue":"q"},"delay_ms":90000}"#).ok();
    send(&server, &admin, "DELETE", "/v1/locks?owner=cron", "").ok();
    send(&server, &shop, "DELETE", "/v1/queues/q", "").problem(403, "forbidden");
    send(&server, &admin, "DELETE", "/v1/queues/q", "").ok();
    send(&server, &admin, "GET", "/v1/locks", "").ok();
    let text = std::fs::read_to_string(&log).unwrap();
    let calls: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown = |call: &serde_json::Value| json!([call["who"], call["method"], call["path"], call["status"]]);
    assert_eq!(
        calls.iter().map(shown).collect::<Vec<_>>(),
        [
            json!(["root", "POST", "/v1/queues/q/pause", 200]),
            json!(["shop", "POST", "/v1/queues/q/purge", 403]),
            json!(["root", "POST", "/v1/jobs/cancel", 200]),
            json!(["root", "POST", "/v1/jobs/reschedule", 200]),
            json!(["root", "DELETE", "/v1/locks?owner=cron", 200]),
            json!(["shop", "DELETE", "/v1/queues/q", 403]),
            json!(["root", "DELETE", "/v1/queues/q", 200]),
        ]
    );
    assert_eq!(calls[0]["request_id"], "r-1");
    assert_eq!((&calls[2]["selection"], &calls[2]["counts"]), (&json!({"queue": "q"}), &json!({"cancelled": 1})));
    assert_eq!((&calls[3]["selection"], &calls[3]["delay"]), (&json!({"queue": "q"}), &json!("1m30s")));
    assert_eq!((&calls[6]["selection"], &calls[6]["counts"]), (&json!({"queue": "q"}), &json!({"deleted": 1})));
    assert!(calls[2].get("delay").is_none() && calls[0].get("selection").is_none());
    assert!(calls.iter().all(|call| call["peer"].as_str().unwrap().starts_with("127.0.0.1:")), "{text}");
    assert!(!text.contains(&admin) && !text.contains(&shop));
}

/// The change is completed and logged even if nobody waits for its answer.
#[test]
fn a_caller_who_hangs_up_is_in_the_audit_log() {
    let tokens = Tokens::new();
    let admin = tokens.create("root", "admin");
    let log = tokens.0.path().join("audit.jsonl");
    let server = tokens.server(&["--audit-log", log.to_str().unwrap()]);
    let jobs: Vec<_> = (0..5_000).map(|n| json!({"payload": n, "delay": "1h"})).collect();
    send(&server, &admin, "POST", "/v1/queues/q/jobs", &json!(jobs).to_string()).ok();
    let mut connection = server.connect();
    let bearer = format!("Bearer {admin}");
    connection.send(request("POST", "/v1/jobs/cancel", &[("authorization", &bearer)], r#"{"queue":"q"}"#));
    let counts = || send(&server, &admin, "GET", "/v1/queues/q", "").ok();
    eventually(|| counts()["cancelled"].as_u64().is_some_and(|cancelled| cancelled > 0));
    drop(connection);
    eventually(|| std::fs::read_to_string(&log).unwrap().ends_with('\n'));
    let line: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&log).unwrap()).unwrap();
    assert_eq!((&line["who"], &line["counts"]), (&json!("root"), &json!({"cancelled": 5_000})), "{line}");
    assert_eq!(counts()["cancelled"], 5_000);
}

#[test]
fn tokens_are_listed_without_their_secrets() {
    let tokens = Tokens::new();
    let token = tokens.run(&["create", "shop", "--allow", "push:orders.*,read", "--rate", "5/s", "--expires", "90d"]);
    let table = tokens.run(&["list"]);
    for words in ["shop", "push:orders.* read", "5/s"] {
        assert!(table.contains(words), "{table}");
    }
    let list: serde_json::Value = serde_json::from_str(&tokens.run(&["list", "--json"])).unwrap();
    assert_eq!(list[0]["allow"], json!(["push:orders.*", "read"]));
    let file = std::fs::read_to_string(tokens.file()).unwrap();
    for text in [table, list.to_string(), file] {
        assert!(!text.contains(&token), "{text}");
    }
    let made: serde_json::Value =
        serde_json::from_str(&tokens.run(&["create", "other", "--allow", "lock:stock-*", "--json"])).unwrap();
    assert!(made["token"].as_str().unwrap().starts_with("duetime_"));
}

#[test]
fn what_is_wrong_with_tokens_is_said() {
    let tokens = Tokens::new();
    tokens.create("shop", "push");
    for (arguments, says) in [
        (&["create", "shop", "--allow", "push"][..], "exists"),
        (&["create", "x", "--allow", "pull"], "push, target, work, read, change, lock, admin"),
        (&["create", "x"], "--allow"),
        (&["revoke", "y"], "no token \"y\""),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
        let output =
            command.env_clear().arg("token").args(arguments).arg("--tokens").arg(tokens.file()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(says), "{arguments:?}: {text}");
    }
}
