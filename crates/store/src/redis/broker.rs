//! The port's verbs, and reads that change nothing.

use super::call::Text;
use super::handle::Redis;
use super::jobs::{Jobs, bytes, groups_of};
use super::partitions::push_limits;
use super::put::PutAnswer;
use super::scripts;
use async_trait::async_trait;
use duetime_core::limits::{PAGE_BYTES_MAX, STEP_JOBS_MAX, STEP_QUEUES_MAX};
use duetime_core::ports::{
    Broker, BrokerClock, Counts, Detail, Edit, Edited, Expired, Extend, Extended, Host, Limits, Listing, Outbox,
    OutboxEntry, Outcomes, Put, Queues, Reading, Reserve, Reserved, Room, Settle, Settled, Take, Taken, Tally, Totals,
    Window,
};
use duetime_core::{Error, Job, JobId, Millis, State};
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Partitions queried at a time for the names of their queues.
const PARTITIONS_AT_ONCE: usize = 16;
/// Queues that one script counts, in about a millisecond.
const QUEUES_AT_ONCE: usize = 100;
/// Maximum number of running jobs that a listing examines in a partition.
const RUNNING_MAX: usize = 100_000;

/// Jobs whose heads a listing reads at a time.
const HEADS_AT_ONCE: usize = 500;
/// Whole jobs that a listing reads at a time.
const WHOLE_AT_ONCE: usize = 100;

/// A position in a sorted set.
pub(super) type Scored = (Millis, JobId);

impl BrokerClock for Redis {
    fn now(&self) -> Millis {
        self.partitions.clock.now()
    }

    fn now_at_most(&self) -> Millis {
        self.partitions.clock.now_at_most()
    }

    fn apart_ms(&self) -> u64 {
        self.partitions.clock.apart_ms()
    }

    fn until(&self, at: Millis) -> Duration {
        self.partitions.waker.expect(at);
        self.partitions.clock.until(at) + self.partitions.waker.handicap()
    }

    fn reading(&self) -> Reading {
        // A memory found after this is unknown to this reading, however late the clock is read.
        let memory = self.partitions.memories_found();
        Reading { at: self.partitions.clock.now(), memory }
    }
}

#[async_trait]
impl Outbox for Redis {
    async fn outcomes(&self, which: Outcomes) -> Result<Vec<OutboxEntry>, Error> {
        self.jobs.outcomes_which(which).await
    }

    async fn forget(&self, noted: &[(JobId, u64)], watermark: Millis) -> Result<Vec<JobId>, Error> {
        self.jobs.forget_entries(noted, watermark).await
    }

    fn backlog(&self) -> usize {
        self.jobs.backlogs().values().map(|&count| count as usize).sum()
    }
}

#[async_trait]
impl Broker for Redis {
    fn is_shared(&self) -> bool {
        true
    }

    fn unreached(&self) -> Option<Error> {
        self.partitions.link.unreached()
    }

    fn is_ledger(&self) -> bool {
        self.partitions.is_ledger()
    }

    async fn incarnation(&self) -> Result<String, Error> {
        self.partitions.whole_incarnation().await
    }

    fn partition(&self, queue: &str) -> u16 {
        self.partitions.keys.partition_of(queue)
    }

    async fn queues_in(&self, partition: u16, from: &str, limit: usize) -> Result<Vec<Arc<str>>, Error> {
        self.jobs.queues_of(partition, from, limit).await
    }

    async fn running_in(
        &self,
        partition: u16,
        after: Option<Scored>,
        limit: usize,
    ) -> Result<(Vec<Job>, Option<Scored>), Error> {
        self.jobs.running_page(partition, after, limit).await
    }

    async fn begin(&self, host: Arc<dyn Host>) -> Result<(), Error> {
        self.partitions.begin_with(host).await
    }

    async fn put(&self, jobs: Vec<Job>, reading: Reading, room: Room) -> Result<Vec<Put>, Error> {
        assert!(jobs.iter().all(Job::is_pending), "expected jobs that have not ended");
        let put = |entered: PutAnswer| match entered {
            PutAnswer::Put(put) => put,
            // Only a ledger stores origins.
            PutAnswer::New | PutAnswer::Known(_) => Put::Held,
        };
        Ok(self.jobs.put_jobs(jobs, reading, room).await?.into_iter().map(put).collect())
    }

    async fn reserve(&self, reserve: Reserve) -> Result<Reserved, Error> {
        self.jobs.reserve(reserve).await
    }

    async fn take(&self, take: Take) -> Result<Taken, Error> {
        self.jobs.take(take).await
    }

    async fn next_due(&self, queue: &Arc<str>) -> Result<Option<Millis>, Error> {
        self.jobs.next_due(queue).await
    }

    async fn extend(&self, leases: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        self.jobs.extend_leases(leases).await
    }

    async fn settle(&self, settles: Vec<Settle>) -> Result<Settled, Error> {
        self.jobs.settle_jobs(settles).await
    }

    async fn expired(&self, limit: usize) -> Result<Expired, Error> {
        self.jobs.expired_jobs(limit).await
    }

    async fn edit(&self, edits: Vec<Edit>) -> Result<(Vec<Edited>, Vec<OutboxEntry>), Error> {
        self.jobs.edit_jobs(&edits, false).await
    }

    async fn bar(&self, rows: &[(JobId, u64)]) -> Result<Vec<JobId>, Error> {
        if self.partitions.is_ledger() {
            return Ok(Vec::new());
        }
        self.jobs.add_tombstones(rows).await
    }

    async fn get(&self, ids: &[JobId], detail: Detail) -> Result<Vec<Option<Job>>, Error> {
        let records = self.jobs.records(ids, detail).await?.into_iter();
        let is_known =
            |record: &super::codec::Record| !record.removed && (!self.partitions.is_ledger() || record.is_live());
        Ok(records.map(|record| record.filter(is_known).map(|record| record.job)).collect())
    }

    async fn list(&self, listing: Listing) -> Result<Vec<Job>, Error> {
        self.jobs.list_jobs(&listing).await
    }

    async fn counts(&self, queues: Queues) -> Result<Vec<(Arc<str>, Counts, Option<Tally>)>, Error> {
        let told = |(queue, counts, tally)| (queue, counts, self.partitions.is_ledger().then_some(tally));
        Ok(self.jobs.count(queues).await?.into_iter().map(told).collect())
    }

    async fn limit(&self, queue: &Arc<str>, limits: Limits, version: u64) -> Result<(), Error> {
        let arguments = |text: &mut Text| {
            text.push(queue.as_bytes());
            push_limits(text, &limits, version);
        };
        self.partitions.run(self.partitions.keys.partition_of(queue), &scripts::LIMIT, &[], arguments).await.map(drop)
    }

    async fn remove_queue(&self, queue: &Arc<str>, version: u64) -> Result<bool, Error> {
        let arguments = |text: &mut Text| {
            text.push(queue.as_bytes());
            text.number(version);
        };
        let partition = self.partitions.keys.partition_of(queue);
        Ok(self.partitions.run(partition, &scripts::REMOVE_QUEUE, &[queue], arguments).await?.number()? != 0)
    }

    async fn set_watermark(&self, watermark: Millis) -> Result<(), Error> {
        if self.partitions.is_ledger() {
            return Ok(());
        }
        self.jobs.set_watermarks(watermark).await
    }
}

impl Jobs {
    /// One page of a sorted set in the order of scores, then ids.
    pub(super) async fn page(
        &self,
        partition: u16,
        which: &str,
        queue: &str,
        window: Window,
        after: Option<Scored>,
        limit: usize,
    ) -> Result<Vec<Scored>, Error> {
        let arguments = |text: &mut Text| {
            text.push(which.as_bytes());
            text.number(after.map_or(window.from, |(at, _)| at));
            text.number(window.to);
            text.push(after.map(|(_, id)| bytes(id)).as_ref().map_or(&[], |id| id));
            text.number(limit as u64);
        };
        let mut places = self.partitions.run(partition, &scripts::LIST, &[queue], arguments).await?.list()?.scored()?;
        places.sort_unstable();
        places.truncate(limit);
        Ok(places)
    }

    async fn list_jobs(&self, listing: &Listing) -> Result<Vec<Job>, Error> {
        let mut after = listing.after;
        loop {
            let (jobs, end) = self.list_page(listing, after).await?;
            match end {
                // All of them were leased meanwhile.
                Some(end) if jobs.is_empty() => after = Some(end),
                _ => return Ok(jobs),
            }
        }
    }

    /// A page of a listing, and where it ends if there may be more.
    async fn list_page(&self, listing: &Listing, after: Option<Scored>) -> Result<(Vec<Job>, Option<Scored>), Error> {
        let Listing { queue, states, window, after: _, limit, detail } = listing;
        let partition = self.partitions.keys.partition_of(queue);
        let after = after.filter(|&(at, _)| at >= window.from);
        let now = self.partitions.clock.now();
        let wants = |state| states.contains(&state);
        let waiting = wants(State::Scheduled) || wants(State::Ready);
        // A job that is given back meanwhile is neither among those that wait now nor among those that run then.
        let mut ran = if waiting && wants(State::Running) { self.running(partition, queue).await? } else { Vec::new() };
        let (mut places, mut end) = (Vec::new(), None);
        if waiting {
            let mut part = *window;
            if !wants(State::Ready) {
                part.from = part.from.max(now + 1);
            }
            if !wants(State::Scheduled) {
                part.to = part.to.min(now);
            }
            let after = after.filter(|&(at, _)| at >= part.from);
            places = self.page(partition, "due", queue, part, after, *limit).await?;
            end = places.last().copied().filter(|_| places.len() == *limit);
        }
        if wants(State::Running) {
            ran.append(&mut self.running(partition, queue).await?);
            let is_next = |job: &Job| after.is_none_or(|after| (job.due_at.0, job.id) > after);
            let is_in = |job: &Job| (window.from..=window.to).contains(&job.due_at.0) && job.queue == *queue;
            let mut ids: Vec<JobId> = ran.into_iter().map(|(_, id)| id).collect();
            ids.sort_unstable();
            ids.dedup();
            for some in ids.chunks(HEADS_AT_ONCE) {
                let heads = self.live(some, Detail::Head).await?;
                let fitting = heads.iter().filter(|job| is_next(job) && is_in(job));
                places.extend(fitting.map(|job| (job.due_at.0, job.id)));
            }
        }
        places.sort_unstable();
        // A job that was leased meanwhile is in both parts.
        let mut listed = HashSet::new();
        places.retain(|&(_, id)| listed.insert(id));
        // Beyond the end, other jobs may wait before those that run.
        places.retain(|&place| end.is_none_or(|end| place <= end));
        let mut jobs: Vec<Job> = Vec::new();
        let (mut looked_at, mut bytes) = (0, 0);
        let at_once = if *detail == Detail::Head { HEADS_AT_ONCE } else { WHOLE_AT_ONCE };
        while looked_at < places.len() && jobs.len() < *limit {
            if bytes > PAGE_BYTES_MAX {
                end = Some(places[looked_at - 1]);
                break;
            }
            let rest = &places[looked_at..];
            let some: Vec<JobId> = rest.iter().take(at_once.min(*limit - jobs.len())).map(|&(_, id)| id).collect();
            looked_at += some.len();
            let is_wanted = |job: &Job| job.lease_until.is_none() || wants(State::Running);
            for job in self.live(&some, *detail).await?.into_iter().filter(is_wanted) {
                bytes += job.held_bytes();
                jobs.push(job);
            }
        }
        jobs.sort_unstable_by_key(|job| (job.due_at.0, job.id));
        jobs.retain(|job| states.contains(&job.state(now)));
        Ok((jobs, end))
    }

    /// A page of the running jobs of a partition, and where it ends if there may be more.
    async fn running_page(
        &self,
        partition: u16,
        after: Option<Scored>,
        limit: usize,
    ) -> Result<(Vec<Job>, Option<Scored>), Error> {
        let places = self.page(partition, "running", "", Window::ALL, after, limit).await?;
        let ids: Vec<JobId> = places.iter().map(|&(_, id)| id).collect();
        let mut jobs = Vec::with_capacity(ids.len());
        for some in ids.chunks(HEADS_AT_ONCE) {
            jobs.extend(self.live(some, Detail::Head).await?.into_iter().filter(|job| job.lease_until.is_some()));
        }
        Ok((jobs, places.last().copied().filter(|_| places.len() == limit)))
    }

    /// The running jobs of a queue, by the end of their leases.
    async fn running(&self, partition: u16, queue: &str) -> Result<Vec<Scored>, Error> {
        let mut running: Vec<Scored> = Vec::new();
        while running.len() < RUNNING_MAX {
            let last = running.last().copied();
            let page = self.page(partition, "running", queue, Window::ALL, last, STEP_JOBS_MAX).await?;
            let is_over = page.len() < STEP_JOBS_MAX;
            running.extend(page);
            if is_over {
                break;
            }
        }
        Ok(running)
    }

    async fn live(&self, ids: &[JobId], detail: Detail) -> Result<Vec<Job>, Error> {
        let records = self.records(ids, detail).await?.into_iter().flatten();
        Ok(records.filter(|record| record.is_live()).map(|record| record.job).collect())
    }

    /// At most this many names of queues from this one on, in order.
    async fn queue_names(&self, from: &str, limit: usize) -> Result<Vec<Arc<str>>, Error> {
        let partitions = stream::iter(0..self.partitions.keys.partitions());
        let names = partitions.map(|partition| self.queues_of(partition, from, limit)).buffered(PARTITIONS_AT_ONCE);
        let mut names: Vec<Arc<str>> = names.try_concat().await?;
        names.sort_unstable();
        names.truncate(limit);
        Ok(names)
    }

    /// The same for one partition.
    pub(super) async fn queues_of(&self, partition: u16, from: &str, limit: usize) -> Result<Vec<Arc<str>>, Error> {
        let arguments = |text: &mut Text| {
            text.push(from.as_bytes());
            text.number(limit as u64);
        };
        let mut reply = self.partitions.run(partition, &scripts::QUEUES, &[], arguments).await?.list()?;
        let mut names: Vec<Arc<str>> = Vec::with_capacity(reply.len());
        while reply.len() > 0 {
            names.push(reply.text()?.into());
        }
        Ok(names)
    }

    pub(super) async fn count(&self, queues: Queues) -> Result<Vec<(Arc<str>, Counts, Tally)>, Error> {
        let queues = match queues {
            Queues::Named(queues) => queues,
            Queues::From(from, limit) => self.queue_names(&from, limit.min(STEP_QUEUES_MAX)).await?,
        };
        let mut counted = vec![(Counts::default(), Tally::default()); queues.len()];
        let groups = groups_of(queues.iter().map(|queue| self.partitions.keys.partition_of(queue)), QUEUES_AT_ONCE);
        for (partition, chosen) in groups {
            let names: Vec<&str> = chosen.iter().map(|&i| queues[i].as_ref()).collect();
            let arguments = |text: &mut Text| names.iter().for_each(|name| text.push(name.as_bytes()));
            let mut answers = self.partitions.run(partition, &scripts::COUNTS, &names, arguments).await?.list()?;
            for &i in &chosen {
                let mut answer = answers.list()?;
                let mut number = || answer.number().map(|number| u64::try_from(number).unwrap_or(0));
                let (scheduled, ready, running) = (number()?, number()?, number()?);
                let oldest_due = answer.optional()?;
                let mut number = || answer.number().map(|number| u64::try_from(number).unwrap_or(0));
                let paused = number()? != 0;
                let counts = Counts::new([scheduled, ready, running], oldest_due, paused);
                let pending = scheduled + ready + running;
                let (succeeded, failed, cancelled) = (number()?, number()?, number()?);
                let totals =
                    Totals { pushed: number()?, succeeded: number()?, failed: number()?, cancelled: number()? };
                let tally = Tally::new([pending, succeeded, failed, cancelled], totals);
                counted[i] = (counts, tally);
            }
        }
        Ok(queues.into_iter().zip(counted).map(|(queue, (counts, tally))| (queue, counts, tally)).collect())
    }
}
