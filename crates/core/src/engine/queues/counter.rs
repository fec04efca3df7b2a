//! The counts of the jobs of queues.

use super::Settings;
use super::documents::read_one;
use crate::engine::base::Base;
use crate::engine::overflow::Overflow;
use crate::engine::stores::Topology;
use crate::engine::unrecorded::unrecorded_ends;
use crate::error::Error;
use crate::json::Timestamp;
use crate::limits::{PAGE_JOBS_MAX, STEP_QUEUES_MAX};
use crate::model::name;
use crate::ports::{Broker, Ledger, OverflowDue, Queues, Registry, Tally, after};
use crate::request::{Lately, QueueStatus};
use std::collections::{BTreeMap, HashMap};
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
        let (tallies, ends) = self.recorded(asked.clone()).await?;
        for (queue, counts, tally) in self.broker.counts(asked).await? {
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
            let ended = ends.get(&queue).copied().unwrap_or_default();
            statuses.push(QueueStatus { queue, ..status }.with_far(over, ended));
        }
        Ok(statuses)
    }

    pub(in crate::engine) async fn queue(&self, queue: &str) -> Result<QueueStatus, Error> {
        name::check_queue(queue)?;
        let queue: Arc<str> = Arc::from(queue);
        let over = self.overflow.due(&queue).await?;
        let (status, ended) = self.counted(&queue).await?;
        Ok(status.with_far(over, ended))
    }

    /// The jobs that the broker holds, and the rows of the ledger; of these, how many are of jobs that have ended.
    async fn counted(&self, queue: &Arc<str>) -> Result<(QueueStatus, u64), Error> {
        let (mut tallies, mut ends) = self.recorded(Queues::one(queue)).await?;
        let recorded = tallies.pop().map(|(_, tally)| tally);
        let counted = self.broker.counts(Queues::one(queue)).await?.pop();
        let (counts, tally) = counted.map(|(_, counts, tally)| (counts, tally)).unwrap_or_default();
        let (queue, settings) = (queue.clone(), self.settings.of(queue).as_ref().clone());
        let tally = recorded.or(tally).unwrap_or_default();
        let ended = ends.remove(&queue).unwrap_or_default();
        let lately = Lately::default();
        Ok((QueueStatus { queue, counts, tally, settings, target_held_until: None, lately }, ended))
    }

    /// The tallies of the ledger, if there is one beside the broker, and by queue how many of the pending jobs have ended: these are pending
    /// until that is recorded. Only ends in one page of the outbox are known.
    ///
    /// Ask the broker for its counts only after this. So a job that ends meanwhile may be counted twice, but none of those that
    /// waited before is missing.
    async fn recorded(&self, queues: Queues) -> Result<(Vec<(Arc<str>, Tally)>, HashMap<Arc<str>, u64>), Error> {
        if !self.topology.has_ledger() {
            return Ok((Vec::new(), HashMap::new()));
        }
        let tallies = self.ledger.tallies(queues).await?;
        if self.broker.backlog() == 0 {
            return Ok((tallies, HashMap::new()));
        }
        let has_pending = |queue: &str| tallies.iter().any(|(other, tally)| **other == *queue && tally.pending > 0);
        let (broker, ledger) = (self.broker.as_ref(), self.ledger.as_ref());
        let ends = unrecorded_ends(broker, ledger, PAGE_JOBS_MAX, has_pending).await?;
        Ok((tallies, ends))
    }

    /// The jobs of a queue that wait, for their time or for a worker. It may be more than there are, if some have just ended.
    pub(in crate::engine) async fn waiting(&self, queue: &Arc<str>) -> Result<u64, Error> {
        let (QueueStatus { counts, tally, .. }, ended) = self.counted(queue).await?;
        let far = tally.pending.saturating_sub(counts.scheduled + counts.ready + counts.running + ended);
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
    fn with_far(mut self, over: OverflowDue, ended: u64) -> Self {
        self.counts.ready += over.jobs;
        self.counts.oldest_due = self.counts.oldest_due.into_iter().chain(over.oldest_due.map(Timestamp)).min();
        let others = self.counts.ready + self.counts.running + ended;
        self.counts.scheduled = self.counts.scheduled.max(self.tally.pending.saturating_sub(others));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, due_in, far, job};
    use crate::model::job::NewJob;
    use crate::ports::{Counts, OVERFLOW};
    use crate::request::Outcome;
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

    /// Its row is pending until the outcome is recorded.
    #[tokio::test(start_paused = true)]
    async fn a_job_that_has_ended_does_not_wait_and_hides_none_of_another_queue() {
        let fixture = Fixture::new().await;
        for _ in 0..2 {
            let job = fixture.running(job()).await;
            fixture.ledger.set_away(true);
            fixture.settle(job.receipt(), Outcome::Complete { result: None }).await.unwrap_err();
            fixture.ledger.set_away(false);
        }
        fixture.push(NewJob { queue: "other".into(), ..far() }).await;
        assert_eq!(fixture.base.stores.broker.backlog(), 2);
        let queues = &fixture.services.queues;
        for (queue, waiting) in [(QUEUE, 0), ("other", 1)] {
            assert_eq!(queues.waiting(&queue.into()).await, Ok(waiting));
            assert_eq!(queues.queue(queue).await.unwrap().counts.scheduled, waiting);
        }
        assert_eq!(queues.queues().await.unwrap().iter().map(|queue| queue.counts.scheduled).sum::<u64>(), 1);
    }

    /// The tally lags behind: it never takes away what the broker has counted.
    #[test]
    fn what_the_broker_has_counted_stays() {
        let counts = Counts { scheduled: 4, ready: 1, ..Counts::default() };
        let status =
            |pending| QueueStatus { counts, tally: Tally { pending, ..Tally::default() }, ..QueueStatus::default() };
        let scheduled = |pending| status(pending).with_far(OverflowDue::default(), 0).counts.scheduled;
        assert_eq!((scheduled(0), scheduled(5), scheduled(7)), (4, 4, 6));
    }
}
