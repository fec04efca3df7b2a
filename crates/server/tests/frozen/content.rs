//! The content of a store, as the API shows it.

use super::Fixture;
use super::fill::{INBOX, OUTBOX};
use crate::http::server::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How often jobs and counts are read until they agree.
const LOOKS_MAX: usize = 5;

/// Jobs, queues, schedules and locks.
pub(crate) struct Content(Value);

impl Content {
    pub(crate) fn read(server: &Server, made_at: u64) -> Self {
        let all = |what: &str| all(server, what);
        // A job may end between the two readings.
        let mut looks = 0;
        let (jobs, mut queues) = loop {
            let (jobs, queues) = (all("jobs"), all("queues"));
            match uncounted(&jobs, &queues) {
                None => break (jobs, queues),
                Some(difference) => assert!(looks < LOOKS_MAX, "{difference}"),
            }
            looks += 1;
        };
        // What the process did lately ends with it.
        queues.iter_mut().for_each(|queue| drop(queue.as_object_mut().unwrap().remove("lately")));
        // The outcome of these two depends on the store that is opened, so they are checked separately.
        let is_plain = |value: &Value| value["queue"] != INBOX && value["queue"] != OUTBOX;
        let plain = |values: Vec<Value>| values.into_iter().filter(is_plain).collect::<Vec<_>>();
        let is_of_users = |lock: &Value| !lock["name"].as_str().unwrap().starts_with("duetime:");
        Self(json!({
            "made_at": made_at,
            "jobs": plain(jobs),
            "queues": plain(queues),
            "schedules": all("schedules"),
            "locks": all("locks").into_iter().filter(is_of_users).collect::<Vec<_>>(),
        }))
    }

    pub(crate) fn kept(fixture: &Fixture) -> Self {
        Self(serde_json::from_slice(&fixture.read("content.json")).unwrap())
    }

    pub(crate) fn write(&self, fixture: &Fixture) {
        fixture.write("content.json", format!("{:#}\n", self.0).as_bytes());
    }

    /// The content that a file keeps: no progress of running jobs, and for a lock its time to live but not its expiry.
    pub(crate) fn of_a_file(mut self) -> Self {
        for job in self.0["jobs"].as_array_mut().unwrap() {
            if job["state"] == "running" {
                job.as_object_mut().unwrap().remove("progress");
            }
        }
        for lock in self.0["locks"].as_array_mut().unwrap() {
            lock.as_object_mut().unwrap().remove("expires_at");
        }
        self
    }

    /// The content that a database alone keeps: workers of running jobs and holders of locks are in Redis.
    pub(crate) fn without_redis(mut self) -> Self {
        for job in self.0["jobs"].as_array_mut().unwrap() {
            if job["state"] == "running" {
                let remembered = ["id", "queue", "kind", "payload", "due_at", "first_due_at", "tags", "created_at"];
                job.as_object_mut().unwrap().retain(|name, _| remembered.contains(&name.as_str()));
            }
        }
        for queue in self.0["queues"].as_array_mut().unwrap() {
            let counted = ["ready", "running", "scheduled", "oldest_due_at", "pending", "cancelled"];
            queue.as_object_mut().unwrap().retain(|name, _| !counted.contains(&name.as_str()));
            // A job that was asked to stop is cancelled soon, or already.
            queue["totals"].as_object_mut().unwrap().remove("cancelled");
        }
        self
    }

    pub(crate) fn made_at(&self) -> u64 {
        self.0["made_at"].as_u64().unwrap()
    }

    pub(crate) fn jobs(&self) -> &[Value] {
        self.0["jobs"].as_array().unwrap()
    }

    /// The job that was pushed with this kind.
    pub(crate) fn of_kind(&self, kind: &str) -> &Value {
        self.jobs().iter().find(|job| job["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
    }

    pub(crate) fn locks(&self) -> &[Value] {
        self.0["locks"].as_array().unwrap()
    }

    /// Whether all of it is there. Fields that were not known then do not count.
    #[track_caller]
    pub(crate) fn is_in(&self, now: &Self, with_redis: bool) {
        for what in ["jobs", "queues", "schedules"] {
            contains(&self.0[what], &now.0[what]);
        }
        // Only Redis knows the holders of locks.
        let locks = if with_redis { self.0["locks"].clone() } else { json!([]) };
        contains(&locks, &now.0["locks"]);
    }
}

/// Each one on all pages, in the order of ids or names.
fn all(server: &Server, what: &str) -> Vec<Value> {
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        // Pages of few: there is more than one.
        let page = server.get(&format!("/v1/{what}?limit=10{next}")).ok();
        found.extend(page[what].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(cursor) => next = format!("&cursor={}", cursor.replace(' ', "%20")),
            None => break,
        }
    }
    found.sort_by_key(|value| [&value["id"], &value["queue"], &value["name"]].map(|name| name.to_string()));
    found
}

/// Which count of a queue is not that of its jobs.
fn uncounted(jobs: &[Value], queues: &[Value]) -> Option<String> {
    let mut counts = BTreeMap::<(&str, &str), u64>::new();
    for job in jobs {
        *counts.entry((job["queue"].as_str().unwrap(), job["state"].as_str().unwrap())).or_default() += 1;
    }
    for queue in queues {
        let name = queue["queue"].as_str().unwrap();
        for state in ["scheduled", "ready", "running", "succeeded", "failed", "cancelled"] {
            let counted = counts.remove(&(name, state)).unwrap_or(0);
            if queue[state].as_u64() != Some(counted) {
                return Some(format!("{state}: expected {counted}, got {queue}"));
            }
        }
    }
    (!counts.is_empty()).then(|| format!("no queue has {counts:?}"))
}

/// Whether everything that is expected is so, at any depth. Objects may have more fields, arrays not more elements.
#[track_caller]
pub(crate) fn contains(expected: &Value, got: &Value) {
    if let Some(difference) = difference(expected, got) {
        panic!("{difference}");
    }
}

fn difference(expected: &Value, got: &Value) -> Option<String> {
    match (expected, got) {
        (Value::Object(fields), Value::Object(got)) => fields.iter().find_map(|(name, expected)| {
            let inner = difference(expected, got.get(name).unwrap_or(&Value::Null))?;
            Some(format!("{name}: {inner}\n in {}", Value::from(got.clone())))
        }),
        (Value::Array(values), Value::Array(got)) if values.len() == got.len() => {
            values.iter().zip(got).find_map(|(expected, got)| difference(expected, got))
        }
        _ => (expected != got).then(|| format!("expected {expected}, got {got}")),
    }
}
