//! Rows by id, running rows, and pending rows in the order of their filing.

use super::call::Verb;
use super::fault::Fault;
use super::find::PAGE_BYTES_MAX;
use super::row::{Hit, signed};
use super::session::Session;
use async_trait::async_trait;
use duetime_core::ports::{BUCKET_MS, Cursor, Page};
use duetime_core::{Job, JobId, Millis};
use std::collections::HashMap;

/// Ids that one statement asks for.
const CHUNK: usize = 1_000;

/// The rows of jobs.
pub(super) struct Get(pub(super) Vec<JobId>);

#[async_trait]
impl<S: Session> Verb<S> for Get {
    type Answer = Vec<Option<Job>>;
    const WRITES: bool = false;

    async fn run(&mut self, session: &mut S, _: bool) -> Result<Vec<Option<Job>>, Fault> {
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

/// All rows with a lease.
pub(super) struct Leased;

#[async_trait]
impl<S: Session> Verb<S> for Leased {
    type Answer = Vec<Job>;
    const WRITES: bool = false;

    async fn run(&mut self, session: &mut S, _: bool) -> Result<Vec<Job>, Fault> {
        let ids = session.leased().await?;
        let mut jobs = Vec::with_capacity(ids.len());
        for ids in ids.chunks(CHUNK) {
            jobs.extend(session.jobs(ids, false).await?);
        }
        jobs.retain(|job| job.lease_until.is_some());
        Ok(jobs)
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
impl<S: Session> Verb<S> for Pending {
    type Answer = Page;
    const WRITES: bool = false;

    async fn run(&mut self, session: &mut S, _: bool) -> Result<Page, Fault> {
        let Some(last_ms) = self.until.checked_sub(1) else { return Ok(Page { jobs: Vec::new(), next: None }) };
        let after = self.after.unwrap_or(Cursor { bucket: -1, id: 0 });
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
pub(super) async fn read<S: Session>(session: &mut S, hits: &[Hit]) -> Result<Vec<Job>, Fault> {
    let ids: Vec<JobId> = hits.iter().map(|hit| hit.id).collect();
    let mut found = HashMap::with_capacity(ids.len());
    for ids in ids.chunks(CHUNK) {
        found.extend(session.jobs(ids, false).await?.into_iter().map(|job| (job.id, job)));
    }
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}
