//! Statistics as YAML, with all of beanstalkd's keys in its order.

use super::command::Tube;
use super::counters::get;
use super::door::Door;
use super::marks::JobMarks;
use super::tubes::TubeState;
use duetime_core::engine::QueueStatus;
use duetime_core::json::{Span, Timestamp};
use duetime_core::limits::{LEASE_MS_DEFAULT, SECOND_MS};
use duetime_core::{Error, Job, Millis, State};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The number of tubes whose urgent jobs are counted for the statistics of all tubes.
const URGENT_TUBES_MAX: usize = 16;

/// A list of tubes.
pub(super) fn list<'a>(tubes: impl Iterator<Item = &'a Tube>) -> String {
    tubes.fold("---\n".to_owned(), |yaml, tube| yaml + "- " + tube + "\n")
}

/// Keys and values.
struct Yaml(String);

impl Yaml {
    fn new() -> Self {
        Self("---\n".to_owned())
    }

    fn add(&mut self, key: &str, value: impl std::fmt::Display) {
        writeln!(self.0, "{key}: {value}").expect("memory takes all");
    }

    fn text(&mut self, key: &str, value: &str) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        self.add(key, format_args!("\"{value}\""));
    }
}

/// The word for a state.
fn word(state: State) -> &'static str {
    match state {
        State::Scheduled => "delayed",
        State::Running => "reserved",
        State::Failed => "buried",
        _ => "ready",
    }
}

/// The statistics of a job. `left` is the rest of its time to run, if this client holds it.
pub(super) fn of_job(job: &Job, of_queue_ms: Option<u64>, left: Option<Duration>, now: Millis) -> String {
    let marked = JobMarks::of_job(job);
    let state = job.state(now);
    let lease_ms = job.lease.or(of_queue_ms.map(Span)).unwrap_or(Span(LEASE_MS_DEFAULT));
    let delay_ms = marked.delay_ms.unwrap_or_else(|| job.first_due_at.0.saturating_sub(job.created_at.0));
    let left_ms = match state {
        // Just after a release the whole delay is not left any more.
        State::Scheduled => {
            let delay_ms = delay_ms / SECOND_MS * SECOND_MS;
            job.due_at.0.saturating_sub(now).min(delay_ms.saturating_sub(1))
        }
        State::Running => left.map_or_else(
            || job.lease_until.map_or(now, |at| at.0).saturating_sub(now),
            |left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        ),
        _ => 0,
    };
    let mut yaml = Yaml::new();
    yaml.add("id", job.id);
    yaml.text("tube", &job.queue);
    yaml.add("state", word(state));
    yaml.add("pri", job.priority);
    yaml.add("age", now.saturating_sub(job.created_at.0) / SECOND_MS);
    yaml.add("delay", delay_ms / SECOND_MS);
    yaml.add("ttr", marked.ttr_s.unwrap_or(lease_ms.0 / SECOND_MS));
    // Just after a reserve a whole time to run is not left any more.
    let is_whole = state == State::Running && left_ms >= lease_ms.0 && marked.ttr_s.is_none();
    yaml.add("time-left", if is_whole { lease_ms.0 - 1 } else { left_ms } / SECOND_MS);
    yaml.add("file", 0);
    yaml.add("reserves", job.attempt);
    yaml.add("timeouts", job.crashes);
    yaml.add("releases", job.releases());
    yaml.add("buries", marked.buries);
    yaml.add("kicks", marked.kicks);
    yaml.0
}

/// The statistics of a tube.
pub(super) fn of_tube(status: &QueueStatus, known: &TubeState, urgent: u64, now: Millis) -> String {
    let QueueStatus { queue, counts, tally, settings, target_held_until: _, lately: _ } = status;
    // A pause over HTTP may have no end: the longest that the protocol has.
    let until = settings.paused_until.unwrap_or(Timestamp(now + u64::from(u32::MAX) * SECOND_MS));
    let left_ms = if settings.paused { until.0.saturating_sub(now) } else { 0 };
    let mut yaml = Yaml::new();
    yaml.text("name", queue);
    yaml.add("current-jobs-urgent", urgent);
    yaml.add("current-jobs-ready", counts.ready);
    yaml.add("current-jobs-reserved", counts.running);
    yaml.add("current-jobs-delayed", counts.scheduled);
    yaml.add("current-jobs-buried", tally.failed);
    yaml.add("total-jobs", known.total_jobs);
    yaml.add("current-using", known.using);
    yaml.add("current-watching", known.watching);
    yaml.add("current-waiting", known.waiting);
    yaml.add("cmd-delete", known.deletes);
    yaml.add("cmd-pause-tube", known.pauses);
    // Paused by another process, it is known only until when.
    let pause_s = if left_ms == 0 { 0 } else { known.pause_s.max(left_ms.div_ceil(SECOND_MS)) };
    yaml.add("pause", pause_s);
    yaml.add("pause-time-left", left_ms.saturating_sub(1) / SECOND_MS);
    yaml.0
}

impl Door {
    /// Of this process, and of all tubes.
    pub(super) async fn stats(&self) -> Result<String, Error> {
        let queues = self.tubes_with_jobs().await?;
        let mut urgent = 0;
        for status in queues.iter().filter(|status| status.counts.ready > 0).take(URGENT_TUBES_MAX) {
            urgent += self.urgent(status).await?;
        }
        let sum = |of: fn(&QueueStatus) -> u64| queues.iter().map(of).sum::<u64>();
        let mut yaml = Yaml::new();
        yaml.add("current-jobs-urgent", urgent);
        yaml.add("current-jobs-ready", sum(|status| status.counts.ready));
        yaml.add("current-jobs-reserved", sum(|status| status.counts.running));
        yaml.add("current-jobs-delayed", sum(|status| status.counts.scheduled));
        yaml.add("current-jobs-buried", sum(|status| status.tally.failed));
        for (name, count) in self.counters.commands() {
            yaml.add(&format!("cmd-{name}"), count);
        }
        let crashed = self.engine.metrics().queues();
        let crashed = crashed.iter().map(|(_, queue)| queue.attempts_crashed.load(Ordering::Relaxed));
        yaml.add("job-timeouts", crashed.sum::<u64>());
        yaml.add("total-jobs", get(&self.counters.total_jobs));
        yaml.add("max-job-size", self.job_bytes_max);
        let names = queues.iter().map(|status| status.queue.clone()).collect();
        yaml.add("current-tubes", self.tubes.ordered(names).len());
        yaml.add("current-connections", get(&self.counters.connections));
        yaml.add("current-producers", get(&self.counters.producers));
        yaml.add("current-workers", get(&self.counters.workers));
        yaml.add("current-waiting", get(&self.counters.waiting));
        yaml.add("total-connections", get(&self.counters.total_connections));
        self.of_process(&mut yaml);
        Ok(yaml.0)
    }

    fn of_process(&self, yaml: &mut Yaml) {
        yaml.add("pid", std::process::id());
        yaml.text("version", env!("CARGO_PKG_VERSION"));
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
        let seconds = |time: Option<TimeVal>| {
            let time = time.unwrap_or(TimeVal::new(0, 0));
            format!("{}.{:06}", time.tv_sec(), time.tv_usec())
        };
        yaml.add("rusage-utime", seconds(usage.as_ref().map(nix::sys::resource::Usage::user_time)));
        yaml.add("rusage-stime", seconds(usage.as_ref().map(nix::sys::resource::Usage::system_time)));
        yaml.add("uptime", self.started.elapsed().as_secs());
        for key in ["oldest-index", "current-index", "records-migrated", "records-written", "max-size"] {
            yaml.add(&format!("binlog-{key}"), 0);
        }
        yaml.add("draining", self.is_draining());
        yaml.add("id", &self.id);
        let system = nix::sys::utsname::uname().ok();
        let text = |of: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| {
            system.as_ref().map_or_else(String::new, |system| of(system).to_string_lossy().into_owned())
        };
        yaml.text("hostname", &text(nix::sys::utsname::UtsName::nodename));
        yaml.text("os", &text(nix::sys::utsname::UtsName::version));
        yaml.text("platform", &text(nix::sys::utsname::UtsName::machine));
    }
}
