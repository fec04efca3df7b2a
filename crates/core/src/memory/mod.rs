//! The memory broker: live jobs of one process, on timing wheels.
//!
//! One lock guards everything. Under it no call touches more than [`STEP_JOBS_MAX`] jobs, and longer work releases the lock
//! between its steps. Due times use the wall clock, leases the monotonic one. If the wall clock is set forward, jobs become
//! due at the next look; if it is set back, ready jobs are held back again; neither ends a lease.
//!
//! It deliberately makes no decisions, knows no retry rules, and does not outlive its process: the ledger does.

mod by_id;
mod edit;
mod job_table;
mod list;
mod live;
mod locks;
mod names;
mod outbox;
mod queue;
mod requests;
mod reserve;
mod settle;
mod tombstones;
pub mod wheel;

use crate::clock::{Clock, Millis};
use crate::error::Error;
use crate::limits::{STEP_JOBS_MAX, STEP_QUEUES_MAX};
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::ports::{
    Beginning, Broker, BrokerClock, Counts, Detail, Edit, Edited, Expired, Extend, Extended, HandOut, Host, Limits,
    Listing, Outbox, OutboxEntry, Outcomes, Put, Queues, Reading, Reserve, Reserved, Room, Settle, Settled, Take,
    Taken, Tally,
};
pub use locks::Locks;

use async_trait::async_trait;
use job_table::{JobTable, Now};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Live jobs in memory.
pub struct Memory {
    clock: Arc<dyn Clock>,
    table: Mutex<JobTable>,
    host: OnceLock<Arc<dyn Host>>,
}

impl Memory {
    /// An empty broker that uses this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let table = Mutex::new(JobTable::new(clock.mono()));
        Self { clock, table, host: OnceLock::new() }
    }

    /// Sets the host that is woken from now on.
    pub fn watch(&self, host: Arc<dyn Host>) {
        assert!(self.host.set(host).is_ok(), "a broker is used by one engine");
    }

    /// Begins with these values: from now on it hands out jobs.
    pub fn begin_with(&self, beginning: Beginning) {
        self.with(|table, now| table.begin(beginning, now));
    }

    /// The number of running jobs of a queue.
    #[cfg(any(test, feature = "testing"))]
    pub fn running(&self, queue: &str) -> usize {
        self.with(|table, _| table.queues.get(queue).map_or(0, |queue| queue.running.len()))
    }

    /// A copy of all that it holds now, with another clock. The copy has not begun and has no host.
    #[cfg(any(test, feature = "testing"))]
    pub fn copy(&self, clock: Arc<dyn Clock>) -> Self {
        let mut table = self.table.lock().expect("no panic leaves the broker half changed").clone();
        table.generation = None;
        Self { clock, table: Mutex::new(table), host: OnceLock::new() }
    }

    /// Runs a function under the lock, and then wakes the waiters of queues that need a look.
    fn with<R>(&self, act: impl FnOnce(&mut JobTable, Now) -> R) -> R {
        let mut table = self.table.lock().expect("no panic leaves the broker half changed");
        let answer = act(&mut table, Now::of(self.clock.as_ref()));
        let to_wake = std::mem::take(&mut table.to_wake);
        drop(table);
        if let Some(host) = self.host.get() {
            to_wake.iter().for_each(|queue| host.wake(Some(queue)));
        }
        answer
    }

    /// Runs a function for each item, in steps.
    fn each<T, R>(&self, items: Vec<T>, mut act: impl FnMut(&mut JobTable, T, Now) -> R) -> Vec<R> {
        let mut answers = Vec::with_capacity(items.len());
        let mut items = items.into_iter();
        while items.len() > 0 {
            self.with(|table, now| {
                answers.extend(items.by_ref().take(STEP_JOBS_MAX).map(|item| act(table, item, now)));
            });
        }
        answers
    }

    async fn hand_out(&self, request: HandOut<'_>) -> Taken {
        let mut resume = (0, queue::FIRST);
        loop {
            if let Some(taken) = self.with(|table, now| table.hand_out(request, &mut resume, now)) {
                return taken;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Moves all due jobs of a queue to ready, in steps.
    async fn advance(&self, queue: &Arc<str>) {
        while self.with(|table, now| table.advance(queue, now, STEP_JOBS_MAX)) {
            tokio::task::yield_now().await;
        }
    }
}

impl BrokerClock for Memory {
    fn now(&self) -> Millis {
        self.clock.wall()
    }

    fn until(&self, at: Millis) -> Duration {
        self.clock.until(at)
    }
}

#[async_trait]
impl Outbox for Memory {
    async fn outcomes(&self, which: Outcomes) -> Result<Vec<OutboxEntry>, Error> {
        Ok(self.with(|table, now| match which {
            Outcomes::Oldest { limit, age_ms } => match now.mono.checked_sub(age_ms) {
                Some(until) => table.outbox.oldest(0, limit, until),
                None => Vec::new(),
            },
            Outcomes::In { partition: _, skip, limit } => table.outbox.oldest(skip, limit, Millis::MAX),
            Outcomes::Of(id) => table.outbox.get(id).cloned().into_iter().collect(),
        }))
    }

    async fn forget(&self, noted: &[(JobId, u64)], watermark: Millis) -> Result<Vec<JobId>, Error> {
        let outdated = self.each(noted.to_vec(), |table, (id, version), now| table.forget(id, version, watermark, now));
        Ok(noted.iter().zip(outdated).filter(|(_, is_outdated)| *is_outdated).map(|((id, _), _)| *id).collect())
    }

    fn backlog(&self) -> usize {
        self.with(|table, _| table.outbox.len())
    }

    fn backlog_bytes(&self) -> u64 {
        self.with(|table, _| table.outbox.bytes())
    }
}

#[async_trait]
impl Broker for Memory {
    fn is_shared(&self) -> bool {
        false
    }

    async fn begin(&self, host: Arc<dyn Host>) -> Result<(), Error> {
        let beginning = host.beginning().await?;
        self.watch(host);
        self.begin_with(beginning);
        Ok(())
    }

    async fn put(&self, jobs: Vec<Job>, reading: Reading, room: Room) -> Result<Vec<Put>, Error> {
        assert!(jobs.iter().all(Job::is_pending), "expected jobs that have not ended");
        Ok(self.each(jobs, |table, job, now| table.put(job, reading.at, room, now)))
    }

    async fn crowded_out(&self, jobs: &[(JobId, u64)], room: Room) -> Result<Vec<Job>, Error> {
        let dropped = self.each(jobs.to_vec(), |table, (id, version), now| table.crowd_out(id, version, room, now));
        Ok(dropped.into_iter().flatten().collect())
    }

    async fn reserve(&self, reserve: Reserve) -> Result<Reserved, Error> {
        Ok(self.hand_out(HandOut::Reserve(&reserve)).await.reserved)
    }

    async fn take(&self, take: Take) -> Result<Taken, Error> {
        Ok(self.hand_out(HandOut::Take(&take)).await)
    }

    async fn next_due(&self, queue: &Arc<str>) -> Result<Option<Millis>, Error> {
        Ok(self.with(|table, now| table.next_due(queue, now)))
    }

    async fn extend(&self, leases: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        Ok(self.each(leases, JobTable::extend))
    }

    async fn settle(&self, settles: Vec<Settle>) -> Result<Settled, Error> {
        let mut settled = Settled::default();
        self.each(settles, |table, settle, now| table.settle(settle, now, &mut settled));
        Ok(settled)
    }

    async fn expired(&self, limit: usize) -> Result<Expired, Error> {
        Ok(self.with(|table, now| table.expired(limit.min(STEP_JOBS_MAX), now)))
    }

    async fn edit(&self, edits: Vec<Edit>) -> Result<(Vec<Edited>, Vec<OutboxEntry>), Error> {
        let mut entries = Vec::new();
        let edited = self.each(edits, |table, edit, now| table.edit(&edit, now, &mut entries));
        Ok((edited, entries))
    }

    async fn bar(&self, rows: &[(JobId, u64)]) -> Result<Vec<JobId>, Error> {
        let here = self.each(rows.to_vec(), |table, (id, version), now| table.bar(id, version, now));
        Ok(rows.iter().zip(here).filter(|(_, is_here)| *is_here).map(|((id, _), _)| *id).collect())
    }

    async fn get(&self, ids: &[JobId], _detail: Detail) -> Result<Vec<Option<Job>>, Error> {
        Ok(self.each(ids.to_vec(), |table, id, _| table.get(id)))
    }

    async fn list(&self, listing: Listing) -> Result<Vec<Job>, Error> {
        self.advance(&listing.queue).await;
        let (mut first, mut part) = (list::First::default(), Some(list::Part::FIRST));
        while let Some(from) = part {
            part = self.with(|table, _| table.list(&listing, from, &mut first));
            tokio::task::yield_now().await;
        }
        Ok(self.with(|table, now| table.listed(&listing, first, now.wall)))
    }

    async fn counts(&self, queues: Queues) -> Result<Vec<(Arc<str>, Counts, Option<Tally>)>, Error> {
        let queues = match queues {
            Queues::Named(queues) => queues,
            Queues::From(from, limit) => self.with(|table, _| table.queue_names(&from, limit.min(STEP_QUEUES_MAX))),
        };
        let mut counts = Vec::with_capacity(queues.len());
        for queue in queues {
            self.advance(&queue).await;
            let (mut count, mut from) = (Counts::default(), Some(queue::FIRST));
            while let Some(start) = from {
                from = self.with(|table, _| table.count(&queue, start, &mut count));
            }
            counts.push((queue, count, None));
        }
        Ok(counts)
    }

    async fn limit(&self, queue: &Arc<str>, limits: Limits, version: u64) -> Result<(), Error> {
        self.with(|table, now| table.limit(queue, limits, version, now));
        Ok(())
    }

    async fn remove_queue(&self, queue: &Arc<str>, version: u64) -> Result<bool, Error> {
        Ok(self.with(|table, _| table.remove_queue(queue, version)))
    }

    async fn set_watermark(&self, watermark: Millis) -> Result<(), Error> {
        self.with(|table, _| table.watermark = Some(table.watermark.map_or(watermark, |known| known.max(watermark))));
        Ok(())
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}
