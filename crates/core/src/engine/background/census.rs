//! Job counts across many queues. A few queues are counted on demand. All others are counted in the background, in steps
//! with pauses, as long as the counts are requested.

use crate::engine::metrics::{OTHER_QUEUES, QUEUES_MAX};
use crate::engine::{Engine, QueueStatus};
use crate::error::Error;
use crate::limits::STEP_QUEUES_MAX;
use crate::ports::{Counts, Tally, Totals, after};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// Between two steps.
const STEP_EVERY: Duration = Duration::from_millis(50);
/// Between two rounds.
const ROUND_EVERY: Duration = Duration::from_secs(10);

/// The jobs of one queue, or the sum over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Live jobs; `paused` is not said.
    pub counts: Counts,
    /// Jobs by stored state.
    pub tally: Tally,
    /// The number of paused queues.
    pub paused: u64,
}

impl Sum {
    fn add(&mut self, status: &QueueStatus) {
        let Counts { scheduled, ready, running, oldest_due, paused: _ } = status.counts;
        self.counts.scheduled += scheduled;
        self.counts.ready += ready;
        self.counts.running += running;
        self.counts.oldest_due = [self.counts.oldest_due, oldest_due].into_iter().flatten().min();
        let Tally { pending, succeeded, failed, cancelled, totals } = status.tally;
        self.tally.pending += pending;
        self.tally.succeeded += succeeded;
        self.tally.failed += failed;
        self.tally.cancelled += cancelled;
        let Totals { pushed, succeeded, failed, cancelled } = totals;
        self.tally.totals.pushed += pushed;
        self.tally.totals.succeeded += succeeded;
        self.tally.totals.failed += failed;
        self.tally.totals.cancelled += cancelled;
        self.paused += u64::from(status.settings.paused);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Census {
    asked: Notify,
    others: Mutex<Option<Sum>>,
}

impl Engine {
    /// Counts of each of the first 200 queues, by name. The sum of all others is under [`OTHER_QUEUES`] once it is
    /// available: some seconds after the first request, then at most about ten seconds old.
    ///
    /// # Errors
    /// Of the stores.
    pub async fn sums(&self) -> Result<Vec<(Arc<str>, Sum)>, Error> {
        let mut sums = Vec::with_capacity(QUEUES_MAX + 1);
        for status in self.queues_from("", QUEUES_MAX).await? {
            let mut sum = Sum::default();
            sum.add(&status);
            sums.push((status.queue, sum));
        }
        if sums.len() == QUEUES_MAX {
            self.census.asked.notify_one();
            let others = *self.census.others.lock().expect("no panic under this lock");
            sums.extend(others.map(|sum| (Arc::from(OTHER_QUEUES), sum)));
        }
        Ok(sums)
    }

    /// Counts the jobs of the queues that are not counted on demand, until the engine stops.
    pub(crate) async fn count_others(&self) {
        loop {
            self.census.asked.notified().await;
            match self.count_others_once().await {
                Ok(sum) => *self.census.others.lock().expect("no panic under this lock") = sum,
                Err(error) => tracing::debug!(%error, "not all queues could be counted; trying again"),
            }
            tokio::time::sleep(ROUND_EVERY).await;
        }
    }

    async fn count_others_once(&self) -> Result<Option<Sum>, Error> {
        let (mut sum, mut count) = (Sum::default(), 0);
        let mut last = self.queues_from("", QUEUES_MAX).await?.pop();
        while let Some(queue) = last.take() {
            let mut some = self.queues_from(&after(&queue.queue), STEP_QUEUES_MAX).await?;
            some.iter().for_each(|status| sum.add(status));
            count += some.len();
            last = some.pop();
            tokio::time::sleep(STEP_EVERY).await;
        }
        Ok((count > 0).then_some(sum))
    }
}
