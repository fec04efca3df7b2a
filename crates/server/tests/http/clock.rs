//! A server for tests: `duetime serve --test`.

use super::server::{Server, command};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// A server for tests, by this command.
struct TestServer {
    server: Child,
    address: String,
}

impl TestServer {
    fn start(mut command: Command) -> Self {
        let mut server = command.arg("--test").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim_end().to_owned();
        assert!(address.starts_with("http://127.0.0.1:"), "{address}");
        Self { server, address }
    }

    /// POST, or GET without a body.
    fn ask(&self, path: &str, body: Option<Value>) -> Value {
        let mut curl = Command::new("curl");
        curl.args(["-sS", &format!("{}{path}", self.address), "-H", "content-type: application/json"]);
        if let Some(body) = body {
            curl.args(["-d", &body.to_string()]);
        }
        serde_json::from_slice(&curl.output().unwrap().stdout).unwrap()
    }

    fn advance(&self, by: &str) -> Value {
        self.ask("/v1/clock/advance", Some(json!({ "by": by })))
    }

    fn reserve(&self) -> Vec<Value> {
        let reserved = self.ask("/v1/queues/q/reserve", Some(json!({"limit": 10})));
        reserved["leases"].as_array().unwrap().iter().map(|lease| lease["payload"].clone()).collect()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_month_passes_on_request() {
    let server = TestServer::start(command());
    for (payload, delay) in [(2, "30d"), (1, "1h"), (3, "30d1h")] {
        server.ask("/v1/queues/q/jobs", Some(json!({"payload": payload, "delay": delay})));
    }
    let before = server.ask("/v1/clock", None)["now"].as_str().unwrap().to_owned();
    assert!(server.reserve().is_empty());
    let after = server.advance("30d")["now"].as_str().unwrap().to_owned();
    assert!(after > before, "{before}, {after}");
    assert_eq!(server.reserve(), [json!(1), json!(2)]);
    assert_eq!(server.advance("soon")["code"], "invalid");
    assert_eq!(server.ask("/v1/clock/advance", Some(json!({})))["field"], "by");
    for _ in 0..9 {
        server.advance("3652d12h");
    }
    let too_far = server.advance("3652d12h");
    assert_eq!((&too_far["code"], &too_far["field"]), (&json!("invalid"), &json!("by")), "{too_far}");
}

#[test]
fn it_ends_with_the_program_that_started_it() {
    let mut server = TestServer::start(command());
    drop(server.server.stdin.take());
    assert!(server.server.wait().unwrap().success());
}

#[test]
fn no_variable_and_no_file_changes_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("duetime.toml"), "listen = '0.0.0.0:1'\nstore = 'jobs.db'\n").unwrap();
    let mut around = command();
    around.current_dir(&folder).envs([("DUETIME_STORE", "other.db"), ("DUETIME_LISTEN", "127.0.0.1:1")]);
    let server = TestServer::start(around);
    server.advance("1ms");
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["duetime.toml"]);
}

#[test]
fn it_is_for_this_machine_and_keeps_nothing() {
    for (arguments, said) in [
        (
            ["--listen", "0.0.0.0:0"],
            "--listen must be an address of this machine alone, such as 127.0.0.1:0, got 0.0.0.0:0",
        ),
        (["--store", "jobs.db"], "'--test' cannot be used with"),
        (["--config", "duetime.toml"], "'--test' cannot be used with"),
    ] {
        let mut refused = command().arg("--test").args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut error = String::new();
        refused.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        assert!(!refused.wait().unwrap().success());
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn no_other_server_has_a_clock_to_move() {
    let server = Server::start();
    server.get("/v1/clock").problem(404, "no_route");
    server.post("/v1/clock/advance", &json!({"by": "1s"})).problem(404, "no_route");
}
