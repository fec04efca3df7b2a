//! Where every delivery is seen once it has ended, and counted.

use super::delivered::Delivered;
use duetime_core::Job;
use duetime_core::engine::metrics::Histogram;
use std::time::Duration;

/// How long deliveries took, by what came of them; 0 at the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    taken: Histogram,
    failed: Histogram,
    refused: Histogram,
    given_back: Histogram,
}

impl Observed {
    /// A delivery has ended, after so long.
    pub(super) fn delivered(&self, job: &Job, delivery: &Delivered, took: Duration) {
        let (micros, outcome) = (u64::try_from(took.as_micros()).unwrap_or(u64::MAX), delivery.word());
        self.by_outcome().into_iter().filter(|(word, _)| *word == outcome).for_each(|(_, times)| times.add(micros));
        tracing::debug!(id = %job.id, queue = %job.queue, attempt = job.attempt, outcome, micros, "delivered");
    }

    /// One by one, with a word for each.
    pub(crate) fn by_outcome(&self) -> [(&'static str, &Histogram); 4] {
        [("taken", &self.taken), ("failed", &self.failed), ("refused", &self.refused), ("given_back", &self.given_back)]
    }
}
