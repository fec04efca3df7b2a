//! Observes every delivery once it has ended: counts it, and notices that a target is down.
//!
//! A target is down if the last deliveries failed, at least three of them or for half a minute, whatever it answered. The log says
//! when that begins and when it ends.

use super::pace::SharedPace;
use super::result::{DeliveryResult, Sign};
use duetime_core::engine::TargetDown;
use duetime_core::engine::metrics::Histogram;
use duetime_core::{Engine, Job, Millis};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// After so many failures in a row a target is down.
const DOWN_AFTER: u32 = 3;
/// After the first failure of a row, a target is down once this time has passed.
const DOWN_AFTER_MS: u64 = 30_000;

/// A row of failures.
#[derive(Debug)]
struct Row {
    since: Millis,
    failures: u32,
    message: String,
    is_down: bool,
}

/// Durations of deliveries, by their results; 0 at the start of the process.
#[derive(Debug, Default)]
pub(crate) struct DeliveryStats {
    taken: Histogram,
    failed: Histogram,
    refused: Histogram,
    given_back: Histogram,
    /// By queue.
    paces: Mutex<HashMap<Arc<str>, SharedPace>>,
    /// By queue. A target that takes jobs has none.
    rows: Mutex<HashMap<Arc<str>, Row>>,
}

impl DeliveryStats {
    /// A delivery has ended, after so long.
    pub(super) fn delivered(&self, job: &Job, delivery: &DeliveryResult, took: Duration) {
        let (micros, outcome) = (u64::try_from(took.as_micros()).unwrap_or(u64::MAX), delivery.word());
        self.by_outcome().into_iter().filter(|(word, _)| *word == outcome).for_each(|(_, times)| times.add(micros));
        tracing::debug!(id = %job.id, queue = %job.queue, attempt = job.attempt, outcome, micros, "delivered");
    }

    /// The target of the job's queue took the job, or not.
    pub(super) fn judge(&self, engine: &Engine, job: &Job, delivery: &DeliveryResult) {
        let mut rows = self.rows();
        // A job with a target of its own tells nothing about that of the queue.
        if delivery.sign == Sign::None || job.options().target.is_some() {
            return;
        }
        let Some(why) = delivery.why().filter(|_| delivery.sign != Sign::Well) else {
            if let Some(row) = rows.remove(&job.queue) {
                end(engine, &job.queue, &row);
            }
            return;
        };
        let since = engine.now();
        let begin = || Row { since, failures: 0, message: String::new(), is_down: false };
        let row = rows.entry(job.queue.clone()).or_insert_with(begin);
        row.failures = row.failures.saturating_add(1);
        why.clone_into(&mut row.message);
        look(engine, &job.queue, row);
    }

    /// Notices what has been down for long enough.
    pub(super) fn look(&self, engine: &Engine) {
        self.rows().iter_mut().filter(|(_, row)| !row.is_down).for_each(|(queue, row)| look(engine, queue, row));
    }

    /// The target of a queue was changed or removed.
    pub(super) fn forget(&self, engine: &Engine, queue: &Arc<str>) {
        self.rows().remove(queue);
        engine.set_target_down(queue, None);
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<Arc<str>, Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a queue is delivered at this pace; `None`: no longer.
    pub(super) fn set_pace(&self, queue: &Arc<str>, pace: Option<SharedPace>) {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        match pace {
            Some(pace) => paces.insert(queue.clone(), pace),
            None => paces.remove(queue),
        };
    }

    /// For how long nothing of a queue is delivered, because of its target.
    pub(crate) fn held_for(&self, queue: &str) -> Option<Duration> {
        let paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        paces.get(queue)?.room(now).err().map(|until| until - now)
    }

    /// One by one, with a word for each.
    pub(crate) fn by_outcome(&self) -> [(&'static str, &Histogram); 4] {
        [("taken", &self.taken), ("failed", &self.failed), ("refused", &self.refused), ("given_back", &self.given_back)]
    }
}

/// Says that a target is down, once it is.
fn look(engine: &Engine, queue: &Arc<str>, row: &mut Row) {
    if row.failures < DOWN_AFTER && engine.now().saturating_sub(row.since) < DOWN_AFTER_MS {
        return;
    }
    if !row.is_down {
        row.is_down = true;
        let (target, answer) = (place(engine, queue), &row.message);
        tracing::warn!(%queue, target, answer, failures = row.failures, "the target takes no jobs");
    }
    engine.set_target_down(queue, Some(TargetDown { since: row.since, message: row.message.clone() }));
}

fn end(engine: &Engine, queue: &Arc<str>, row: &Row) {
    if row.is_down {
        let seconds = engine.now().saturating_sub(row.since) / 1_000;
        let target = place(engine, queue);
        tracing::info!(%queue, target, seconds, failures = row.failures, "the target takes jobs again");
        engine.set_target_down(queue, None);
    }
}

/// Where the jobs of a queue go, without secrets.
fn place(engine: &Engine, queue: &str) -> String {
    engine.queue_settings(queue).target.as_ref().map(|target| target.masked().place()).unwrap_or_default()
}
