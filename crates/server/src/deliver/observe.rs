//! Observes every delivery once it has ended, and counts it.

use super::SharedPace;
use super::delivered::Delivered;
use duetime_core::Job;
use duetime_core::engine::metrics::Histogram;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Durations of deliveries, by their results; 0 at the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    taken: Histogram,
    failed: Histogram,
    refused: Histogram,
    given_back: Histogram,
    /// By queue.
    paces: Mutex<HashMap<Arc<str>, SharedPace>>,
}

impl Observed {
    /// A delivery has ended, after so long.
    pub(super) fn delivered(&self, job: &Job, delivery: &Delivered, took: Duration) {
        let (micros, outcome) = (u64::try_from(took.as_micros()).unwrap_or(u64::MAX), delivery.word());
        self.by_outcome().into_iter().filter(|(word, _)| *word == outcome).for_each(|(_, times)| times.add(micros));
        tracing::debug!(id = %job.id, queue = %job.queue, attempt = job.attempt, outcome, micros, "delivered");
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
