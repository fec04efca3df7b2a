//! Pushing: tasks that send batches until all jobs are pushed.

use super::histogram::Histogram;
use super::http::Connection;
use super::options::{Shape, Traffic};
use super::subject::Subject;
use crate::cli::exit::{Failure, Result};
use crate::cli::progress::Progress;
use bytes::Bytes;
use duetime::Client;
use duetime_core::api::Span;
use duetime_core::{Due, Millis, NewJob};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The number of jobs, and the due time of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) jobs: usize,
    when: When,
}

#[derive(Clone, Copy, Debug)]
enum When {
    /// Evenly over a span from now.
    Spread { first_ms: u64, last_ms: u64 },
    /// One after another from an instant, at this many a second; 0 for all at that instant.
    Rate { start: Millis, per_second: u64 },
}

impl Plan {
    pub(super) fn spread(jobs: usize, first_ms: u64, last_ms: u64) -> Self {
        Self { jobs, when: When::Spread { first_ms, last_ms } }
    }

    pub(super) fn rate(jobs: usize, start: Millis, per_second: u64) -> Self {
        Self { jobs, when: When::Rate { start, per_second } }
    }

    pub(super) fn at(jobs: usize, instant: Millis) -> Self {
        Self::rate(jobs, instant, 0)
    }

    /// When a job is due, given its place in all and in its batch. A spread is done within each batch, so that all
    /// batches are the same.
    fn due(&self, place: usize, within: usize, batch: usize) -> Due {
        match self.when {
            When::Spread { first_ms, last_ms } => {
                let span = last_ms.saturating_sub(first_ms);
                Due::After(Span(first_ms + span * within as u64 / batch.max(1) as u64))
            }
            When::Rate { start, per_second: 0 } => Due::At(duetime::Timestamp(start)),
            When::Rate { start, per_second } => Due::At(duetime::Timestamp(start + place as u64 * 1_000 / per_second)),
        }
    }

    fn is_uniform(&self) -> bool {
        matches!(self.when, When::Spread { .. } | When::Rate { per_second: 0, .. })
    }
}

/// Measurements of a feed.
pub(super) struct Fed {
    pub(super) elapsed: Duration,
    /// The time of each push, from its start to its answer.
    pub(super) calls: Histogram,
}

/// Pushes jobs of one shape into a queue.
#[derive(Clone)]
pub(super) struct Feed {
    client: Client,
    server: Option<String>,
    queue: Arc<str>,
    shape: Shape,
    traffic: Traffic,
    payload: Arc<[u8]>,
}

impl Feed {
    pub(super) fn new(subject: &Subject, queue: &str, shape: Shape, traffic: Traffic) -> Self {
        // A JSON string, quotes included.
        let payload = format!("\"{}\"", "x".repeat(shape.payload.saturating_sub(2)));
        let (client, server) = (subject.client.clone(), subject.server.clone());
        Self { client, server, queue: Arc::from(queue), shape, traffic, payload: Arc::from(payload.into_bytes()) }
    }

    /// Pushes all jobs of a plan.
    pub(super) async fn push(&self, plan: &Plan, progress: &Progress) -> Result<Fed> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..self.traffic.tasks.get() {
            let mut sender = self.sender(plan).await?;
            let (feed, plan, next, progress) = (self.clone(), *plan, next.clone(), progress.clone());
            tasks.spawn(async move {
                let mut calls = Histogram::new();
                loop {
                    let first = next.fetch_add(feed.traffic.batch, Ordering::Relaxed);
                    if first >= plan.jobs {
                        return Ok::<_, Failure>(calls);
                    }
                    let count = feed.traffic.batch.min(plan.jobs - first);
                    let begin = Instant::now();
                    sender.send(&feed, &plan, first, count).await?;
                    calls.record(begin.elapsed());
                    progress.add(count);
                }
            });
        }
        let begin = Instant::now();
        let mut calls = Histogram::new();
        while let Some(joined) = tasks.join_next().await {
            calls.add(&joined.map_err(|error| Failure::error(error.to_string()))??);
        }
        Ok(Fed { elapsed: begin.elapsed(), calls })
    }

    async fn sender(&self, plan: &Plan) -> Result<Sender> {
        let same = self.shape.is_uniform() && plan.is_uniform();
        let full = self.traffic.batch.min(plan.jobs);
        Ok(match &self.server {
            Some(host) => Sender::Http {
                connection: Connection::open(host, &format!("/v1/queues/{}/jobs", self.queue)).await?,
                body: same.then(|| self.body(plan, 0, full)),
                full,
            },
            None => Sender::Client { jobs: same.then(|| self.jobs(plan, 0, full)), full },
        })
    }

    fn jobs(&self, plan: &Plan, first: usize, count: usize) -> Vec<NewJob> {
        let job = |within: usize| {
            let place = first + within;
            let mut job = NewJob::new(self.payload.clone());
            job.queue = self.queue.clone();
            job.due = plan.due(place, within, count);
            job.key = self.shape.key.then(|| Arc::from(format!("key-{place}")));
            job.tags = (0..self.shape.tags).map(|tag| Arc::from(format!("tag-{tag}:{place}"))).collect();
            job
        };
        (0..count).map(job).collect()
    }

    fn body(&self, plan: &Plan, first: usize, count: usize) -> Bytes {
        let payload = String::from_utf8_lossy(&self.payload);
        let mut body = String::with_capacity(count * (payload.len() + 64));
        body.push('[');
        for within in 0..count {
            let place = first + within;
            let separator = if within == 0 { "" } else { "," };
            let _ = write!(body, "{separator}{{\"payload\":{payload}");
            let _ = match plan.due(place, within, count) {
                Due::Now => Ok(()),
                Due::After(Span(delay_ms)) => write!(body, ",\"delay_ms\":{delay_ms}"),
                Due::At(duetime::Timestamp(at)) => write!(body, ",\"due_at_ms\":{at}"),
            };
            if self.shape.key {
                let _ = write!(body, ",\"key\":\"key-{place}\"");
            }
            if self.shape.tags > 0 {
                let tags: Vec<String> = (0..self.shape.tags).map(|tag| format!("\"tag-{tag}:{place}\"")).collect();
                let _ = write!(body, ",\"tags\":[{}]", tags.join(","));
            }
            body.push('}');
        }
        body.push(']');
        Bytes::from(body)
    }
}

/// One task's input, with a prepared batch if all are the same.
enum Sender {
    Client { jobs: Option<Vec<NewJob>>, full: usize },
    Http { connection: Connection, body: Option<Bytes>, full: usize },
}

impl Sender {
    async fn send(&mut self, feed: &Feed, plan: &Plan, first: usize, count: usize) -> Result {
        let pushed = match self {
            Self::Client { jobs, full } => {
                let ready = jobs.clone().filter(|_| count == *full);
                let jobs = ready.unwrap_or_else(|| feed.jobs(plan, first, count));
                let answers = feed.client.push_many(jobs).await?;
                answers.into_iter().collect::<std::result::Result<Vec<_>, _>>()?.len()
            }
            Self::Http { connection, body, full } => {
                let ready = body.clone().filter(|_| count == *full);
                connection.push(ready.unwrap_or_else(|| feed.body(plan, first, count))).await?
            }
        };
        if pushed == count { Ok(()) } else { Err(Failure::error(format!("{pushed} of {count} jobs were taken"))) }
    }
}
