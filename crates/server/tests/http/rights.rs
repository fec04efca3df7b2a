//! Every right over every endpoint: a token can do what it is for, with the names that it is for, and nothing else.

use super::client::Reply;
use super::server::Server;
use super::tokens::{Tokens, send};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Which right an operation of the document needs; `None`: no token at all. A new one has to be put here.
fn needed(operation: &str) -> Option<&'static str> {
    let (method, path) = operation.split_once(' ').unwrap();
    Some(match (method, path) {
        (_, "/healthz" | "/readyz" | "/openapi.json" | "/docs" | "/docs/style.css") => return None,
        ("POST", "/v1/queues/{queue}/jobs") => "push",
        ("POST", "/v1/queues/{queue}/reserve" | "/v1/queues/{queue}/take") => "work",
        ("POST", "/v1/reserve" | "/v1/settle" | "/v1/extend") => "work",
        ("POST", path) if path.starts_with("/v1/leases/{receipt}/") => "work",
        (_, "/v1/locks" | "/v1/locks/{name}") => "lock",
        ("GET", "/v1/jobs" | "/v1/jobs/{id}" | "/v1/queues" | "/v1/queues/{queue}") => "read",
        ("GET", "/v1/schedules" | "/v1/schedules/{name}" | "/v1/events" | "/metrics") => "read",
        ("PATCH" | "DELETE", "/v1/jobs/{id}") => "change",
        ("POST", "/v1/jobs/{id}/cancel" | "/v1/jobs/{id}/retry" | "/v1/jobs/{id}/run") => "change",
        ("POST", "/v1/jobs/cancel" | "/v1/jobs/retry" | "/v1/jobs/delete") => "change",
        ("PUT", "/v1/queues/{queue}") | ("PUT" | "DELETE", "/v1/schedules/{name}") => "admin",
        ("POST", path) if path.starts_with("/v1/queues/{queue}/") => "admin",
        _ => panic!("say which right {operation} needs"),
    })
}

const RIGHTS: [&str; 6] = ["push", "work", "read", "change", "lock", "admin"];

/// A server with something of everything in the queue `orders.a`, and how it is called.
struct World {
    server: Server,
    tokens: Tokens,
    root: String,
    operations: BTreeSet<String>,
    /// A job that waits, and a lease.
    job: String,
    receipt: String,
}

impl World {
    fn new() -> Self {
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
        let mut world = Self { server, tokens, root, operations, job: String::new(), receipt: String::new() };
        let push = |body: &Value| world.as_root("POST", "/v1/queues/orders.a/jobs", body).expect(201);
        let id = |pushed: Value| pushed["id"].as_str().unwrap().to_owned();
        push(&json!({"payload": 1}));
        let job = id(push(&json!({"payload": 1, "delay": "1h"})));
        let handout = world.as_root("POST", "/v1/queues/orders.a/reserve", &json!({})).ok();
        let receipt = handout["leases"][0]["receipt"].as_str().unwrap().to_owned();
        let schedule = json!({"every": "1h", "job": {"queue": "orders.a", "payload": 1}});
        world.as_root("PUT", "/v1/schedules/orders.a", &schedule).ok();
        world.as_root("PUT", "/v1/locks/orders.a", &json!({"owner": "root", "ttl": "1h"})).ok();
        world.job = job;
        world.receipt = receipt;
        world
    }

    fn as_root(&self, method: &str, path: &str, body: &Value) -> Reply {
        send(&self.server, &self.root, method, path, &body.to_string())
    }

    /// Calls an operation on what is there, naming `orders.a` wherever it can.
    fn call(&self, token: &str, operation: &str) -> Reply {
        let (method, template) = operation.split_once(' ').unwrap();
        let path = template
            .replace("{queue}", "orders.a")
            .replace("{name}", "orders.a")
            .replace("{id}", &self.job)
            .replace("{receipt}", &self.receipt);
        let named = json!([{"id": self.job}]);
        let (query, body) = match operation {
            "GET /v1/jobs" => ("?queue=orders.a", Value::Null),
            "GET /v1/events" => ("?queue=orders.a", Value::Null),
            "DELETE /v1/locks" => ("?owner=nobody", Value::Null),
            "DELETE /v1/locks/{name}" => ("?owner=nobody&fence=1", Value::Null),
            "PUT /v1/locks/{name}" => ("", json!({"owner": "somebody"})),
            "POST /v1/queues/{queue}/jobs" => ("", json!({"payload": 1, "delay": "1h"})),
            "POST /v1/reserve" => ("", json!({"jobs": named})),
            "POST /v1/queues/{queue}/take" => ("", json!({"jobs": named})),
            "POST /v1/settle" => ("", json!([{"receipt": self.receipt, "fail": {"message": "no"}}])),
            "POST /v1/extend" => ("", json!([{"receipt": self.receipt}])),
            "POST /v1/leases/{receipt}/progress" => ("", json!({"percent": 1})),
            "POST /v1/leases/{receipt}/fail" => ("", json!({"message": "no"})),
            "PUT /v1/queues/{queue}" => ("", json!({"max_attempts": 7})),
            "PUT /v1/schedules/{name}" => ("", json!({"every": "2h", "job": {"queue": "orders.a", "payload": 1}})),
            "POST /v1/jobs/cancel" | "POST /v1/jobs/retry" | "POST /v1/jobs/delete" => {
                ("", json!({"queue": "orders.a", "tag": "none"}))
            }
            _ => ("", Value::Null),
        };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        send(&self.server, token, method, &format!("{path}{query}"), &body)
    }

    /// What of `orders.a` there is, to see that nothing has changed.
    fn state(&self) -> Value {
        let get = |path: &str| self.as_root("GET", path, &Value::Null).body;
        json!([
            get("/v1/jobs?queue=orders.a"),
            get("/v1/queues/orders.a"),
            get("/v1/schedules/orders.a"),
            get("/v1/locks/orders.a").contains("\"root\"")
        ])
    }
}

/// Whether a right is good for what needs another.
fn is_enough(right: &str, needed: &str) -> bool {
    right == needed || right == "admin"
}

/// Whether it was refused for want of a right: in a batch, of each element.
fn is_forbidden(reply: &Reply) -> bool {
    reply.status == 403 || (reply.body.starts_with('[') && reply.json()[0]["code"] == "forbidden")
}

#[test]
fn a_token_can_do_what_it_is_for_and_nothing_else() {
    for right in RIGHTS {
        let world = World::new();
        let token = world.tokens.create("tried", &format!("{right}:orders.*"));
        super::server::eventually(|| send(&world.server, &token, "GET", "/nowhere", "").status == 404);
        // What it may not do comes first, since what it may do changes things.
        let (may, may_not): (Vec<_>, Vec<_>) = world
            .operations
            .iter()
            .filter(|operation| needed(operation).is_some())
            .partition(|operation| is_enough(right, needed(operation).unwrap()));
        let before = world.state();
        for operation in may_not {
            let reply = world.call(&token, operation);
            assert!(reply.status == 403, "{right} could {operation}: {reply:?}");
            reply.problem(403, "forbidden");
        }
        assert_eq!(world.state(), before);
        for operation in may {
            // What is not said of one name is for those with all names.
            let wants_all = matches!(&**operation, "DELETE /v1/locks" | "GET /metrics");
            if operation.as_str() == "GET /v1/events" {
                continue;
            }
            let reply = world.call(&token, operation);
            assert_eq!(is_forbidden(&reply), wants_all, "{right}, {operation}: {reply:?}");
            assert!(reply.status != 401 && reply.status < 500, "{right}, {operation}: {reply:?}");
        }
    }
}

#[test]
fn a_token_for_other_names_can_do_nothing() {
    let world = World::new();
    let token = world.tokens.create("tried", "admin:mail.*");
    super::server::eventually(|| send(&world.server, &token, "GET", "/nowhere", "").status == 404);
    let before = world.state();
    for operation in world.operations.iter().filter(|operation| needed(operation).is_some()) {
        let reply = match &**operation {
            // Lists show what there is a right to.
            "GET /v1/events" => continue,
            "GET /v1/queues" | "GET /v1/schedules" | "GET /v1/locks" => {
                let list = world.call(&token, operation).ok();
                assert!(!list.to_string().contains("orders.a"), "{list}");
                continue;
            }
            _ => world.call(&token, operation),
        };
        assert!(is_forbidden(&reply), "{operation}: {reply:?}");
        // Of a job of others only that it is.
        assert!(
            !reply.body.contains("orders.a")
                || operation.contains("{queue}")
                || operation.contains("{name}")
                || operation.contains("/v1/jobs")
                || operation.contains("/v1/events"),
            "{operation}: {reply:?}"
        );
    }
    assert_eq!(world.state(), before);
    // By jobs of its own it gets no further: not to a queue of others, and not by their schedule's name.
    let push = |extra: Value| {
        let mut body = json!({"payload": 1});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        send(&world.server, &token, "POST", "/v1/queues/mail.a/jobs", &body.to_string())
    };
    let put = |path: &str, body: Value| send(&world.server, &token, "PUT", path, &body.to_string());
    put("/v1/queues/mail.a", json!({"target": {"queue": "mail.b"}})).ok();
    push(json!({})).expect(201);
    push(json!({"target": {"queue": "orders.a"}})).problem(403, "forbidden");
    push(json!({"when_exhausted": {"move": "orders.a"}})).problem(403, "forbidden");
    push(json!({"target": {"queue": "mail.b"}, "when_exhausted": {"move": "mail.c"}})).expect(201);
    put("/v1/queues/mail.a", json!({"target": {"queue": "orders.a"}})).problem(403, "forbidden");
    put("/v1/queues/mail.a", json!({"when_exhausted": {"move": "orders.a"}})).problem(403, "forbidden");
    put("/v1/schedules/orders.a", json!({"every": "2h", "job": {"queue": "mail.a", "payload": 1}}))
        .problem(403, "forbidden");
    let batch = r#"[{"payload": 1}, {"payload": 2, "target": {"queue": "orders.a"}}]"#;
    let answers = send(&world.server, &token, "POST", "/v1/queues/mail.a/jobs", batch).ok();
    assert_eq!((&answers[0]["state"], &answers[1]["code"]), (&json!("ready"), &json!("forbidden")));
    let named = json!({"jobs": [{"id": world.job}]}).to_string();
    send(&world.server, &token, "POST", "/v1/queues/mail.a/reserve", &named).problem(403, "forbidden");
    send(&world.server, &token, "POST", "/v1/queues/mail.a/take", &named).problem(403, "forbidden");
}
