//! Where every delivery is seen once it has ended: the one place for whoever counts them.

use super::delivery::Delivery;
use duetime_core::Job;
use std::time::Duration;

/// A delivery has ended, after so long.
pub(super) fn delivered(job: &Job, delivery: &Delivery, took: Duration) {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    tracing::debug!(id = %job.id, queue = %job.queue, attempt = job.attempt, outcome = delivery.word(), micros, "delivered");
}
