//! Rows by id, running rows, and pending rows by bucket and id.

use super::call::Verb;
use super::fault::Fault;
use super::row::{Hit, signed};
use super::session::Session;
use async_trait::async_trait;
use duetime_core::limits::PAGE_BYTES_MAX;
use duetime_core::ports::{BUCKET_MS, Cursor, OVERFLOW_BUCKET, OverflowDue, Page, Window};
use duetime_core::{Job, JobId, Millis};
use std::collections::HashMap;
use std::sync::Arc;

/// Priorities that are looked at for one page of an overflow.
const LEVELS_MAX: usize = 100;
/// Ids that one statement asks for.
const CHUNK: usize = 1_000;

/// The rows of jobs.
pub(super) struct Get(pub(super) Vec<JobId>);

#[async_trait]
impl Verb for Get {
    type Answer = Vec<Option<Job>>;
    const WRITES: bool = false;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<Vec<Option<Job>>, Fault> {
        let mut ids = self.0.clone();
        ids.sort_unstable();
        ids.dedup();
        let mut found = HashMap::with_capacity(ids.len());
        for ids in ids.chunks(CHUNK) {
            found.extend(session.jobs(ids, false).await?.into_iter().map(|job| (job.id, job)));
        }
        Ok(self.0.iter().map(|id| found.get(id).cloned()).collect())
    }
}

/// A page of pending rows without a lease. It looks at `limit` rows, and reads no more payload than a page may have, so
/// it may be short.
pub(super) struct Pending {
    pub(super) until: Millis,
    pub(super) after: Option<Cursor>,
    pub(super) limit: usize,
}

#[async_trait]
impl Verb for Pending {
    type Answer = Page;
    const WRITES: bool = false;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<Page, Fault> {
        let Some(last_ms) = self.until.checked_sub(1) else { return Ok(Page { jobs: Vec::new(), next: None }) };
        let after = self.after.unwrap_or(Cursor { bucket: OVERFLOW_BUCKET, id: u64::MAX });
        let mut hits = session.waiting(after, signed(last_ms / BUCKET_MS), self.limit).await?;
        let is_full = hits.len() >= self.limit;
        let count = fitting(&hits);
        let is_short = count < hits.len();
        hits.truncate(count);
        let next = hits.last().map(|hit| Cursor { bucket: hit.bucket, id: hit.id.get() });
        hits.retain(|hit| !hit.is_leased);
        let mut jobs = read(session, &hits).await?;
        jobs.retain(|job| job.is_pending() && job.lease_until.is_none());
        Ok(Page { jobs, next: next.filter(|_| is_full || is_short) })
    }
}

/// The most urgent rows in the overflow of a queue: no more payload than a page may have.
pub(super) struct Overflow {
    pub(super) queue: String,
    pub(super) due: Window,
    pub(super) limit: usize,
}

#[async_trait]
impl Verb for Overflow {
    type Answer = Vec<Job>;
    const WRITES: bool = false;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<Vec<Job>, Fault> {
        let mut hits = Vec::new();
        let mut from = Some(0);
        for _ in 0..LEVELS_MAX {
            let Some(start) = from.filter(|_| hits.len() < self.limit) else { break };
            let Some(priority) = session.level(&self.queue, start).await? else { break };
            hits.extend(session.over(&self.queue, priority, self.due, self.limit - hits.len()).await?);
            from = priority.checked_add(1);
        }
        hits.truncate(fitting(&hits));
        let mut jobs = read(session, &hits).await?;
        jobs.retain(|job| job.is_pending() && job.lease_until.is_none());
        Ok(jobs)
    }
}

/// The next queue by name that has an overflow.
pub(super) struct Overflowing(pub(super) String);

#[async_trait]
impl Verb for Overflowing {
    type Answer = Option<Arc<str>>;
    const WRITES: bool = false;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<Option<Arc<str>>, Fault> {
        session.overflowing(&self.0).await
    }
}

/// What is due in the overflow of a queue.
pub(super) struct CountOverflow {
    pub(super) queue: String,
    pub(super) now: Millis,
}

#[async_trait]
impl Verb for CountOverflow {
    type Answer = OverflowDue;
    const WRITES: bool = false;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<OverflowDue, Fault> {
        session.over_due(&self.queue, self.now).await
    }
}

/// How many of the first hits make a page.
fn fitting(hits: &[Hit]) -> usize {
    let mut bytes = 0;
    let fits = |hit: &&Hit| {
        let has_room = bytes < PAGE_BYTES_MAX;
        bytes += hit.bytes;
        has_room
    };
    hits.iter().take_while(fits).count()
}

/// The rows of hits, in their order, without those that have gone.
pub(super) async fn read(session: &mut Session, hits: &[Hit]) -> Result<Vec<Job>, Fault> {
    let ids: Vec<JobId> = hits.iter().map(|hit| hit.id).collect();
    let mut found = HashMap::with_capacity(ids.len());
    for ids in ids.chunks(CHUNK) {
        found.extend(session.jobs(ids, false).await?.into_iter().map(|job| (job.id, job)));
    }
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}
