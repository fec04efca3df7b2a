//! The limit on what may wait in a queue (`max_waiting`): a job that a caller or a schedule pushes into such a queue needs a place.
//!
//! The waiting jobs of a queue are counted if somebody pushes into it, at most every [`COUNT_EVERY`]. Places that were given since
//! count as jobs. So do those that were open when the count began: it may lack their jobs. So one process never gives a place too many; for
//! a moment it may give fewer than there are. Each process counts for itself, and several may exceed the limit by what the others have
//! given within [`COUNT_EVERY`].
//!
//! Retries, released and moved jobs, and imports need no place.

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
/// How long a queue counts as full after the last push without a place.
pub(in crate::engine) const FULL_MS: u64 = 2 * MINUTE_MS;
/// Queues that are remembered before those are forgotten that were not used lately.
const QUEUES_KEPT: usize = 1_000;

/// The limit of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct WaitingLimit {
    /// The number of jobs that may wait.
    pub(in crate::engine) max: u32,
    /// What becomes of a push without a place.
    pub(in crate::engine) then: WhenFull,
}

/// Jobs for which a full queue had no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Refusals {
    pub(in crate::engine) since: Millis,
    pub(in crate::engine) last: Millis,
    pub(in crate::engine) jobs: u64,
}

/// Gives places in queues that have a limit.
pub(in crate::engine) struct Gate {
    broker: Arc<dyn Broker>,
    settings: Arc<Settings>,
    queues: Arc<QueueCounter>,
    metrics: Arc<Metrics>,
    counted: Mutex<HashMap<Arc<str>, Arc<Counted>>>,
}

#[derive(Debug, Default)]
struct Counted {
    /// One counts for all.
    counting: tokio::sync::Mutex<()>,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    counted_at: Option<Instant>,
    /// The jobs that waited then, and places given since.
    taken: u64,
    /// Places whose jobs are being recorded.
    open: u64,
    refusals: Option<Refusals>,
}

/// A place in a queue, held while its job is recorded.
#[derive(Debug)]
pub(in crate::engine) struct Place {
    of: Arc<Counted>,
}

impl Place {
    /// No job was recorded.
    pub(in crate::engine) fn give_back(self) {
        let mut places = self.of.places();
        places.taken = places.taken.saturating_sub(1);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.places().open -= 1;
    }
}

/// Whether a job may be pushed.
#[derive(Debug)]
pub(in crate::engine) enum Entry {
    /// Its queue has no limit.
    Free,
    /// There was a place.
    Placed(Place),
    /// There was none.
    Full(WaitingLimit),
}

impl Gate {
    pub(in crate::engine) fn new(base: &Base, settings: Arc<Settings>, queues: Arc<QueueCounter>) -> Self {
        let (broker, metrics) = (base.stores.broker.clone(), base.metrics.clone());
        Self { broker, settings, queues, metrics, counted: Mutex::default() }
    }

    /// Asks for a place for one job.
    ///
    /// # Errors
    /// Of the stores, if the jobs cannot be counted.
    pub(in crate::engine) async fn enter(&self, queue: &str) -> Result<Entry, Error> {
        let Some(limit) = self.settings.waiting_limit(queue) else { return Ok(Entry::Free) };
        let queue = &Arc::from(queue);
        let counted = self.of(queue);
        let _one_at_a_time = counted.counting.lock().await;
        let is_new = |at: Instant| at.elapsed() < COUNT_EVERY;
        if !counted.places().counted_at.is_some_and(is_new) {
            let open = counted.places().open;
            let waiting = self.queues.waiting(queue).await?;
            let mut places = counted.places();
            (places.counted_at, places.taken) = (Some(Instant::now()), waiting + open);
        }
        let mut places = counted.places();
        if places.taken >= u64::from(limit.max) {
            return Ok(Entry::Full(limit));
        }
        places.taken += 1;
        places.open += 1;
        drop(places);
        Ok(Entry::Placed(Place { of: counted.clone() }))
    }

    /// A full queue has refused or dropped a job, or a schedule pushed none.
    pub(in crate::engine) fn refused(&self, queue: &Arc<str>, limit: WaitingLimit) {
        self.metrics.add_full(queue);
        let (counted, now) = (self.of(queue), self.broker.now());
        let mut places = counted.places();
        let lasts = |refusals: &&mut Refusals| now.saturating_sub(refusals.last) < FULL_MS;
        if let Some(refusals) = places.refusals.as_mut().filter(lasts) {
            (refusals.last, refusals.jobs) = (now, refusals.jobs + 1);
            return;
        }
        places.refusals = Some(Refusals { since: now, last: now, jobs: 1 });
        let does = if limit.then == WhenFull::Drop { "dropped" } else { "refused" };
        tracing::warn!(%queue, max_waiting = limit.max, "the queue is full; new jobs are {does} until some have run");
    }

    /// The queues that were full lately.
    pub(in crate::engine) fn full(&self) -> Vec<(Arc<str>, Refusals)> {
        let now = self.broker.now();
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let full = counted.iter().filter_map(|(queue, of)| Some((queue.clone(), of.places().refusals?)));
        let mut full: Vec<_> = full.filter(|(_, refusals)| now.saturating_sub(refusals.last) < FULL_MS).collect();
        full.sort_by(|(a, _), (b, _)| a.cmp(b));
        full
    }

    fn of(&self, queue: &Arc<str>) -> Arc<Counted> {
        let mut all = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= QUEUES_KEPT && !all.contains_key(queue) {
            let now = self.broker.now();
            all.retain(|_, counted| Arc::strong_count(counted) > 1 || counted.places().is_used(now));
        }
        all.entry(queue.clone()).or_default().clone()
    }
}

impl Counted {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn is_used(&self, now: Millis) -> bool {
        self.counted_at.is_some_and(|at| at.elapsed() < COUNT_EVERY)
            || self.refusals.is_some_and(|refusals| now.saturating_sub(refusals.last) < FULL_MS)
    }
}
