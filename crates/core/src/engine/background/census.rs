//! Job counts across many queues. A few queues are counted on demand. All others are counted in the background, in steps
//! with pauses, as long as the counts are requested.

use crate::engine::Engine;
use crate::engine::parts::census::Sum;
use crate::engine::parts::metrics::{OTHER_QUEUES, QUEUES_MAX};
use crate::error::Error;
use crate::limits::STEP_QUEUES_MAX;
use crate::ports::{Queues, after};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Between two steps.
const STEP_EVERY: Duration = Duration::from_millis(50);
/// Between two rounds.
const ROUND_EVERY: Duration = Duration::from_secs(10);
/// How often names of queues are looked up if there are many.
const NAMES_EVERY: Duration = Duration::from_secs(30);

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

    /// Looks up which queues there are, once after the start, and then whenever there are many, until the engine stops.
    pub(crate) async fn count_names(&self) {
        let mut is_first = true;
        loop {
            tokio::time::sleep(NAMES_EVERY).await;
            if !is_first && !self.names.are_many() {
                continue;
            }
            self.names.recount();
            match self.queue_names().await {
                Ok(names) => {
                    self.names.recounted(names);
                    is_first = false;
                }
                Err(error) => tracing::debug!(%error, "the queues could not be counted; trying again"),
            }
        }
    }

    /// The names of all queues that have jobs or settings.
    async fn queue_names(&self) -> Result<HashSet<Arc<str>>, Error> {
        let mut names = HashSet::new();
        let mut from: Arc<str> = Arc::default();
        loop {
            let asked = Queues::From(from, STEP_QUEUES_MAX);
            let some: Vec<Arc<str>> = if self.topology.has_ledger() {
                self.ledger.tallies(asked).await?.into_iter().map(|(queue, _)| queue).collect()
            } else {
                self.broker.counts(asked).await?.into_iter().map(|(queue, ..)| queue).collect()
            };
            let Some(last) = some.last().cloned() else { break };
            names.extend(some);
            from = after(&last);
            tokio::time::sleep(STEP_EVERY).await;
        }
        let mut from: Arc<str> = Arc::default();
        while let Some((last, _)) = {
            let some = self.settings.from(&from, STEP_QUEUES_MAX);
            names.extend(some.iter().map(|(queue, _)| queue.clone()));
            some.last().cloned()
        } {
            from = after(&last);
        }
        Ok(names)
    }
}
