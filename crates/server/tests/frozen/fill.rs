//! Fills a store with everything that there is: jobs in every state, with every option, and all that is not a job.

use super::content::Content;
use super::site::Site;
use crate::http::server::{Server, eventually};
use duetime_core::api::Timestamp;
use duetime_core::limits::DAY_MS;
use duetime_core::{Clock as _, SystemClock};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

/// The queue of a job whose outcome the database does not know yet.
pub(crate) const OUTBOX: &str = "outbox";
/// The queue of a row that no server has seen.
pub(crate) const INBOX: &str = "inbox";
/// Queues that stay paused. The pause of another one, `later`, ends during a test.
pub(crate) const PAUSED_QUEUES: [&str; 4] = ["stopped", "hooks", "lists", "forward"];
/// The lock that is held.
pub(crate) const LOCK: &str = "stock/42";

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Answers what the store holds then.
pub(crate) fn fill(site: &Site) -> Content {
    let server = site.serve(&["--beanstalk", "127.0.0.1:0", "--deliver-redis", "redis://shop.example/3"]);
    set_queues(&server);
    push(&server);
    work(&server);
    speak_beanstalk(&server);
    set_schedules(&server);
    lock(&server);
    if let Some(sql) = site.sql() {
        sql.administer("INSERT INTO duetime_inbox (queue, payload) VALUES ('no queue either', 'x')");
        eventually(|| sql.ask("SELECT COUNT(error) FROM duetime_inbox").trim() == "1");
        lease(&server, OUTBOX, &json!({"kind": "unrecorded", "payload": 1}));
    }
    let content = Content::read(&server, SystemClock::new().wall());
    server.stop();
    content
}

fn set_queues(server: &Server) {
    let exponential = json!({"exponential": {"first": "1500ms", "factor": 2.5, "max": "1h", "jitter": 0.1}});
    let settings = [
        (
            "orders",
            json!({
                "lease": "2m", "max_age": "2d", "max_attempts": 5, "max_crashes": 3, "max_running": 50,
                "rate": {"burst": 20, "per_second": 100}, "retention": {"failed": "30d", "succeeded": "7d"},
                "retry": exponential, "when_exhausted": {"move": "orders-dead"},
            }),
        ),
        (
            "steps",
            json!({"retry": {"steps": ["1s", "5s", "1m"]}, "when_exhausted": "restart", "rate": {"per_second": 0.5}}),
        ),
        ("later", json!({"retry": {"fixed": {"delay": "2h"}}, "when_exhausted": "drop"})),
        (
            "hooks",
            json!({"target": {
                "url": "https://shop.example/hook", "method": "PUT", "headers": {"x-shop": "7"}, "timeout": "20s",
                "final_statuses": [404, 410],
            }}),
        ),
        (
            "lists",
            json!({"target": {"redis_list": {"url": "redis://shop.example/3", "key": "queues:mail", "as": "laravel"}}}),
        ),
        ("forward", json!({"target": {"queue": "mail"}})),
        ("stopped", json!({"lease": "45s"})),
    ];
    for (queue, settings) in settings {
        server.put(&format!("/v1/queues/{queue}"), &settings).ok();
    }
    server.post("/v1/queues/later/pause", &json!({"for": "2h"})).ok();
    for queue in PAUSED_QUEUES {
        server.call(&format!("/v1/queues/{queue}/pause")).ok();
    }
    server.post("/v1/queues/stopped/pause", &json!({"for": "3000d"})).ok();
}

/// Jobs without workers.
fn push(server: &Server) {
    let retry = json!({"exponential": {"first": "250ms", "factor": 3.0, "max": "10m", "jitter": 0.5}});
    let jobs = [
        ("mail", json!({"kind": "soon", "payload": {"n": 1.50}, "delay": "20m"})),
        ("mail", json!({"kind": "far", "payload": [1, null, "x"], "delay": "3000d"})),
        ("mail", json!({"kind": "now", "payload": "ready"})),
        ("mail", json!({"kind": "bytes", "payload_base64": "AP+ACg==", "delay_ms": 1_234_567})),
        ("mail", json!({"kind": "empty", "payload_base64": ""})),
        ("mail", json!({"kind": "Ünï code\u{2028}", "payload": "\u{0}ünï\u{2028}\u{1f680}", "delay": "30m"})),
        ("mail", json!({"kind": "large", "payload": "0123456789".repeat(2_000), "delay": "40m"})),
        (
            "orders",
            json!({
                "kind": "Ship It ", "payload": {"order": 1}, "delay": "50m", "priority": 0, "key": "Order-1 ",
                "key_until": "finished", "origin": "placed 1", "tags": ["a", "ä:b", "shop:7"], "lease": "90s",
                "expires": "30d", "trace": TRACE, "retry": retry, "max_attempts": 7, "max_age": "1d",
                "max_crashes": 2, "when_exhausted": {"move": "graveyard"},
            }),
        ),
        (
            "orders",
            json!({"kind": "dropped", "payload": 2, "delay": "9d", "priority": 4_294_967_295_u32, "when_exhausted": "drop"}),
        ),
        ("orders", json!({"kind": "kept", "payload": 3, "delay": "9d", "when_exhausted": "keep", "max_attempts": 0})),
        ("stopped", json!({"kind": "stopped", "payload": 4, "key": "Order-1 ", "origin": "placed 1"})),
        ("later", json!({"kind": "paused for a while", "payload": 5})),
        ("steps", json!({"kind": "steps", "payload": 6, "retry": {"steps": ["7s"]}})),
        ("hooks", json!({"kind": "hook", "payload": 7})),
        ("hooks", json!({"kind": "own target", "payload": 8, "target": {"url": "https://shop.example/own"}})),
        ("lists", json!({"kind": "list", "payload": 9})),
        ("forward", json!({"kind": "forward", "payload": 10})),
    ];
    for (queue, job) in jobs {
        server.push_to(queue, &job);
    }
    let lines = "{\"kind\": \"lines\", \"delay\": \"15m\", \"payload\": {\"several\":\n  \"lines\", \"n\": 1.0}}";
    server.send("POST", "/v1/queues/mail/jobs", &[], lines).expect(201);
    let cancelled = server.push_to("mail", &json!({"kind": "cancelled", "payload": 1, "delay": "1h", "key": "again"}));
    server.post(&format!("/v1/jobs/{cancelled}/cancel"), &json!({})).ok();
    let edited = server.push_to("mail", &json!({"kind": "edited", "payload": 1, "delay": "1h", "key": "again"}));
    let change = json!({"priority": 3, "delay": "2h", "payload": {"edited": true}});
    server.send("PATCH", &format!("/v1/jobs/{edited}"), &[], &change.to_string()).ok();
}

/// Pushes a job to a queue in which nothing else is due, and leases it; returns the path of its lease.
fn lease(server: &Server, queue: &str, job: &Value) -> String {
    server.push_to(queue, job);
    lease_again(server, queue, "12h")
}

fn lease_again(server: &Server, queue: &str, lease: &str) -> String {
    let request = json!({"lease": lease, "wait": "30s", "limit": 1, "worker": "filler"});
    let leases = server.post(&format!("/v1/queues/{queue}/reserve"), &request).ok();
    format!("/v1/leases/{}", leases["leases"][0]["receipt"].as_str().unwrap())
}

/// Jobs that were worked on.
fn work(server: &Server) {
    let job = |kind: &str| json!({"kind": kind, "payload": {"kind": kind}});
    let leased = |kind: &str| lease(server, "work", &job(kind));
    let settle = |path: &str, how: &str, body: &Value| server.post(&format!("{path}/{how}"), body).ok();

    settle(&leased("bytes answered"), "complete", &json!({"result_base64": "AQL/"}));
    let done = leased("answered");
    settle(&done, "progress", &json!({"percent": 100, "note": "all ✓"}));
    settle(&done, "complete", &json!({"result": {"rows": [1, 2.0]}}));
    server.push_to("work", &job("taken"));
    server.post("/v1/queues/work/take", &json!({})).ok();
    settle(&leased("dead"), "fail", &json!({"message": "no\nway", "final": true}));
    let tired = leased("tried twice");
    settle(&tired, "fail", &json!({"message": "once", "retry_after": "2h"}));
    let id = tired["/v1/leases/".len()..].split('.').next().unwrap();
    server.call(&format!("/v1/jobs/{id}/run")).ok();
    settle(&lease_again(server, "work", "60s"), "fail", &json!({"message": "twice", "retry_after": "3h"}));
    let dead =
        lease(server, "orders-now", &json!({"kind": "moved", "payload": 1, "when_exhausted": {"move": "graveyard"}}));
    settle(&dead, "fail", &json!({"message": "dead", "final": true}));
    settle(&leased("released"), "release", &json!({"delay": "30m"}));
    let again = lease(server, "retried", &job("retried by hand"));
    settle(&again, "fail", &json!({"message": "dead", "final": true}));
    let id = again["/v1/leases/".len()..].split('.').next().unwrap();
    server.call(&format!("/v1/jobs/{id}/retry")).ok();
    let crashed = server.push_to("crashed", &job("crashed"));
    lease_again(server, "crashed", "1s");
    eventually(|| server.job(&crashed)["crashes"] == 1);

    settle(&leased("running"), "progress", &json!({"percent": 40, "note": "half way"}));
    let asked = leased("asked to stop");
    let id = asked["/v1/leases/".len()..].split('.').next().unwrap();
    server.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).ok();
    let keyed = json!({"kind": "started", "payload": 1, "key": "started", "key_until": "started"});
    lease(server, "work", &keyed);
    server.push_to("work", &json!({"kind": "next", "payload": 2, "key": "started", "delay": "1h"}));
}

/// Jobs with the counters of the beanstalk protocol.
fn speak_beanstalk(server: &Server) {
    let address = server.banner.lines().find_map(|line| line.strip_prefix("  beanstalk    ")).unwrap();
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    // A reserved job comes with a line of its body.
    let mut ask = |line: &str| {
        stream.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        for _ in 0..if line == "reserve" { 2 } else { 1 } {
            stream.read_line(&mut answer).unwrap();
        }
        answer.trim_end().to_owned()
    };
    let id = |answer: &str| {
        assert!(answer.starts_with("INSERTED ") || answer.starts_with("RESERVED "), "{answer}");
        answer.split([' ', '\r']).nth(1).unwrap().to_owned()
    };
    assert_eq!(ask("use tube"), "USING tube");
    assert_eq!(ask("watch tube"), "WATCHING 2");
    id(&ask("put 5 3600 60 3\r\nlow"));
    id(&ask("put 6 3600 100000 4\r\nlong"));
    let buried = id(&ask("put 0 0 60 1\r\nb"));
    assert_eq!(id(&ask("reserve")), buried);
    assert_eq!(ask(&format!("bury {buried} 9")), "BURIED");
    let kicked = id(&ask("put 1 0 60 1\r\nk"));
    assert_eq!(id(&ask("reserve")), kicked);
    assert_eq!(ask(&format!("release {kicked} 2 600")), "RELEASED");
    assert_eq!(ask(&format!("kick-job {kicked}")), "KICKED");
}

fn set_schedules(server: &Server) {
    let far = Timestamp(SystemClock::new().wall() + 3_000 * DAY_MS).to_string();
    let job = json!({
        "queue": "orders", "kind": "report", "payload": {"of": "the year"}, "key": "report", "on_conflict": "keep",
        "priority": 5, "tags": ["report"], "lease": "5m", "expires": "1h", "max_attempts": 2,
        "retry": {"steps": ["1m"]}, "when_exhausted": "drop",
    });
    let schedules = [
        (
            "yearly",
            json!({"cron": "0 9 1 1 *", "time_zone": "Asia/Shanghai", "missed": "skip", "overlap": "skip", "job": job}),
        ),
        ("daily", json!({"every": "1d", "job": {"payload_base64": "/w=="}, "end": far})),
        ("in-seconds", json!({"cron": "30 0 9 1 1 *", "job": {"payload": 1}, "start": far})),
        ("paused", json!({"every": "10d", "job": {"payload": 2}, "paused": true})),
        ("paused-for-a-while", json!({"every": "10d", "job": {"payload": 3}, "paused": true, "paused_until": far})),
    ];
    for (name, schedule) in schedules {
        server.put(&format!("/v1/schedules/{name}"), &schedule).ok();
    }
    server.call("/v1/schedules/daily/run").expect(201);
}

fn lock(server: &Server) {
    let path = format!("/v1/locks/{}", LOCK.replace('/', "%2F"));
    server.put(&path, &json!({"owner": "worker 7", "ttl": "24h"})).ok();
    server.put("/v1/locks/other", &json!({"owner": "ä", "ttl": "20h"})).ok();
    let fence = server.put("/v1/locks/released", &json!({"owner": "b", "ttl": "1h"})).ok()["fence"].clone();
    let released = server.send("DELETE", &format!("/v1/locks/released?owner=b&fence={fence}"), &[], "");
    assert_eq!(released.status, 204, "{released:?}");
}
