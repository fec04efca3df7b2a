//! `If-Match`, `If-None-Match`: of jobs read, of schedules, and of queues' settings.

use super::client::Reply;
use super::server::Server;
use duetime_store::testing::RedisServer;
use serde_json::json;
use std::sync::Barrier;

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

/// What these threads do begins at the same moment.
fn at_once<T: Send>(count: usize, act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (begin, act) = (&Barrier::new(count), &act);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|n| {
                scope.spawn(move || {
                    begin.wait();
                    act(n)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// On Redis too, where a job is read, changed and written in several steps: both of two changes are kept, and of those that
/// name one version, one is made.
#[test]
fn changes_at_the_same_moment_are_not_lost() {
    let redis = RedisServer::start();
    let server = Server::with(&["--broker", &redis.url()]);
    for round in 0..20 {
        let id = server.push(&json!({"payload": 0, "delay": "1h"}));
        let path = format!("/v1/jobs/{id}");
        let changes = [json!({"payload": round + 1}).to_string(), json!({"priority": 7}).to_string()];
        for reply in at_once(2, |n| server.send("PATCH", &path, &[], &changes[n])) {
            reply.ok();
        }
        let job = server.job(&id);
        assert_eq!((&job["payload"], &job["priority"]), (&json!(round + 1), &json!(7)));
        let version = etag(&server.get(&path));
        let replies = at_once(4, |n| {
            let change = if n % 2 == 0 { json!({"payload": n}) } else { json!({"priority": n}) };
            ask(&server, "PATCH", &path, ("if-match", &version), &change.to_string())
        });
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412, 412, 412]);
    }
}
