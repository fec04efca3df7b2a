//! Job counts across many queues. A few queues are counted on demand. All others are counted in the background, in steps
//! with pauses, as long as the counts are requested.

use crate::engine::Engine;
use crate::engine::parts::census::Sum;
use crate::engine::parts::metrics::{OTHER_QUEUES, QUEUES_MAX};
use crate::error::Error;
use crate::limits::STEP_QUEUES_MAX;
use crate::ports::after;
use std::sync::Arc;
use std::time::Duration;

/// Between two steps.
const STEP_EVERY: Duration = Duration::from_millis(50);
/// Between two rounds.
const ROUND_EVERY: Duration = Duration::from_secs(10);

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
