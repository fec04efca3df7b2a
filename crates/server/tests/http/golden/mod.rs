//! The answers of every endpoint, compared with the files in `tests/golden/http`.

mod document;
mod jobs;
mod refusals;
mod settings;
mod work;

use crate::golden::Golden;
use crate::http::client::Reply;
use crate::http::server::Server;
use serde_json::Value;

/// Headers that say nothing about the answer.
const HEADERS_LEFT_OUT: [&str; 4] = ["content-length", "date", "request-id", "connection"];

/// A server, and the transcript of its requests and answers.
pub(crate) struct Api {
    pub(crate) server: Server,
    pub(crate) golden: Golden,
}

impl Api {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { server: Server::start(), golden: Golden::new(name) }
    }

    /// Asks, and writes down request and answer.
    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let reply = self.server.send(method, path, headers, body);
        self.golden.add(&format!("{method} {path}"));
        headers.iter().for_each(|(name, value)| self.golden.add(&format!("{name}: {value}")));
        if !body.is_empty() {
            self.golden.add(body);
        }
        self.add_reply(&reply);
        reply
    }

    pub(crate) fn add_reply(&mut self, reply: &Reply) {
        let shown = reply.headers().filter(|(name, _)| !HEADERS_LEFT_OUT.contains(name));
        let head: Vec<String> = shown.map(|(name, value)| format!("{name}: {value}")).collect();
        self.golden.add(&format!("→ {}  {}", reply.status, head.join("  ")));
        match serde_json::from_str::<Value>(&reply.body) {
            Ok(json) => self.golden.add_json(&json),
            Err(_) if reply.body.is_empty() => {}
            Err(_) => self.golden.add(&reply.body),
        }
        self.golden.blank();
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.send("GET", path, &[], "")
    }

    /// POST without a body.
    pub(crate) fn call(&mut self, path: &str) -> Reply {
        self.send("POST", path, &[], "")
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], &body.to_string())
    }

    pub(crate) fn put(&mut self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, &[], &body.to_string())
    }

    /// Pushes to the queue `q`, which is not written down, and returns the id.
    pub(crate) fn push(&self, job: &Value) -> String {
        self.server.push(job)
    }
}
