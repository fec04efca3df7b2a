//! Export: reading a store whole, without an engine. Nothing is changed, handed out or taken back.

use super::outbox_entries::OutboxEntries;
use super::queues::read_settings;
use super::schedules::read_schedules;
use super::stores::Stores;
use crate::clock::Millis;
use crate::error::Error;
use crate::limits::{PAGE_JOBS_MAX, STEP_JOBS_MAX};
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::ports::{Detail, Find, Found, Queues, Selector};
use crate::request::QueueSettings;
use crate::rules;
use crate::schedule::ScheduleStatus;
use std::sync::Arc;

/// A reading of a store, page by page, in the ledger's order.
pub struct Export {
    stores: Stores,
    /// At the beginning. Copies that pages have shown since are taken out.
    unrecorded: OutboxEntries,
    after: Option<String>,
    is_over: bool,
    running: u64,
}

impl Export {
    /// Begins to read.
    ///
    /// # Errors
    /// Of the broker; [`Error::Unavailable`] if too many outcomes are still to be recorded.
    pub async fn begin(stores: Stores) -> Result<Self, Error> {
        let unrecorded = OutboxEntries::read(stores.broker.as_ref(), stores.ledger.as_ref(), STEP_JOBS_MAX).await?;
        if unrecorded.ids.len() < stores.broker.backlog() {
            let why = "many outcomes wait to be recorded: run a server for a moment, without workers, then try again";
            return Err(Error::Unavailable(why.into()));
        }
        Ok(Self { stores, unrecorded, after: None, is_over: false, running: 0 })
    }

    /// The store's current time.
    pub fn now(&self) -> Millis {
        self.stores.broker.now()
    }

    /// About how many jobs there are.
    ///
    /// # Errors
    /// Of the ledger.
    pub async fn estimate(&self) -> Result<u64, Error> {
        let (mut count, mut queues) = (0, Some(Queues::first()));
        while let Some(asked) = queues.take() {
            let tallies = self.stores.ledger.tallies(asked.clone()).await?;
            queues = asked.next(tallies.iter().map(|(queue, _)| queue));
            let counts =
                tallies.iter().map(|(_, tally)| tally.pending + tally.succeeded + tally.failed + tally.cancelled);
            count += counts.sum::<u64>();
        }
        Ok(count)
    }

    /// The settings of all queues that have some, by name.
    ///
    /// # Errors
    /// Of the registry.
    pub async fn settings(&self) -> Result<Vec<(Arc<str>, QueueSettings)>, Error> {
        let read = read_settings(self.stores.registry.as_ref()).await?;
        Ok(read.into_iter().map(|(queue, settings, _)| (queue, settings)).collect())
    }

    /// All schedules that read back, by name.
    ///
    /// # Errors
    /// Of the registry.
    pub async fn schedules(&self) -> Result<Vec<ScheduleStatus>, Error> {
        read_schedules(self.stores.registry.as_ref(), self.stores.broker.now()).await
    }

    /// The next page, which may be empty; `None` at the end. A running job is exported as waiting, or as cancelled if its
    /// worker was asked to stop: a lease is meaningless in another store.
    ///
    /// # Errors
    /// Of the stores.
    pub async fn page(&mut self) -> Result<Option<Vec<Job>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let find = Find { after: self.after.take(), ..Find::of(Selector::All, Vec::new(), PAGE_JOBS_MAX) };
        let Found { mut jobs, next } = self.stores.ledger.find(find).await?;
        (self.is_over, self.after) = (next.is_none(), next);
        jobs.iter().for_each(|job| drop(self.unrecorded.successors.remove(&job.id)));
        if self.is_over {
            jobs.extend(std::mem::take(&mut self.unrecorded.successors).into_values());
        }
        if !self.stores.broker.is_ledger() {
            self.overlay(&mut jobs).await?;
        }
        let now = self.now();
        for job in &mut jobs {
            self.running += u64::from(rules::unlease(job, now));
        }
        Ok(Some(jobs))
    }

    /// How many of the received jobs were running.
    pub fn running(&self) -> u64 {
        self.running
    }

    /// Closes the store.
    ///
    /// # Errors
    /// Of the ledger.
    pub async fn end(self) -> Result<(), Error> {
        self.stores.ledger.close().await
    }

    /// Replaces rows by the broker's more recent state.
    async fn overlay(&self, jobs: &mut Vec<Job>) -> Result<(), Error> {
        jobs.retain(|job| !self.unrecorded.removed.contains(&job.id));
        let ids: Vec<JobId> = jobs.iter().filter(|job| job.is_pending()).map(|job| job.id).collect();
        let mut live = self.stores.broker.get(&ids, Detail::Whole).await?.into_iter();
        for job in jobs.iter_mut().filter(|job| job.is_pending()) {
            // A broker that lost its newest changes has an older state.
            if let Some(known) = live.next().flatten().filter(|known| known.version >= job.version) {
                *job = known;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export").field("running", &self.running).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, due_in, job};
    use crate::model::job::{NewJob, State};
    use crate::model::retry::{Retry, WhenExhausted};
    use crate::request::Outcome;
    use crate::rules::Failure;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_page_has_what_the_broker_knows_and_the_ledger_does_not() {
        let fixture = Fixture::new().await;
        let drops = Retry { max_attempts: Some(1), when_exhausted: Some(WhenExhausted::Drop), ..Retry::default() };
        let (runs, done) = (fixture.running(job()).await, fixture.running(job()).await);
        let dropped = fixture.running(NewJob { options: drops.into(), ..job() }).await;
        let waits = fixture.push(due_in(Duration::from_secs(9))).await;
        fixture.ledger.set_away(true);
        fixture.settle(done.receipt(), Outcome::complete(None)).await.unwrap_err();
        fixture.settle(dropped.receipt(), Outcome::Fail(Failure::default())).await.unwrap_err();
        fixture.ledger.set_away(false);
        assert!(fixture.row(done.id).unwrap().is_pending() && fixture.row(dropped.id).is_some());
        let mut export = Export::begin(fixture.base.stores.clone()).await.unwrap();
        assert_eq!(export.estimate().await, Ok(4));
        let page = export.page().await.unwrap().unwrap();
        let states: Vec<(JobId, State)> = page.iter().map(|job| (job.id, job.state(export.now()))).collect();
        assert_eq!(states, [(runs.id, State::Ready), (done.id, State::Succeeded), (waits.id, State::Scheduled)]);
        assert_eq!((export.page().await, export.running()), (Ok(None), 1));
    }
}
