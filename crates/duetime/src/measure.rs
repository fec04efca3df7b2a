//! The metrics that the library records in the application's recorder, through the facade `metrics`. The table in the documentation of the crate
//! has the names.

use crate::error::{Answers, Error};
use duetime_core::api::Pushed;
use duetime_core::engine::Outcome;
use duetime_core::{Job, NewJob};
use metrics::{Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use std::sync::Arc;
use tokio::time::Instant;

const PUSHES: &str = "duetime_client_pushes_total";
const ATTEMPTS: &str = "duetime_worker_attempts_total";
const SECONDS: &str = "duetime_worker_attempt_seconds";
const LATENESS: &str = "duetime_worker_lateness_seconds";
const RUNNING: &str = "duetime_worker_running";
const LOST: &str = "duetime_worker_lost_total";

/// Describes the metrics to the recorder.
pub(crate) fn describe() {
    describe_counter!(PUSHES, Unit::Count, "Pushes, by what became of them");
    describe_counter!(ATTEMPTS, Unit::Count, "Attempts that have ended, by their outcome");
    describe_histogram!(SECONDS, Unit::Seconds, "How long handlers ran");
    describe_histogram!(LATENESS, Unit::Seconds, "From the due time of a job until it was handed out");
    describe_gauge!(RUNNING, Unit::Count, "Handlers that are running");
    describe_counter!(LOST, Unit::Count, "Outcomes that did not count because the lease was lost");
}

/// The queues and kinds of jobs that are being pushed, in order.
pub(crate) struct Pushes(Vec<Vec<Label>>);

impl Pushes {
    pub(crate) fn new(jobs: &[NewJob]) -> Self {
        Self(jobs.iter().map(|job| labels(&job.queue, &job.kind)).collect())
    }

    pub(crate) fn answered(self, answers: &Result<Answers<Pushed>, Error>) {
        for (at, labels) in self.0.into_iter().enumerate() {
            let answer = answers.as_ref().ok().and_then(|answers| answers.get(at)?.as_ref().ok());
            counter!(PUSHES, with(labels, answer.map_or("failed", |pushed| pushed.outcome.word()))).increment(1);
        }
    }
}

/// A running handler. It counts when it is dropped, also if it is aborted.
pub(crate) struct Attempt {
    labels: Vec<Label>,
    begun: Instant,
    outcome: &'static str,
}

impl Attempt {
    pub(crate) fn begin(job: &Job) -> Self {
        let labels = labels(&job.queue, &job.kind);
        if let Some(started_at) = job.started_at {
            let late_ms = started_at.0.saturating_sub(job.due_at.0);
            histogram!(LATENESS, labels.clone()).record(late_ms as f64 / 1e3);
        }
        gauge!(RUNNING, labels.clone()).increment(1);
        Self { labels, begun: Instant::now(), outcome: "aborted" }
    }

    pub(crate) fn end(mut self, outcome: &Outcome) {
        self.outcome = match outcome {
            Outcome::Complete { .. } => "succeeded",
            Outcome::Fail(_) => "failed",
            Outcome::Park(_) => "parked",
            Outcome::Release(_) => "released",
        };
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        gauge!(RUNNING, self.labels.clone()).decrement(1);
        histogram!(SECONDS, self.labels.clone()).record(self.begun.elapsed().as_secs_f64());
        counter!(ATTEMPTS, with(std::mem::take(&mut self.labels), self.outcome)).increment(1);
    }
}

/// The outcome of a handler came too late.
pub(crate) fn lost() {
    counter!(LOST).increment(1);
}

fn labels(queue: &Arc<str>, kind: &Arc<str>) -> Vec<Label> {
    vec![Label::new("queue", queue.clone()), Label::new("kind", kind.clone())]
}

fn with(mut labels: Vec<Label>, outcome: &'static str) -> Vec<Label> {
    labels.push(Label::from_static_parts("outcome", outcome));
    labels
}
