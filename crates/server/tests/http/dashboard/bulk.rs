//! Bulk actions of the dashboard on all jobs that a search finds.

use super::Browser;
use crate::http::server::{Server, eventually};
use duetime_store::testing::RedisServer;
use serde_json::json;

#[test]
fn all_found_jobs_are_rescheduled_and_run() {
    let server = Server::start();
    server.push(&json!({"payload": 0}));
    let ids: Vec<String> = (1..4).map(|n| server.push(&json!({"payload": n, "delay": "1h"}))).collect();
    let browser = Browser::new(&server);
    let path = "/jobs?queue=q";
    let page = browser.get(path).body;
    assert!(["run_all", "reschedule_all"].iter().all(|action| page.contains(&format!("value=\"{action}\""))), "{page}");
    for wrong in ["", "soon", "30"] {
        let refused = browser.act(path, &[("do", "reschedule_all"), ("delay_all", wrong)]);
        assert!(refused.status == 400 && refused.body.contains("`delay`"), "{wrong}: {}", refused.body);
    }
    let asked = browser.act(path, &[("do", "reschedule_all"), ("delay_all", "2h")]);
    assert!(asked.status == 200 && asked.body.contains("this is for 4 jobs"), "{}", asked.body);
    assert!(asked.body.contains("name=\"delay_all\" value=\"2h\""), "{}", asked.body);
    assert_eq!(server.get("/v1/queues/q").ok()["ready"], 1, "nothing has been done yet");
    let at = "2030-01-01T00:00:00.000Z";
    let done = browser.act(path, &[("do", "reschedule_all"), ("delay_all", at), ("confirmed", "yes")]);
    assert_eq!(done.header("location"), Some("/jobs?queue=q&done=rescheduled.4"));
    assert!(ids.iter().all(|id| server.job(id)["due_at"] == at));
    // Selected ones, to an instant, too.
    let selected = format!("{}.{}", ids[0], server.job(&ids[0])["version"]);
    let at = "2031-01-01T00:00:00.000Z";
    let done = browser.act(path, &[("do", "reschedule"), ("delay", at), ("job", &selected)]);
    assert_eq!(done.header("location"), Some("/jobs?queue=q&done=rescheduled.1"));
    assert_eq!(server.job(&ids[0])["due_at"], at);
    let asked = browser.act(path, &[("do", "run_all")]);
    assert!(asked.status == 200 && asked.body.contains("this is for 4 jobs"), "{}", asked.body);
    let done = browser.act(path, &[("do", "run_all"), ("confirmed", "yes")]);
    assert_eq!(done.header("location"), Some("/jobs?queue=q&done=rescheduled.4"));
    assert_eq!(server.get("/v1/queues/q").ok()["ready"], 4);
    let asked = browser.act(path, &[("do", "run_all")]);
    assert!(asked.body.contains("this is for 0 jobs"), "{}", asked.body);
    let done = browser.act(path, &[("do", "run_all"), ("confirmed", "yes")]);
    assert_eq!(done.header("location"), Some("/jobs?queue=q&done=nothing"));
    assert!(browser.get("/jobs?queue=q&done=nothing").body.contains("nothing was changed"));
    let failed = browser.get("/failed?queue=q").body;
    assert!(!failed.contains("reschedule") && !failed.contains("value=\"cancel"), "{failed}");
    // A search that is refused can be mended.
    let refused = browser.get("/jobs?due_from=soon");
    assert!(refused.status == 400 && refused.body.contains("name=\"due_from\" value=\"soon\""), "{}", refused.body);
}

/// Each further call would wait for the store, too.
#[test]
fn nothing_more_is_tried_while_the_store_is_unavailable() {
    let mut redis = RedisServer::start();
    let server = Server::with(&["--broker", &redis.url()]);
    let ids: Vec<String> = (0..20).map(|n| server.push(&json!({"payload": n, "delay": "1h"}))).collect();
    let browser = Browser::new(&server);
    let path = "/jobs?queue=q";
    let form = browser.form(path);
    redis.kill();
    let selected: Vec<String> = ids.iter().map(|id| format!("{id}.1")).collect();
    let mut fields = vec![("form", form.as_str()), ("do", "cancel")];
    fields.extend(selected.iter().map(|job| ("job", job.as_str())));
    let done = browser.send(path, &fields);
    assert_eq!(done.header("location"), Some("/jobs?queue=q&done=store_unavailable.1-not_tried.19"), "{done:?}");
}

#[test]
fn jobs_that_have_ended_show_when() {
    let server = Server::start();
    server.push(&json!({"payload": 1, "due_at": "2020-01-01T00:00:00Z"}));
    server.post(&format!("/v1/leases/{}/fail", server.receipt()), &json!({"final": true})).ok();
    let browser = Browser::new(&server);
    for (path, head) in [("/failed", "Failed at"), ("/jobs?queue=q", "Ended")] {
        let page = browser.get(path).body;
        let table = page.rsplit_once("<table>").unwrap().1;
        assert!(table.contains(&format!(">{head}<")) && !table.contains("2020-01-01"), "{table}");
    }
    server.push(&json!({"payload": 2, "delay": "1h"}));
    let page = browser.get("/jobs?queue=q").body;
    assert!(page.contains(">Due<") && page.contains("2020-01-01"), "{page}");
}

/// As they are grouped when the button is clicked.
#[test]
fn a_group_of_failures_is_retried_and_deleted_by_its_buttons() {
    let server = Server::start();
    for message in ["no address 1", "no address 2", "no disk"] {
        server.push(&json!({"payload": message}));
        let fail = json!({"message": message, "final": true});
        server.post(&format!("/v1/leases/{}/fail", server.receipt()), &fail).ok();
    }
    let browser = Browser::new(&server);
    eventually(|| browser.get("/failed").body.contains("Retry 2"));
    let act = |action, message, more: &[(&str, &str)]| {
        let group = [("do", action), ("queue", "q"), ("kind", "default"), ("message", message)];
        browser.act("/failed", &[&group, more].concat())
    };
    let failed = || server.get("/v1/queues/q").ok()["failed"].clone();
    let retried = act("retry_group", "no address #", &[]);
    assert_eq!((retried.header("location"), failed()), (Some("/failed?done=retried.2"), json!(1)));
    let asked = act("delete_group", "no disk", &[]);
    assert!(asked.status == 200 && asked.body.contains("name=\"confirmed\""), "{}", asked.body);
    assert_eq!(failed(), 1, "nothing is done yet");
    let deleted = act("delete_group", "no disk", &[("confirmed", "yes")]);
    assert_eq!((deleted.header("location"), failed()), (Some("/failed?done=deleted.1"), json!(0)));
    assert_eq!(act("retry_group", "nothing like it", &[]).header("location"), Some("/failed?done=nothing"));
}
