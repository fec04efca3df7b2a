//! The limit on what may wait in a queue (`max_waiting`): a job that a caller or a schedule pushes into such a queue needs a permit.
//!
//! The waiting jobs of a queue are counted if somebody pushes into it, at most every [`COUNT_EVERY`]. Permits that were given since
//! count as jobs. So do those that were open when the count began: it may lack their jobs. So one process never gives a permit too many; for
//! a moment it may give fewer than there are. Each process counts for itself, and several may exceed the limit by what the others have
//! given within [`COUNT_EVERY`].
//!
//! Retries, released and moved jobs, and imports need no permit.

use super::index::WaitingLimit;
use super::{QueueCounter, Settings};
use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::metrics::Metrics;
use crate::error::Error;
use crate::limits::MINUTE_MS;
use crate::ports::Broker;
use crate::request::WhenFull;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The age up to which a count is used.
pub(super) const COUNT_EVERY: Duration = Duration::from_millis(100);
/// How long a queue counts as full after the last push without a permit.
pub(in crate::engine) const FULL_MS: u64 = 2 * MINUTE_MS;
/// Queues that are remembered before those are forgotten that were not used lately.
const QUEUES_KEPT: usize = 1_000;

/// Jobs that a full queue had no permit for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Refusals {
    pub(in crate::engine) since: Millis,
    pub(in crate::engine) last: Millis,
    pub(in crate::engine) jobs: u64,
}

/// Gives permits for queues that have a limit.
pub(in crate::engine) struct Gate {
    broker: Arc<dyn Broker>,
    settings: Arc<Settings>,
    queues: Arc<QueueCounter>,
    metrics: Arc<Metrics>,
    counted: Mutex<HashMap<Arc<str>, Arc<QueuePermits>>>,
}

#[derive(Debug, Default)]
struct QueuePermits {
    /// One counts for all.
    counting: tokio::sync::Mutex<()>,
    permits: Mutex<Permits>,
}

#[derive(Debug, Default)]
struct Permits {
    counted_at: Option<Instant>,
    /// The jobs that waited then, and permits given since.
    taken: u64,
    /// Permits whose jobs are being recorded.
    open: u64,
    refusals: Option<Refusals>,
}

/// The permit for one job of a queue, held while the job is recorded.
#[derive(Debug)]
pub(in crate::engine) struct Permit {
    of: Arc<QueuePermits>,
}

impl Permit {
    /// No job was recorded.
    pub(in crate::engine) fn give_back(self) {
        let mut permits = self.of.permits();
        permits.taken = permits.taken.saturating_sub(1);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.permits().open -= 1;
    }
}

/// Whether a job may be pushed.
#[derive(Debug)]
pub(in crate::engine) enum Entry {
    /// Its queue has no limit.
    Free,
    /// There was a permit.
    Permitted(Permit),
    /// There was none.
    Full(WaitingLimit),
}

impl Gate {
    pub(in crate::engine) fn new(base: &Base, settings: Arc<Settings>, queues: Arc<QueueCounter>) -> Self {
        let (broker, metrics) = (base.stores.broker.clone(), base.metrics.clone());
        Self { broker, settings, queues, metrics, counted: Mutex::default() }
    }

    /// Asks for a permit for one job.
    ///
    /// # Errors
    /// Of the stores, if the jobs cannot be counted.
    pub(in crate::engine) async fn enter(&self, queue: &str) -> Result<Entry, Error> {
        let Some(limit) = self.settings.waiting_limit(queue) else { return Ok(Entry::Free) };
        let queue = &Arc::from(queue);
        let counted = self.of(queue);
        let _one_at_a_time = counted.counting.lock().await;
        let is_new = |at: Instant| at.elapsed() < COUNT_EVERY;
        if !counted.permits().counted_at.is_some_and(is_new) {
            let open = counted.permits().open;
            let waiting = self.queues.waiting(queue).await?;
            let mut permits = counted.permits();
            (permits.counted_at, permits.taken) = (Some(Instant::now()), waiting + open);
        }
        let mut permits = counted.permits();
        if permits.taken >= u64::from(limit.max) {
            return Ok(Entry::Full(limit));
        }
        permits.taken += 1;
        permits.open += 1;
        drop(permits);
        Ok(Entry::Permitted(Permit { of: counted.clone() }))
    }

    /// A full queue has refused or dropped a job, or a schedule pushed none.
    pub(in crate::engine) fn refused(&self, queue: &Arc<str>, limit: WaitingLimit) {
        self.metrics.add_full(queue);
        let (counted, now) = (self.of(queue), self.broker.now());
        let mut permits = counted.permits();
        let lasts = |refusals: &&mut Refusals| now.saturating_sub(refusals.last) < FULL_MS;
        if let Some(refusals) = permits.refusals.as_mut().filter(lasts) {
            (refusals.last, refusals.jobs) = (now, refusals.jobs + 1);
            return;
        }
        permits.refusals = Some(Refusals { since: now, last: now, jobs: 1 });
        let does = if limit.then == WhenFull::Drop { "dropped" } else { "refused" };
        tracing::warn!(%queue, max_waiting = limit.max, "the queue is full; new jobs are {does} until some have run");
    }

    /// The queues that were full lately.
    pub(in crate::engine) fn full(&self) -> Vec<(Arc<str>, Refusals)> {
        let now = self.broker.now();
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let full = counted.iter().filter_map(|(queue, of)| Some((queue.clone(), of.permits().refusals?)));
        let mut full: Vec<_> = full.filter(|(_, refusals)| now.saturating_sub(refusals.last) < FULL_MS).collect();
        full.sort_by(|(a, _), (b, _)| a.cmp(b));
        full
    }

    fn of(&self, queue: &Arc<str>) -> Arc<QueuePermits> {
        let mut all = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= QUEUES_KEPT && !all.contains_key(queue) {
            let now = self.broker.now();
            all.retain(|_, counted| Arc::strong_count(counted) > 1 || counted.permits().is_used(now));
        }
        all.entry(queue.clone()).or_default().clone()
    }
}

impl QueuePermits {
    fn permits(&self) -> MutexGuard<'_, Permits> {
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permits {
    fn is_used(&self, now: Millis) -> bool {
        self.counted_at.is_some_and(|at| at.elapsed() < COUNT_EVERY)
            || self.refusals.is_some_and(|refusals| now.saturating_sub(refusals.last) < FULL_MS)
    }
}
