//! A server with something of everything, and how each operation of it is called.

use super::RIGHTS;
use crate::http::client::Reply;
use crate::http::server::{Server, eventually};
use crate::http::tokens::{Tokens, send};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A server with something of everything in the queue `orders.a`, and how it is called.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) tokens: Tokens,
    root: String,
    /// In the form of the OpenAPI document.
    pub(crate) operations: BTreeSet<String>,
    /// The OpenAPI document.
    pub(crate) document: Value,
    /// The existing things: a queue, a schedule and a lock of one name.
    pub(crate) there: Things,
}

/// Things that requests name.
pub(crate) struct Things {
    /// Of a queue, a schedule and a lock.
    pub(crate) name: String,
    /// A job that waits.
    pub(crate) job: String,
    /// A lease.
    pub(crate) receipt: String,
}

impl Things {
    /// Nothing has these names.
    pub(crate) fn of_nothing() -> Self {
        let name = "nothing.a".to_owned();
        Self { name, job: "4503599627370496".to_owned(), receipt: "4503599627370496.77".to_owned() }
    }

    /// With names masked, so that answers about two can be compared.
    pub(crate) fn hidden_in(&self, text: &str) -> String {
        text.replace(&self.receipt, "RECEIPT").replace(&self.job, "JOB").replace(&self.name, "NAME")
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let tokens = Tokens::new();
        let root = tokens.create("root", "admin");
        for right in RIGHTS {
            tokens.create(&format!("{right}-made"), right);
        }
        let server = tokens.server(&[]);
        let document = server.get("/openapi.json").ok();
        let mut operations = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            let methods = methods.as_object().unwrap().keys().filter(|key| *key != "parameters");
            operations.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
        }
        assert!(operations.len() > 30, "{operations:?}");
        let mut world = Self { server, tokens, root, operations, document, there: Things::of_nothing() };
        let push = |body: &Value| world.as_root("POST", "/v1/queues/orders.a/jobs", body).expect(201);
        let id = |pushed: Value| pushed["id"].as_str().unwrap().to_owned();
        push(&json!({"payload": 1}));
        let job = id(push(&json!({"payload": 1, "delay": "1h"})));
        let reservation = world.as_root("POST", "/v1/queues/orders.a/reserve", &json!({})).ok();
        let receipt = reservation["leases"][0]["receipt"].as_str().unwrap().to_owned();
        let schedule = json!({"every": "1h", "job": {"queue": "orders.a", "payload": 1}});
        world.as_root("PUT", "/v1/schedules/orders.a", &schedule).ok();
        world.as_root("PUT", "/v1/locks/orders.a", &json!({"owner": "root", "ttl": "1h"})).ok();
        world.there = Things { name: "orders.a".to_owned(), job, receipt };
        world
    }

    pub(crate) fn as_root(&self, method: &str, path: &str, body: &Value) -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        send(&self.server, &self.root, method, path, &body)
    }

    /// A token with these rights, which the server knows.
    pub(crate) fn token(&self, name: &str, allow: &str) -> String {
        let token = self.tokens.create(name, allow);
        eventually(|| send(&self.server, &token, "GET", "/nowhere", "").status == 404);
        token
    }

    /// Calls an operation on these things, naming them wherever it can.
    pub(crate) fn call(&self, token: &str, operation: &str, things: &Things) -> Reply {
        let (method, path, body) = Self::asked(operation, things);
        send(&self.server, token, method, &path, &body)
    }

    /// Method, path and body of a request for an operation on these things.
    pub(crate) fn asked<'a>(operation: &'a str, things: &Things) -> (&'a str, String, String) {
        let Things { name, job, receipt } = things;
        let (method, template) = operation.split_once(' ').unwrap();
        let path = template
            .replace("{queue}", name)
            .replace("{name}", name)
            .replace("{id}", job)
            .replace("{receipt}", receipt);
        let named = json!([{"id": job}]);
        let (query, body) = match operation {
            "GET /v1/jobs" | "GET /v1/events" | "GET /v1/due" | "GET /v1/failures" | "GET /v1/history" => {
                (format!("?queue={name}"), Value::Null)
            }
            "DELETE /v1/locks" => ("?owner=nobody".to_owned(), Value::Null),
            "DELETE /v1/locks/{name}" => ("?owner=nobody&fence=1".to_owned(), Value::Null),
            _ => (String::new(), Value::Null),
        };
        let body = match operation {
            "PUT /v1/locks/{name}" => json!({"owner": "somebody"}),
            "POST /v1/queues/{queue}/jobs" => json!({"payload": 1, "delay": "1h"}),
            "POST /v1/jobs" => json!({"queue": name, "payload": 1, "delay": "1h"}),
            "POST /v1/reserve" | "POST /v1/take" | "POST /v1/queues/{queue}/take" => json!({"jobs": named}),
            "POST /v1/settle" => json!([{"receipt": receipt, "fail": {"message": "no"}}]),
            "POST /v1/extend" => json!([{"receipt": receipt}]),
            "POST /v1/leases/{receipt}/progress" => json!({"percent": 1}),
            "POST /v1/leases/{receipt}/fail" => json!({"message": "no"}),
            "PUT /v1/queues/{queue}" => json!({"max_attempts": 7}),
            "PUT /v1/schedules/{name}" => json!({"every": "2h", "job": {"queue": name, "payload": 1}}),
            "POST /v1/jobs/cancel" | "POST /v1/jobs/retry" | "POST /v1/jobs/delete" => {
                json!({"queue": name, "tag": "none"})
            }
            "POST /v1/jobs/reschedule" => json!({"selection": {"queue": name, "tag": "none"}, "delay": "2h"}),
            _ => body,
        };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        (method, format!("{path}{query}"), body)
    }

    /// The state of `orders.a`, to check that nothing has changed.
    pub(crate) fn state(&self) -> Value {
        let get = |path: &str| self.as_root("GET", path, &Value::Null).body;
        json!([
            get("/v1/jobs?queue=orders.a"),
            get("/v1/queues/orders.a"),
            get("/v1/schedules/orders.a"),
            get("/v1/locks/orders.a").contains("\"root\"")
        ])
    }
}
