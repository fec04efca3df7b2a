//! Rights over time: a token is revoked, expires or is narrowed while a request waits, while its body arrives, or while it
//! streams. Authority counts when something is done or given.

use super::needed;
use super::world::World;
use crate::http::client::{Connection, Reply, request};
use crate::http::server::eventually;
use crate::http::tokens::send;
use serde_json::{Value, json};

/// How a token loses its rights to `orders.*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Revoked,
    Expired,
    /// It keeps its rights for other names.
    Narrowed,
}

const LOSSES: [Loss; 3] = [Loss::Revoked, Loss::Expired, Loss::Narrowed];

const NAME: &str = "tried";

/// A token with all rights to `orders.*`, which it is going to lose.
fn token(world: &World) -> String {
    world.token(NAME, "admin:orders.*")
}

impl Loss {
    /// Takes the rights away, and waits until the server knows.
    fn happen(self, world: &World, token: &str) {
        let file = world.tokens.file();
        let change = |from: &str, to: &str| {
            let text = std::fs::read_to_string(&file).unwrap();
            assert_eq!(text.matches(from).count(), 1, "{text}");
            std::fs::write(&file, text.replace(from, to)).unwrap();
        };
        match self {
            Self::Revoked => drop(world.tokens.run(&["revoke", NAME])),
            Self::Expired => change("name = \"tried\"", "name = \"tried\"\nexpires = \"2020-01-01T00:00:00.000Z\""),
            Self::Narrowed => change("admin:orders.*", "admin:mail.*"),
        }
        eventually(|| send(&world.server, token, "GET", "/v1/queues/orders.a", "").status == self.status());
    }

    /// The status of a refusal.
    fn status(self) -> u16 {
        if self == Self::Narrowed { 403 } else { 401 }
    }

    fn code(self) -> &'static str {
        if self == Self::Narrowed { "forbidden" } else { "unauthorized" }
    }

    /// Whether an answer refuses everything that was asked for.
    fn refuses(self, reply: &Reply) -> bool {
        let unknown = ["forbidden", "not_found", "lease_lost", "schedule_not_found"];
        let is_refused = |problem: &Value| unknown.iter().any(|code| problem["code"] == *code);
        let all = |problems: &Value| problems.as_array().is_some_and(|all| all.iter().all(is_refused));
        match serde_json::from_str(&reply.body) {
            _ if self != Self::Narrowed => reply.status == 401,
            Ok(answers @ Value::Array(_)) => all(&answers),
            Ok(answer) if reply.status == 200 => all(&answer["refused"]),
            Ok(answer) => is_refused(&answer),
            Err(_) => false,
        }
    }
}

/// A part of the OpenAPI document.
fn part<'a>(world: &'a World, operation: &str) -> &'a Value {
    let (method, path) = operation.split_once(' ').unwrap();
    &world.document["paths"][path][method.to_lowercase()]
}

/// Operations that need a right, and of which this is true.
fn operations(world: &World, is_one: impl Fn(&Value) -> bool) -> Vec<&String> {
    world.operations.iter().filter(|&one| needed(one).is_some() && is_one(part(world, one))).collect()
}

#[test]
fn a_body_that_arrives_after_the_right_is_lost_does_nothing() {
    for loss in LOSSES {
        let world = World::new();
        let (token, before) = (token(&world), world.state());
        let bearer = format!("Bearer {token}");
        let mut sent = Vec::new();
        for operation in operations(&world, |part| part["requestBody"].is_object()) {
            let (method, path, body) = World::asked(operation, &world.there);
            let body = if body.is_empty() { "{}".to_owned() } else { body };
            let headers = [("authorization", &*bearer), ("expect", "100-continue")];
            let bytes = request(method, &path, &headers, &body);
            let (head, body) = bytes.split_at(bytes.len() - body.len());
            let mut connection = world.server.connect();
            connection.send(head);
            // All checks before the body have passed.
            assert_eq!(connection.reply().status, 100, "{operation}");
            sent.push((operation, connection, body.to_owned()));
        }
        assert!(sent.len() > 20, "{}", sent.len());
        loss.happen(&world, &token);
        for (operation, mut connection, body) in sent {
            connection.send(body);
            let reply = connection.reply();
            assert!(loss.refuses(&reply), "{loss:?}, {operation}: {reply:?}");
        }
        assert_eq!(world.state(), before, "{loss:?}");
    }
}

#[test]
fn a_form_that_arrives_after_the_right_is_lost_does_nothing() {
    for loss in LOSSES {
        let world = World::new();
        let (token, before) = (token(&world), world.state());
        let cookie = format!("duetime={token}");
        let page = world.server.send("GET", "/queues/orders.a", &[("cookie", &cookie)], "").body;
        let form = page.split_once("name=\"form\" value=\"").and_then(|(_, rest)| rest.split('"').next()).unwrap();
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("form", form), ("do", "purge")])
            .finish();
        let headers = [
            ("cookie", &*cookie),
            ("content-type", "application/x-www-form-urlencoded"),
            ("sec-fetch-site", "same-origin"),
            ("expect", "100-continue"),
        ];
        let bytes = request("POST", "/queues/orders.a", &headers, &body);
        let mut connection = world.server.connect();
        connection.send(&bytes[..bytes.len() - body.len()]);
        assert_eq!(connection.reply().status, 100);
        loss.happen(&world, &token);
        connection.send(body);
        let reply = connection.reply();
        assert!(!reply.header("location").is_some_and(|to| to.starts_with("/queues")), "{loss:?}: {reply:?}");
        assert_eq!(world.state(), before, "{loss:?}");
    }
}

/// Whether a schema has a field `wait`.
fn waits(document: &Value, schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let named = schema["$ref"].as_str().and_then(|to| to.strip_prefix("#/components/schemas/"));
            schema["properties"]["wait"].is_object()
                || named.is_some_and(|name| waits(document, &document["components"]["schemas"][name]))
                || ["oneOf", "allOf", "anyOf"]
                    .iter()
                    .any(|key| fields.get(*key).is_some_and(|all| waits(document, all)))
        }
        Value::Array(all) => all.iter().any(|schema| waits(document, schema)),
        _ => false,
    }
}

/// Requests that wait: at the queue `orders.b`, which is empty, for the lock `orders.a`, which is held, and for the end of a job
/// of `orders.a`. A new operation that waits must be added here.
fn waiting(world: &World, operation: &str) -> Vec<(String, Value)> {
    let waits = |path: &str, body: Value| (path.to_owned(), body);
    match operation {
        "POST /v1/queues/{queue}/reserve" => vec![
            waits("/v1/queues/orders.b/reserve", json!({"wait": "60s"})),
            waits("/v1/queues/orders.b/reserve", json!({"wait": "60s", "request_id": "one"})),
        ],
        "POST /v1/reserve" => vec![
            waits("/v1/reserve", json!({"queues": ["orders.b"], "wait": "60s"})),
            waits("/v1/reserve", json!({"queues": ["orders.c", "orders.b"], "wait": "60s", "request_id": "two"})),
        ],
        "PUT /v1/locks/{name}" => {
            vec![waits("/v1/locks/orders.a", json!({"owner": "tried", "ttl": "1h", "wait": "60s"}))]
        }
        "GET /v1/jobs/{id}" => vec![waits(&format!("/v1/jobs/{}?wait=60s", world.there.job), Value::Null)],
        other => panic!("say how {other} waits"),
    }
}

fn text(body: &Value) -> String {
    if body.is_null() { String::new() } else { body.to_string() }
}

#[test]
fn who_waits_gets_nothing_once_the_right_is_lost() {
    for loss in LOSSES {
        let world = World::new();
        let token = token(&world);
        let bearer = format!("Bearer {token}");
        let asks = |part: &Value| {
            let is_wait = |parameter: &Value| parameter["name"] == "wait";
            waits(&world.document, &part["requestBody"]["content"]["application/json"]["schema"])
                || part["parameters"].as_array().is_some_and(|all| all.iter().any(is_wait))
        };
        let mut sent = Vec::new();
        for operation in operations(&world, asks) {
            for (path, body) in waiting(&world, operation) {
                let mut connection = world.server.connect();
                let method = operation.split_once(' ').unwrap().0;
                connection.send(request(method, &path, &[("authorization", &bearer)], &text(&body)));
                sent.push((path, body, connection));
            }
        }
        assert_eq!(sent.len(), 6);
        loss.happen(&world, &token);
        let refused = |sent: Vec<(String, Value, Connection)>| {
            for (path, body, mut connection) in sent {
                let reply = connection.reply();
                let status = reply.problem(loss.status(), loss.code())["status"].clone();
                assert_eq!(status, loss.status(), "{loss:?}, {path} {body}");
            }
        };
        // One that may be repeated is left to end. The others end now, though nothing comes.
        let (repeatable, others) = sent.into_iter().partition(|(_, body, _)| body["request_id"].is_string());
        refused(others);
        for n in 0..5 {
            world.as_root("POST", "/v1/queues/orders.b/jobs", &json!({"payload": n})).expect(201);
        }
        refused(repeatable);
        // They have gone back, and their attempts do not count.
        let mut got = 0;
        while got < 5 {
            let ask = json!({"wait": "20s", "limit": 5});
            let reservation = world.as_root("POST", "/v1/queues/orders.b/reserve", &ask).ok();
            let leases = reservation["leases"].as_array().unwrap();
            assert!(!leases.is_empty() && leases.iter().all(|lease| lease["attempt"] == 1), "{loss:?}: {reservation}");
            got += leases.len();
        }
        let lock = world.as_root("GET", "/v1/locks/orders.a", &Value::Null).ok();
        assert_eq!(lock["owner"], "root", "{loss:?}");
    }
}

/// All that comes on a stream up to these words, or to its end.
fn until(stream: &mut Connection, words: &str) -> String {
    let mut all = String::new();
    while !all.contains(words) {
        let Some(chunk) = stream.chunk() else { break };
        all += &chunk;
    }
    all
}

#[test]
fn a_stream_tells_nothing_once_the_right_is_lost() {
    for loss in LOSSES {
        let world = World::new();
        let token = token(&world);
        let is_stream = |part: &Value| part["responses"]["200"]["content"]["text/event-stream"].is_object();
        let streams = operations(&world, is_stream);
        assert_eq!(streams, ["GET /v1/events"], "say what is streamed");
        // `/live` is the same on the dashboard.
        let (bearer, cookie) = (format!("Bearer {token}"), format!("duetime={token}"));
        let open = |path: &str, header: (&str, &str)| {
            let mut stream = world.server.connect();
            stream.send(request("GET", path, &[header], ""));
            assert_eq!(stream.reply().status, 200, "{path}");
            assert!(until(&mut stream, "subscribed\n").contains("subscribed"), "{path}");
            stream
        };
        let streams = [
            ("pushed", open("/v1/events", ("authorization", &bearer))),
            ("activity", open("/v1/events?every=100ms", ("authorization", &bearer))),
            ("activity", open("/live?every=100ms", ("cookie", &cookie))),
        ];
        loss.happen(&world, &token);
        world.as_root("POST", "/v1/queues/orders.a/jobs", &json!({"payload": 1})).expect(201);
        // The first thing that a narrowed token learns of.
        let pushed = world.as_root("POST", "/v1/queues/mail.a/jobs", &json!({"payload": 1})).expect(201);
        for (event, mut stream) in streams {
            let told = until(&mut stream, if loss == Loss::Narrowed { event } else { "no such words" });
            assert_eq!(told.contains(event), loss == Loss::Narrowed, "{loss:?} {event}: {told}");
            assert!(!told.contains("orders.a"), "{loss:?} {event}: {told}");
            if event == "pushed" && loss == Loss::Narrowed {
                assert!(told.contains(pushed["id"].as_str().unwrap()), "{told}");
            }
        }
    }
}
