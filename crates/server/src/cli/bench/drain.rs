//! Taking jobs off: tasks that reserve and complete in batches until a number is done.

use super::histogram::Histogram;
use crate::cli::exit::{Failure, Result};
use crate::cli::progress::Progress;
use crate::cli::time::late;
use duetime::Client;
use duetime_core::api::Span;
use duetime_core::engine::{Outcome, ReserveRequest, Source};
use duetime_core::limits::{RESERVE_JOBS_MAX, SECOND_MS};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::task::JoinSet;

/// How long a reserve waits before it checks whether all jobs are done.
const WAIT_MS: u64 = SECOND_MS;

/// Reserves and completes.
#[derive(Clone)]
pub(super) struct Drain {
    client: Client,
    queue: Arc<str>,
    batch: usize,
    tasks: u16,
}

/// Measurements of the drained jobs.
pub(super) struct DrainReport {
    /// The lateness of each job when it was handed out.
    pub(super) lateness: Histogram,
    /// When the last job was handed out.
    pub(super) handed_out: Instant,
}

impl Drain {
    pub(super) fn new(client: &Client, queue: &str, batch: usize, tasks: u16) -> Self {
        Self { client: client.clone(), queue: Arc::from(queue), batch: batch.min(RESERVE_JOBS_MAX), tasks }
    }

    /// Takes off this many jobs.
    pub(super) async fn run(&self, jobs: usize, progress: &Progress) -> Result<DrainReport> {
        let left = Arc::new(AtomicUsize::new(jobs));
        let mut tasks = JoinSet::new();
        for _ in 0..self.tasks {
            let (drain, left, progress) = (self.clone(), left.clone(), progress.clone());
            tasks.spawn(async move { drain.work(&left, &progress).await });
        }
        let mut all = DrainReport { lateness: Histogram::new(), handed_out: Instant::now() };
        while let Some(joined) = tasks.join_next().await {
            let one = joined.map_err(|error| Failure::error(error.to_string()))??;
            all.lateness.add(&one.lateness);
            all.handed_out = all.handed_out.max(one.handed_out);
        }
        Ok(all)
    }

    async fn work(&self, left: &AtomicUsize, progress: &Progress) -> Result<DrainReport> {
        let mut seen = DrainReport { lateness: Histogram::new(), handed_out: Instant::now() };
        while left.load(Ordering::Relaxed) > 0 {
            let request = ReserveRequest {
                from: Source::Queues(vec![self.queue.clone()]),
                limit: self.batch,
                free: None,
                lease: None,
                wait: Span(WAIT_MS),
                request_id: None,
                worker: None,
            };
            let leases = self.client.leases().reserve(request).await?.leases;
            if leases.is_empty() {
                continue;
            }
            seen.handed_out = Instant::now();
            let mut outcomes = Vec::with_capacity(leases.len());
            for lease in &leases {
                seen.lateness.record_late(late(lease.job.due_at.0));
                outcomes.push((lease.job.receipt(), Outcome::complete(None)));
            }
            for answer in self.client.leases().settle(outcomes).await? {
                answer?;
            }
            left.fetch_sub(leases.len().min(left.load(Ordering::Relaxed)), Ordering::Relaxed);
            progress.add(leases.len());
        }
        Ok(seen)
    }
}
