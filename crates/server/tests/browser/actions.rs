//! Every action of the dashboard, done once in a real Chromium.

use super::check_quiet;
use super::driver::Browser;
use crate::http::server::{Server, eventually};
use serde_json::{Value, json};

/// Does every action on a server whose store is empty.
pub(super) fn do_each_action(server: &Server) {
    let reader = Reader { server, browser: Browser::start("en") };
    reader.one_job();
    reader.selected_jobs();
    reader.found_jobs();
    reader.queue();
    reader.schedule();
    reader.lock();
    check_quiet(&reader.browser, server);
}

struct Reader<'a> {
    server: &'a Server,
    browser: Browser,
}

impl Reader<'_> {
    fn open(&self, path: &str) {
        self.browser.open(&self.server.url(path));
    }

    /// Waits until the page says it, or that an action was refused.
    #[track_caller]
    fn reads(&self, text: &str) {
        let mut page = String::new();
        eventually(|| {
            page = self.browser.text();
            page.contains(text) || (!page.is_empty() && self.count("main [role=alert]") > 0)
        });
        assert!(page.contains(text), "expected {text:?} on {}, got {page}", self.browser.url());
    }

    /// Fills the form of an action, sends it, and waits until the page shows the outcome.
    #[track_caller]
    fn act(&self, action: &str, fields: &[(&str, &str)], outcome: &str) {
        self.unfold(action);
        let form = format!("form:has([name=do][value={action}])");
        for (name, text) in fields {
            self.browser.fill(&format!("{form} [name={name}]"), text);
        }
        self.browser.click(&format!("{form} [type=submit]:not([name=preview])"));
        self.reads(outcome);
    }

    fn unfold(&self, action: &str) {
        let details = format!("details.action:has([name=do][value={action}])");
        if self.count(&format!("{details}:not([open])")) > 0 {
            self.browser.click(&format!("{details} > summary"));
        }
    }

    fn count(&self, selector: &str) -> u64 {
        let script = format!("return document.querySelectorAll({}).length", Value::from(selector));
        self.browser.run(&script).as_u64().unwrap()
    }

    /// The last part of the page's path.
    fn name(&self) -> String {
        let url = self.browser.url();
        url.split('?').next().unwrap().rsplit('/').next().unwrap().to_owned()
    }

    fn state(&self, id: &str) -> Value {
        self.server.job(id)["state"].clone()
    }

    /// Pushes three jobs to a queue.
    fn three(&self, queue: &str) -> Vec<String> {
        (0..3).map(|n| self.server.push_to(queue, &json!({"payload": n, "delay": "1h"}))).collect()
    }

    /// Opens the list of a queue's jobs in a state, until it has this many. Outcomes reach a ledger a moment later.
    #[track_caller]
    fn list(&self, queue: &str, state: &str, jobs: u64) {
        eventually(|| {
            self.open(&format!("/jobs?queue={queue}&state={state}"));
            self.count("[name=job]") == jobs
        });
    }

    fn one_job(&self) {
        self.open("/queues/one");
        let options = r#"{"priority": 5, "max_attempts": 12, "expires": "2d"}"#;
        let fields =
            [("kind", "mail.send"), ("payload", "{\"n\": 1}"), ("delay", "1h"), ("key", "k"), ("tags", "a, b")];
        self.act("push", &[&fields[..], &[("options", options)]].concat(), "Pushed: 1");
        let id = self.name();
        let job = self.server.job(&id);
        let expected = json!({
            "queue": "one", "kind": "mail.send", "payload": {"n": 1}, "key": "k", "tags": ["a", "b"],
            "priority": 5, "max_attempts": 12, "expires": "2d", "state": "scheduled",
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&job[name], value, "{name}");
        }
        self.act("edit", &[("priority", "7"), ("payload", "[2]")], "Saved: 1");
        let edited = self.server.job(&id);
        assert_eq!((&edited["priority"], &edited["payload"]), (&json!(7), &json!([2])));
        self.act("reschedule", &[("delay", "2h")], "Rescheduled: 1");
        assert!(self.server.job(&id)["due_at"].as_str() > job["due_at"].as_str());
        for (action, outcome, state) in
            [("run", "Due now: 1", "ready"), ("cancel", "Cancelled: 1", "cancelled"), ("retry", "Retried: 1", "ready")]
        {
            self.act(action, &[], outcome);
            assert_eq!(self.state(&id), state, "{action}");
        }
        self.act("delete", &[], "Deleted: 1");
        self.server.get(&format!("/v1/jobs/{id}")).problem(404, "not_found");
    }

    fn selected_jobs(&self) {
        let ids = self.three("selected");
        let other = self.server.job(&ids[2]);
        for (listed, jobs, action, outcome, state) in [
            ("scheduled", 3, "reschedule", "Rescheduled: 2", "scheduled"),
            ("scheduled", 3, "run", "Due now: 2", "ready"),
            ("ready", 2, "cancel", "Cancelled: 2", "cancelled"),
            ("cancelled", 2, "retry", "Retried: 2", "ready"),
        ] {
            self.list("selected", listed, jobs);
            self.select_two(&ids);
            self.browser.fill("fieldset [name=delay]", "2h");
            self.browser.click(&format!("button[value={action}]"));
            if action == "retry" {
                self.reads("this is for 2 jobs. Nothing has been done yet.");
                self.browser.click("#confirm");
            }
            self.reads(outcome);
            assert_eq!([self.state(&ids[0]), self.state(&ids[1])], [state, state], "{action}");
        }
        self.list("selected", "ready", 2);
        self.select_two(&ids);
        self.browser.click("button[value=delete]");
        self.reads("this is for 2 jobs. Nothing has been done yet.");
        self.browser.click("#confirm");
        self.reads("Deleted: 2");
        for id in &ids[..2] {
            self.server.get(&format!("/v1/jobs/{id}")).problem(404, "not_found");
        }
        assert_eq!(self.server.job(&ids[2]), other, "what was not selected is left alone");
    }

    fn select_two(&self, ids: &[String]) {
        for id in &ids[..2] {
            self.browser.click(&format!("[name=job][value^='{id}.']"));
        }
    }

    fn found_jobs(&self) {
        let ids = self.three("found");
        let bystander = self.three("bystander");
        for (listed, action, outcome) in [
            ("scheduled", "reschedule", "Rescheduled: 3"),
            ("scheduled", "run", "Rescheduled: 3"),
            ("ready", "cancel", "Cancelled: 3"),
            ("cancelled", "retry", "Retried: 3"),
            ("ready", "delete", "Deleted: 3"),
        ] {
            self.list("found", listed, 3);
            if action == "reschedule" {
                self.browser.fill("[name=delay_all]", "2h");
            }
            self.browser.click(&format!("button[value={action}_all]"));
            self.reads("this is for 3 jobs. Nothing has been done yet.");
            assert_eq!(self.state(&ids[0]), listed, "{action}");
            self.browser.click("#confirm");
            self.reads(outcome);
        }
        for id in &ids {
            self.server.get(&format!("/v1/jobs/{id}")).problem(404, "not_found");
        }
        assert_eq!(self.state(&bystander[0]), "scheduled");
    }

    fn queue(&self) {
        let ids = self.three("whole");
        let queue = || self.server.get("/v1/queues/whole").ok();
        self.open("/queues/whole");
        self.act("pause", &[("for", "2h")], "Paused: 1");
        self.reads("This queue is paused");
        assert!(queue()["paused"] == true && queue()["paused_until"].is_string(), "{}", queue());
        self.act("resume", &[], "Resumed: 1");
        assert_eq!(queue()["paused"], false);
        self.act("set", &[("settings", "{\"max_running\": 7}")], "Saved: 1");
        assert_eq!(queue()["settings"]["max_running"], 7);
        self.act("edit", &[("max_running", ""), ("rate", "100/s"), ("retry", "5s, 1m")], "Saved: 1");
        assert_eq!(queue()["settings"], json!({"rate": {"per_second": 100.0}, "retry": {"steps": ["5s", "1m"]}}));
        self.act("purge", &[], "Cancelled: 3");
        assert_eq!(self.state(&ids[0]), "cancelled");
        self.unfold("delete");
        self.reads("Ended: 3. Waiting: 0. Running: 0.");
        self.act("delete", &[], "Deleted: 1");
        assert_eq!(queue()["totals"]["pushed"], 0);
        self.server.put("/v1/queues/aimed", &json!({"target": {"queue": "elsewhere"}})).ok();
        self.open("/queues/aimed");
        self.act("test", &[], "Pushed: 1");
        eventually(|| self.server.get("/v1/queues/elsewhere").ok()["ready"] == 1);
    }

    fn schedule(&self) {
        let schedule = |every: &str| json!({"every": every, "job": {"queue": "nightly", "payload": {}}}).to_string();
        let shown = || self.server.get("/v1/schedules/nightly");
        self.open("/schedules");
        self.act("set", &[("name", "nightly"), ("schedule", &schedule("1h"))], "Saved: 1");
        assert_eq!(shown().ok()["schedule"]["every"], "1h");
        self.act("pause", &[("for", "2h")], "Paused: 1");
        assert!(shown().ok()["schedule"]["paused_until"].is_string());
        self.act("resume", &[], "Resumed: 1");
        assert!(shown().ok()["schedule"]["paused"] != true);
        self.act("run", &[], "Pushed: 1");
        assert_eq!(self.server.job(&self.name())["queue"], "nightly");
        self.open("/schedules/nightly");
        self.act("set", &[("schedule", &schedule("3h"))], "Saved: 1");
        assert_eq!(shown().ok()["schedule"]["every"], "3h");
        self.act("edit", &[("every", ""), ("cron", "0 9 * * mon")], "Saved: 1");
        assert_eq!(shown().ok()["schedule"]["cron"], "0 9 * * mon");
        self.act("delete", &[], "Deleted: 1");
        assert_eq!(shown().status, 404);
        self.open("/schedules");
        self.act("edit", &[("name", "weekly"), ("cron", "0 9 * * mon"), ("queue", "nightly")], "Saved: 1");
        assert_eq!(self.server.get("/v1/schedules/weekly").ok()["schedule"]["job"]["queue"], "nightly");
        self.server.send("DELETE", "/v1/schedules/weekly", &[], "");
    }

    fn lock(&self) {
        self.server.put("/v1/locks/stock%2F42", &json!({"owner": "till 3", "ttl": "1h"})).ok();
        self.open("/locks");
        self.act("release", &[], "Released: 1");
        assert!(!self.browser.text().contains("stock/42"), "{}", self.browser.text());
        assert!(!self.server.get("/v1/locks").body.contains("stock/42"));
    }
}
