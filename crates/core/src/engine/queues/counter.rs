//! The counts of the jobs of queues.

use super::Settings;
use super::documents::read_one;
use crate::engine::base::Base;
use crate::engine::overflow::Overflow;
use crate::engine::stores::Topology;
use crate::error::Error;
use crate::json::Timestamp;
use crate::limits::STEP_QUEUES_MAX;
use crate::model::name;
use crate::ports::{Broker, Ledger, OverflowDue, Queues, Registry, after};
use crate::request::{Lately, QueueStatus};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Counts the jobs of queues.
pub(in crate::engine) struct QueueCounter {
    topology: Topology,
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    registry: Arc<dyn Registry>,
    settings: Arc<Settings>,
    overflow: Arc<Overflow>,
}

impl QueueCounter {
    pub(in crate::engine) fn new(base: &Base, settings: Arc<Settings>, overflow: Arc<Overflow>) -> Self {
        let Base { stores, .. } = base;
        Self {
            topology: stores.topology(),
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            registry: stores.registry.clone(),
            settings,
            overflow,
        }
    }

    pub(in crate::engine) async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        let (mut all, mut from): (Vec<QueueStatus>, Arc<str>) = (Vec::new(), Arc::from(""));
        loop {
            let some = self.queues_from(&from, STEP_QUEUES_MAX).await?;
            let is_all = some.len() < STEP_QUEUES_MAX;
            all.extend(some);
            match all.last() {
                Some(last) if !is_all => from = after(&last.queue),
                _ => return Ok(all),
            }
        }
    }

    pub(in crate::engine) async fn queues_from(&self, from: &str, limit: usize) -> Result<Vec<QueueStatus>, Error> {
        let limit = limit.min(STEP_QUEUES_MAX);
        let asked = Queues::From(Arc::from(from), limit);
        let mut queues: BTreeMap<Arc<str>, QueueStatus> = BTreeMap::new();
        let (counted, tallies) = tokio::try_join!(self.broker.counts(asked.clone()), async {
            if self.topology.has_ledger() { self.ledger.tallies(asked).await } else { Ok(Vec::new()) }
        })?;
        for (queue, counts, tally) in counted {
            let status = queues.entry(queue).or_default();
            (status.counts, status.tally) = (counts, tally.unwrap_or_default());
        }
        for (queue, tally) in tallies {
            queues.entry(queue).or_default().tally = tally;
        }
        for (queue, settings) in self.settings.from(from, limit) {
            queues.entry(queue).or_default().settings = settings.as_ref().clone();
        }
        // Each of the three answered its first ones, so the first ones of the union are complete.
        let mut statuses = Vec::with_capacity(queues.len().min(limit));
        for (queue, status) in queues.into_iter().take(limit) {
            let over = self.overflow.due(&queue).await?;
            statuses.push(QueueStatus { queue, ..status }.with_far(over));
        }
        Ok(statuses)
    }

    pub(in crate::engine) async fn queue(&self, queue: &str) -> Result<QueueStatus, Error> {
        name::check_queue(queue)?;
        let queue: Arc<str> = Arc::from(queue);
        let over = self.overflow.due(&queue).await?;
        Ok(self.counted(&queue).await?.with_far(over))
    }

    /// The jobs that the broker holds, and the rows of the ledger.
    async fn counted(&self, queue: &Arc<str>) -> Result<QueueStatus, Error> {
        let counted = self.broker.counts(Queues::one(queue)).await?.pop();
        let (counts, mut tally) = counted.map(|(_, counts, tally)| (counts, tally)).unwrap_or_default();
        if self.topology.has_ledger() {
            tally = self.ledger.tallies(Queues::one(queue)).await?.pop().map(|(_, tally)| tally);
        }
        let (queue, settings) = (queue.clone(), self.settings.of(queue).as_ref().clone());
        let tally = tally.unwrap_or_default();
        Ok(QueueStatus { queue, counts, tally, settings, target_held_until: None, lately: Lately::default() })
    }

    /// The jobs of a queue that wait, for their time or for a worker. Jobs that have ended count as waiting in the ledger until that is
    /// recorded; they are left out, and as many others may be.
    pub(in crate::engine) async fn waiting(&self, queue: &Arc<str>) -> Result<u64, Error> {
        let unrecorded = if self.topology.has_ledger() { self.broker.backlog() as u64 } else { 0 };
        let QueueStatus { counts, tally, .. } = self.counted(queue).await?;
        let far = tally.pending.saturating_sub(counts.scheduled + counts.ready + counts.running + unrecorded);
        Ok(counts.scheduled + counts.ready + far)
    }

    pub(in crate::engine) async fn queue_versioned(&self, queue: &str) -> Result<(QueueStatus, u64), Error> {
        let status = self.queue(queue).await?;
        let Some((settings, version)) = read_one(self.registry.as_ref(), queue).await? else { return Ok((status, 0)) };
        Ok((QueueStatus { settings, ..status }, version))
    }
}

impl QueueStatus {
    /// Counts jobs that wait in the ledger: due jobs of the overflow as ready, all others as scheduled.
    fn with_far(mut self, over: OverflowDue) -> Self {
        self.counts.ready += over.jobs;
        self.counts.oldest_due = self.counts.oldest_due.into_iter().chain(over.oldest_due.map(Timestamp)).min();
        let near = self.counts.ready + self.counts.running;
        self.counts.scheduled = self.counts.scheduled.max(self.tally.pending.saturating_sub(near));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, due_in, far, job};
    use crate::ports::{Counts, OVERFLOW, Tally};
    use crate::testing::fixtures::due;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn each_job_of_a_queue_is_counted_once_wherever_it_is() {
        let fixture = Fixture::new().await;
        fixture.running(job()).await;
        for job in [job(), due_in(Duration::from_secs(1)), far()] {
            fixture.push(job).await;
        }
        let waits = crate::model::job::Job { queue: QUEUE.into(), ..due(1, fixture.now() - 5) };
        fixture.ledger.record(vec![waits], OVERFLOW).await.unwrap();
        fixture.loops.loader.learn_overflow().await.unwrap();
        let counts = fixture.services.queues.queue(QUEUE).await.unwrap().counts;
        assert_eq!((counts.scheduled, counts.ready, counts.running), (2, 2, 1));
        assert_eq!(counts.oldest_due, Some(Timestamp(fixture.now() - 5)));
        let all = fixture.services.queues.queues().await.unwrap();
        assert_eq!(all.iter().map(|queue| queue.counts).collect::<Vec<_>>(), [counts]);
    }

    /// The tally lags behind: it never takes away what the broker has counted.
    #[test]
    fn what_the_broker_has_counted_stays() {
        let counts = Counts { scheduled: 4, ready: 1, ..Counts::default() };
        let status =
            |pending| QueueStatus { counts, tally: Tally { pending, ..Tally::default() }, ..QueueStatus::default() };
        let scheduled = |pending| status(pending).with_far(OverflowDue::default()).counts.scheduled;
        assert_eq!((scheduled(0), scheduled(5), scheduled(7)), (4, 4, 6));
    }
}
