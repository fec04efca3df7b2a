//! Job counts across many queues. A few queues are counted on demand. All others are counted in the background, in steps
//! with pauses, as long as the counts are requested.

use crate::engine::base::Base;
use crate::engine::metrics::{OTHER_QUEUES, QUEUES_MAX};
use crate::engine::queues::{QueueCounter, Settings};
use crate::error::Error;
use crate::limits::STEP_QUEUES_MAX;
use crate::ports::{Broker, Counts, Ledger, Queues, Tally, Totals, after};
use crate::request::QueueStatus;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// Between two steps.
const STEP_EVERY: Duration = Duration::from_millis(50);
/// Between two rounds.
const ROUND_EVERY: Duration = Duration::from_secs(10);
/// How often names of queues are looked up if there are many.
const NAMES_EVERY: Duration = Duration::from_secs(30);

/// Queues beyond those counted on demand that are shown one by one.
const OTHERS_LATE_MAX: usize = 100;

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
    pub(super) fn add(&mut self, status: &QueueStatus) {
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

/// Counts jobs across many queues.
pub(in crate::engine) struct Census {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    queues: Arc<QueueCounter>,
    settings: Arc<Settings>,
    requested: Notify,
    others: Mutex<Option<Others>>,
}

/// The queues that are not counted on demand.
#[derive(Debug, PartialEq)]
struct Others {
    sum: Sum,
    /// Those in which a job waits longest.
    late: Vec<QueueStatus>,
}

impl Census {
    pub(in crate::engine) fn new(base: &Base, queues: Arc<QueueCounter>, settings: Arc<Settings>) -> Self {
        let Base { stores, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            queues,
            settings,
            requested: Notify::default(),
            others: Mutex::default(),
        }
    }

    pub(in crate::engine) async fn sums(&self) -> Result<Vec<(Arc<str>, Sum)>, Error> {
        let mut sums = Vec::with_capacity(QUEUES_MAX + 1);
        for status in self.queues.queues_from("", QUEUES_MAX).await? {
            let mut sum = Sum::default();
            sum.add(&status);
            sums.push((status.queue, sum));
        }
        if sums.len() == QUEUES_MAX {
            self.requested.notify_one();
            let others = self.others.lock().expect("no panic under this lock");
            sums.extend(others.iter().map(|others| (Arc::from(OTHER_QUEUES), others.sum)));
        }
        Ok(sums)
    }

    /// Each of the first queues; and of the others, as they were last counted, those in which a job waits longest.
    pub(in crate::engine) async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        let mut queues = self.queues.queues_from("", QUEUES_MAX).await?;
        if queues.len() == QUEUES_MAX {
            self.requested.notify_one();
            let others = self.others.lock().expect("no panic under this lock");
            queues.extend(others.iter().flat_map(|others| others.late.iter().cloned()));
        }
        Ok(queues)
    }

    /// Counts the jobs of the queues that are not counted on demand, until the engine stops.
    pub(crate) async fn count_others(&self) {
        loop {
            self.requested.notified().await;
            match self.count_others_once().await {
                Ok(others) => *self.others.lock().expect("no panic under this lock") = others,
                Err(error) => tracing::debug!(%error, "not all queues could be counted; trying again"),
            }
            tokio::time::sleep(ROUND_EVERY).await;
        }
    }

    async fn count_others_once(&self) -> Result<Option<Others>, Error> {
        let (mut sum, mut count, mut late) = (Sum::default(), 0, Vec::new());
        let mut last = self.queues.queues_from("", QUEUES_MAX).await?.pop();
        while let Some(queue) = last.take() {
            let mut some = self.queues.queues_from(&after(&queue.queue), STEP_QUEUES_MAX).await?;
            some.iter().for_each(|status| sum.add(status));
            count += some.len();
            late.extend(some.iter().filter(|status| status.counts.oldest_due.is_some()).cloned());
            late.sort_by_key(|status| status.counts.oldest_due);
            late.truncate(OTHERS_LATE_MAX);
            last = some.pop();
            tokio::time::sleep(STEP_EVERY).await;
        }
        Ok((count > 0).then_some(Others { sum, late }))
    }

    /// Looks up which queues there are, once after the start, and then whenever there are many, until the engine stops.
    pub(crate) async fn count_names(&self) {
        let mut is_first = true;
        loop {
            tokio::time::sleep(NAMES_EVERY).await;
            if !is_first && !self.settings.names.are_many() {
                continue;
            }
            self.settings.names.recount();
            match self.queue_names().await {
                Ok(names) => {
                    self.settings.names.recounted(names);
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
            let some: Vec<Arc<str>> = if !self.broker.is_ledger() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::Fixture;
    use crate::model::job::Job;
    use crate::testing::fixtures::{due, id};

    #[tokio::test(start_paused = true)]
    async fn queues_beyond_those_that_are_counted_on_demand_are_counted_as_one() {
        let fixture = Fixture::new().await;
        let census = &fixture.services.observatory.census;
        let job = |n: usize| Job { id: id(n as u64), queue: format!("q{n:04}").into(), ..due(1, fixture.now()) };
        fixture.ledger.record((1..=QUEUES_MAX).map(job).collect(), 0).await.unwrap();
        assert_eq!(census.count_others_once().await, Ok(None));
        fixture.ledger.record((QUEUES_MAX + 1..=QUEUES_MAX + 3).map(job).collect(), 0).await.unwrap();
        assert_eq!(census.sums().await.unwrap().len(), QUEUES_MAX, "the others are not known yet");
        let others = census.count_others_once().await.unwrap();
        assert_eq!(others.as_ref().map(|all| (all.sum.tally.pending, all.sum.counts.scheduled)), Some((3, 3)));
        let sum = others.as_ref().map(|all| (Arc::from(OTHER_QUEUES), all.sum));
        *census.others.lock().unwrap() = others;
        assert_eq!(census.sums().await.unwrap().pop(), sum);
        assert_eq!(census.queue_names().await.unwrap().len(), QUEUES_MAX + 3);
    }
}
