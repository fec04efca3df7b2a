//! `If-Match`, `If-None-Match`: of jobs read, of schedules, and of queues' settings.

use super::client::Reply;
use super::server::Server;
use serde_json::json;

fn ask(server: &Server, method: &str, path: &str, header: (&str, &str), body: &str) -> Reply {
    server.send(method, path, &[header], body)
}

#[track_caller]
fn etag(reply: &Reply) -> String {
    reply.header("etag").unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

#[test]
fn what_is_known_is_not_sent_again() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1}));
    server.put("/v1/schedules/s", &json!({"every": "1h", "job": {"payload": 1}})).ok();
    server.put("/v1/queues/q", &json!({"lease": "5s"})).ok();
    for path in [format!("/v1/jobs/{id}"), "/v1/schedules/s".to_owned(), "/v1/queues/q".to_owned()] {
        let first = server.get(&path);
        first.ok();
        let known = etag(&first);
        for value in [&*known, "*", &format!("\"9\", W/{known}")] {
            let reply = ask(&server, "GET", &path, ("if-none-match", value), "");
            assert_eq!((reply.status, etag(&reply), &*reply.body), (304, known.clone(), ""), "{path}: {value}");
        }
        let reply = ask(&server, "GET", &path, ("if-none-match", "\"9\""), "");
        assert_eq!(reply.ok(), first.json(), "{path}");
    }
}

#[test]
fn a_schedule_is_changed_as_it_was_read_only() {
    let server = Server::start();
    let (path, body) = ("/v1/schedules/s", json!({"every": "1h", "job": {"payload": 1}}).to_string());
    let put = |name: &str, value: &str, body: &str| ask(&server, "PUT", path, (name, value), body);
    let missing = put("if-match", "\"7\"", &body).problem(412, "version_mismatch");
    assert_eq!((&missing["schedule"], &missing["current_version"]), (&json!("s"), &json!(0)));
    put("if-match", "*", &body).problem(412, "version_mismatch");
    let first = put("if-none-match", "*", &body);
    first.ok();
    put("if-none-match", "*", &body).problem(412, "version_mismatch");
    let other = json!({"every": "2h", "job": {"payload": 2}}).to_string();
    let second = put("if-match", &etag(&first), &other);
    assert_eq!(second.ok()["schedule"]["every"], "2h");
    put("if-match", &etag(&first), &body).problem(412, "version_mismatch");
    ask(&server, "PUT", "/v1/schedules/s?dry_run=true", ("if-match", &etag(&first)), &body)
        .problem(412, "version_mismatch");
    assert_eq!(server.get(path).ok(), second.json());
    ask(&server, "DELETE", path, ("if-match", &etag(&first)), "").problem(412, "version_mismatch");
    assert_eq!(ask(&server, "DELETE", path, ("if-match", &etag(&second)), "").status, 204);
    ask(&server, "DELETE", path, ("if-match", "*"), "").problem(404, "schedule_not_found");
    for (name, value) in [("if-match", "7"), ("if-none-match", "\"7\"")] {
        put(name, value, &body).problem(400, "invalid");
    }
    server.get(path).problem(404, "schedule_not_found");
}

#[test]
fn settings_are_changed_as_they_were_read_only() {
    let server = Server::start();
    let put = |name: &str, value: &str, lease: &str| {
        ask(&server, "PUT", "/v1/queues/q", (name, value), &json!({"lease": lease}).to_string())
    };
    let none = server.get("/v1/queues/q");
    assert_eq!(etag(&none), "\"0\"");
    let first = put("if-match", &etag(&none), "5s");
    assert_eq!(first.ok()["settings"]["lease"], "5s");
    assert_eq!(etag(&server.get("/v1/queues/q")), etag(&first));
    let stale = put("if-match", &etag(&none), "6s").problem(412, "version_mismatch");
    assert_eq!(stale["queue"], "q");
    put("if-none-match", "*", "6s").problem(412, "version_mismatch");
    // A pause is one of the settings.
    server.call("/v1/queues/q/pause").ok();
    put("if-match", &etag(&first), "6s").problem(412, "version_mismatch");
    let now = etag(&server.get("/v1/queues/q"));
    let second = put("if-match", &now, "6s").ok();
    assert_eq!((&second["settings"]["lease"], &second["paused"]), (&json!("6s"), &json!(true)));
    server.put("/v1/queues/q", &json!({"lease": "7s"})).ok();
}
