//! Redis as its own ledger: recording a job puts it into its queue, and finished jobs are kept for a while.

use super::call::Call;
use super::call::Text;
use super::handle::Redis;
use super::jobs::{Jobs, groups_by_size};
use super::put::PutAnswer;
use super::reply::id;
use super::scripts;
use super::usage::Usage;
use async_trait::async_trait;
use duetime_core::limits::{KEY_BYTES_MAX, ORIGIN_BYTES_MAX, QUEUE_BYTES_MAX};
use duetime_core::ports::{
    BrokerClock, Cursor, Detail, Edit, Edited, Find, Found, Ledger, OutboxEntry, Page, Put, Queues, Recorded,
    Retention, Room, Tally, Trouble,
};
use duetime_core::{Error, Job, JobId, Millis};
use redis::Value;
use std::ops::Range;
use std::sync::Arc;
use tokio::time::Instant;

/// The longest names by which a job is looked up.
const NAMES_BYTES_MAX: usize = QUEUE_BYTES_MAX + ORIGIN_BYTES_MAX + KEY_BYTES_MAX;

#[async_trait]
impl Ledger for Redis {
    async fn allot(&self, count: u64, now: Millis) -> Result<Range<u64>, Error> {
        self.jobs.allot_block(count, now).await
    }

    async fn record(&self, jobs: Vec<Job>, _watermark: Millis) -> Result<Vec<Recorded>, Error> {
        self.jobs.make_room().await?;
        let reading = self.reading();
        let recorded = |entered: PutAnswer| match entered {
            PutAnswer::New => Recorded::Created,
            PutAnswer::Known(first) => Recorded::Known(first),
            PutAnswer::Put(Put::KeyHeld(holder)) => Recorded::KeyHeld(holder),
            PutAnswer::Put(_) => Recorded::Repeat,
        };
        if jobs.iter().all(Job::is_pending) {
            return Ok(self.jobs.put_jobs(jobs, reading, Room::Any).await?.into_iter().map(recorded).collect());
        }
        // Finished jobs of an import.
        let (pending, ended): (Vec<_>, Vec<_>) = jobs.iter().cloned().partition(Job::is_pending);
        let mut pending = self.jobs.put_jobs(pending, reading, Room::Any).await?.into_iter().map(recorded);
        let mut ended = self.jobs.keep_jobs(ended).await?.into_iter();
        let mut next = |job: &Job| if job.is_pending() { pending.next() } else { ended.next() };
        Ok(jobs.iter().map(|job| next(job).expect("there is an answer for each job")).collect())
    }

    async fn known(&self, jobs: &[Job]) -> Result<Vec<Option<Recorded>>, Error> {
        let mut known = vec![None; jobs.len()];
        let sizes = jobs.iter().map(|job| (self.jobs.partitions.keys.partition_of(&job.queue), NAMES_BYTES_MAX));
        for (partition, positions) in groups_by_size(sizes) {
            let arguments = |text: &mut Text| {
                for job in positions.iter().map(|&position| &jobs[position]) {
                    text.push(job.queue.as_bytes());
                    text.push(job.origin.as_deref().unwrap_or_default().as_bytes());
                    text.push(job.live_key().map_or("", |key| key).as_bytes());
                }
            };
            let mut reply = self.jobs.partitions.run(partition, &scripts::KNOWN, &[], arguments).await?.list()?;
            for &position in &positions {
                let named = reply.bytes()?;
                known[position] = match named.strip_prefix(b"=") {
                    Some(first) => Some(Recorded::Known(id(first)?)),
                    None if named.is_empty() => None,
                    None => Some(Recorded::KeyHeld(id(&named)?)),
                };
            }
        }
        Ok(known)
    }

    /// Only new jobs that begin with an end arrive here; everything else is already in place.
    async fn apply(&self, entries: Vec<OutboxEntry>, _watermark: Millis) -> Result<Vec<JobId>, Error> {
        let successors: Vec<Job> = entries.iter().flat_map(OutboxEntry::successors).cloned().collect();
        let ids: Vec<JobId> = successors.iter().map(|job| job.id).collect();
        let entered = self.jobs.put_jobs(successors, self.reading(), Room::Any).await?;
        let known = ids.into_iter().zip(entered).filter(|(_, entered)| *entered == PutAnswer::Put(Put::Held));
        let known: Vec<JobId> = known.map(|(id, _)| id).collect();
        let records = self.jobs.records(&known, Detail::Head).await?.into_iter().flatten();
        Ok(records.filter(|record| record.job.options().imported).map(|record| record.job.id).collect())
    }

    async fn pending(&self, _until: Millis, _after: Option<Cursor>, _limit: usize) -> Result<Page, Error> {
        Ok(Page { jobs: Vec::new(), next: None })
    }

    async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
        Ok(self
            .jobs
            .records(ids, Detail::Whole)
            .await?
            .into_iter()
            .map(|record| record.map(|record| record.job))
            .collect())
    }

    async fn find(&self, find: Find) -> Result<Found, Error> {
        self.jobs.find_page(&find).await
    }

    async fn edit(&self, edits: Vec<Edit>, _now: Millis, _watermark: Millis) -> Result<Vec<Edited>, Error> {
        Ok(self.jobs.edit_jobs(&edits, true).await?.0)
    }

    async fn prune(&self, retention: Retention, now: Millis, limit: usize) -> Result<usize, Error> {
        let mut pruned = 0;
        let mut partitions = self.jobs.used().into_iter();
        let mut next = partitions.next();
        while let Some(partition) = next.filter(|_| pruned < limit) {
            let arguments = |text: &mut Text| {
                text.number(now.saturating_sub(retention.succeeded.0));
                text.number(now.saturating_sub(retention.failed.0));
                text.number((limit - pruned) as u64);
                text.number(0);
            };
            let mut reply = self.partitions.run(partition, &scripts::PRUNE, &[], arguments).await?;
            pruned += reply.number()? as usize;
            let are_more = reply.number()? != 0;
            next = if are_more { Some(partition) } else { partitions.next() };
        }
        Ok(pruned)
    }

    async fn tallies(&self, queues: Queues) -> Result<Vec<(Arc<str>, Tally)>, Error> {
        let mut counted = self.jobs.count(queues).await?;
        counted.sort_unstable_by(|(a, ..), (b, ..)| a.cmp(b));
        Ok(counted.into_iter().map(|(queue, _, tally)| (queue, tally)).collect())
    }

    fn troubles(&self) -> Vec<(Trouble, String)> {
        self.jobs.usage.troubles()
    }

    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Records that a script drops at most to make room.
const DROPPED_AT_ONCE: u64 = 100;

impl Jobs {
    /// Drops records of finished jobs, the oldest first, if new jobs would be refused otherwise. Fails if they are refused all
    /// the same.
    pub(super) async fn make_room(&self) -> Result<(), Error> {
        let max = self.partitions.options.memory_max;
        if self.usage.check(max).is_ok() {
            return Ok(());
        }
        let mut none_left = self.usage.dropping.lock().await;
        // There may be room again since it was last asked.
        self.usage.ask(&self.partitions.link).await?;
        while self.usage.excess(max) > 0 && Usage::may_drop(*none_left) {
            let mut any = false;
            for partition in 0..self.partitions.keys.partitions() {
                let needed = self.usage.excess(max);
                if needed == 0 {
                    break;
                }
                let arguments = |text: &mut Text| {
                    text.number(0);
                    text.number(0);
                    text.number(DROPPED_AT_ONCE);
                    text.number(needed);
                };
                let mut reply = self.partitions.run(partition, &scripts::PRUNE, &[], arguments).await?;
                let (dropped, _, bytes) = (reply.number()?, reply.number()?, reply.number()?);
                if dropped > 0 {
                    any = true;
                    self.usage.has_dropped(bytes as u64);
                }
            }
            *none_left = (!any).then(Instant::now);
            // The bytes are an estimate.
            self.usage.ask(&self.partitions.link).await?;
        }
        self.usage.check(max)
    }

    /// By the clock of Redis, or by this instant if it is later.
    async fn allot_block(&self, count: u64, now: Millis) -> Result<Range<u64>, Error> {
        let mut call = Call { script: &scripts::ALLOT, keys: Text::default(), arguments: Text::default() };
        call.keys.push(self.partitions.keys.own("ids").as_bytes());
        call.arguments.number(count);
        match self.partitions.clock.given() {
            Some(now) => call.arguments.number(now),
            None => call.arguments.push(b""),
        }
        call.arguments.number(now);
        let start: Value = self.partitions.link.call(&call).await?;
        let start = u64::try_from(super::reply::number(&start)?).unwrap_or(0);
        Ok(start..start + count)
    }
}
