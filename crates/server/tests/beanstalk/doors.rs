//! The same jobs through both doors.

use super::script::Talk;
use super::server::Both;
use serde_json::json;

#[test]
fn jobs_are_the_same_through_both_doors() {
    let server = Both::with(&["--store", "memory"]);
    let mut talk = Talk::open(server.address);
    talk.ask("use mail");
    talk.send(b"put 7 0 60 5\r\nhello\r\n");
    let id = talk.line().strip_prefix("INSERTED ").unwrap().to_owned();
    let job = server.http.job(&id);
    assert_eq!((&job["queue"], &job["kind"], &job["priority"]), (&json!("mail"), &json!("beanstalk"), &json!(7)));
    assert_eq!((&job["state"], &job["lease"]), (&json!("ready"), &json!("1m")));

    // Cancelled over HTTP, it is gone here; asked to stop while it runs, it does not come back.
    server.http.call(&format!("/v1/jobs/{id}/cancel")).ok();
    assert_eq!(talk.ask(&format!("peek {id}")), "NOT_FOUND");
    assert_eq!(talk.ask(&format!("delete {id}")), "NOT_FOUND");
    talk.send(b"put 7 0 60 5\r\nhello\r\n");
    let id = talk.line().strip_prefix("INSERTED ").unwrap().to_owned();
    assert_eq!(talk.ask(&format!("reserve-job {id}")), format!("RESERVED {id} 5"));
    talk.line();
    assert_eq!(server.http.call(&format!("/v1/jobs/{id}/cancel")).ok()["outcome"], "cancel_requested");
    assert_eq!(talk.ask(&format!("touch {id}")), "NOT_FOUND");
    assert_eq!(talk.ask(&format!("release {id} 1 0")), "RELEASED");
    assert_eq!(server.http.job(&id)["state"], "cancelled");
    talk.send(b"put 7 0 60 5\r\nhello\r\n");
    let id = talk.line().strip_prefix("INSERTED ").unwrap().to_owned();
    talk.ask(&format!("reserve-job {id}"));
    talk.line();
    server.http.call(&format!("/v1/jobs/{id}/cancel")).ok();
    assert_eq!(talk.ask(&format!("touch {id}")), "NOT_FOUND");
    assert_eq!(talk.ask(&format!("delete {id}")), "DELETED");
    assert_eq!(server.http.job(&id)["state"], "succeeded");

    // One that was pushed over HTTP is reserved here, and completed by a delete.
    let pushed = server.http.push_to("mail", &json!({"payload": {"to": "a"}, "kind": "letter", "lease": "30s"}));
    talk.ask("watch mail");
    assert_eq!(talk.ask("reserve"), format!("RESERVED {pushed} 10"));
    assert_eq!(talk.line(), r#"{"to":"a"}"#);
    assert_eq!(talk.stats(&format!("stats-job {pushed}")).unwrap()["ttr"], "30");
    assert_eq!(talk.ask(&format!("delete {pushed}")), "DELETED");
    assert_eq!(server.http.job(&pushed)["state"], "succeeded");

    // A buried job is a dead letter, and kept until it is retried.
    talk.send(b"put 7 0 60 5\r\nhello\r\n");
    let id = talk.line().strip_prefix("INSERTED ").unwrap().to_owned();
    talk.ask(&format!("reserve-job {id}"));
    talk.line();
    assert_eq!(talk.ask(&format!("bury {id} 9")), "BURIED");
    let job = server.http.job(&id);
    assert_eq!((&job["state"], &job["message"]), (&json!("failed"), &json!("buried")));
    assert_eq!((&job["priority"], job.get("finished_at")), (&json!(9), None));
    assert_eq!(job["marks"], json!({"buries": 1}));
    server.http.call(&format!("/v1/jobs/{id}/retry")).ok();
    let stats = talk.stats(&format!("stats-job {id}")).unwrap();
    assert_eq!((&*stats["state"], &*stats["buries"], &*stats["reserves"]), ("ready", "1", "0"));
    assert_eq!(talk.ask(&format!("delete {id}")), "DELETED");
    assert_eq!(server.http.get(&format!("/v1/jobs/{id}")).status, 404);
}

/// A job that was put here ends as a dead letter only if its queue limits attempts.
#[test]
fn a_queue_limits_the_attempts_of_jobs_that_are_put() {
    let server = Both::with(&["--store", "memory"]);
    let mut talk = Talk::open(server.address);
    let fail = |id: &str, queue: &str| {
        let leases = server.http.post(&format!("/v1/queues/{queue}/reserve"), &json!({})).ok();
        let receipt = leases["leases"][0]["receipt"].as_str().unwrap().to_owned();
        server.http.post(&format!("/v1/leases/{receipt}/fail"), &json!({"retry_after": "0s"})).ok();
        server.http.job(id)["state"].as_str().unwrap().to_owned()
    };
    talk.ask("use free");
    talk.send(b"put 7 0 60 5\r\nhello\r\n");
    let id = talk.line().strip_prefix("INSERTED ").unwrap().to_owned();
    for _ in 0..20 {
        assert_eq!(fail(&id, "free"), "ready");
    }
    server.http.put("/v1/queues/limited", &json!({"max_attempts": 2})).ok();
    talk.ask("use limited");
    talk.send(b"put 7 0 60 5\r\nhello\r\n");
    let id = talk.line().strip_prefix("INSERTED ").unwrap().to_owned();
    assert_eq!((fail(&id, "limited"), fail(&id, "limited")), ("ready".into(), "failed".into()));
    assert_eq!(talk.ask("peek-buried"), format!("FOUND {id} 5"));
}
