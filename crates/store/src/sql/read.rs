//! Rows by id, running rows, and pending rows by bucket and id.

use super::fault::Fault;
use super::row::Hit;
use super::session::Session;
use super::value::signed;
use duetime_core::limits::PAGE_BYTES_MAX;
use duetime_core::ports::{BUCKET_MS, Cursor, OVERFLOW_BUCKET, Page, Window};
use duetime_core::{Job, JobId, Millis, Stage};
use std::collections::HashMap;

/// Priorities examined for one page of an overflow.
const LEVELS_MAX: usize = 100;
/// Maximum number of ids in one statement.
const CHUNK: usize = 1_000;

/// The rows of jobs.
pub(super) async fn get(session: &mut Session, asked: &[JobId]) -> Result<Vec<Option<Job>>, Fault> {
    let mut ids = asked.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let mut found = HashMap::with_capacity(ids.len());
    for ids in ids.chunks(CHUNK) {
        found.extend(session.jobs(ids, false).await?.into_iter().map(|job| (job.id, job)));
    }
    Ok(asked.iter().map(|id| found.get(id).cloned()).collect())
}

/// The versions and stages of jobs.
pub(super) async fn versions(session: &mut Session, asked: &[JobId]) -> Result<Vec<Option<(u64, Stage)>>, Fault> {
    let mut found = HashMap::with_capacity(asked.len());
    for ids in asked.chunks(CHUNK) {
        found.extend(session.versions(ids).await?);
    }
    Ok(asked.iter().map(|id| found.get(id).copied()).collect())
}

/// A page of pending rows without a lease. It examines `limit` rows, and reads at most the payload limit of a page, so it
/// may be short.
pub(super) async fn pending(
    session: &mut Session,
    &(until, after, limit): &(Millis, Option<Cursor>, usize),
) -> Result<Page, Fault> {
    let Some(last_ms) = until.checked_sub(1) else { return Ok(Page { jobs: Vec::new(), next: None }) };
    let after = after.unwrap_or(Cursor { bucket: OVERFLOW_BUCKET, id: u64::MAX });
    let mut hits = session.waiting(after, signed(last_ms / BUCKET_MS), limit).await?;
    let is_full = hits.len() >= limit;
    let count = fitting(&hits);
    let is_short = count < hits.len();
    hits.truncate(count);
    let next = hits.last().map(|hit| Cursor { bucket: hit.bucket, id: hit.id.get() });
    hits.retain(|hit| !hit.is_leased);
    let mut jobs = read(session, &hits).await?;
    jobs.retain(|job| job.is_pending() && job.lease_until.is_none());
    Ok(Page { jobs, next: next.filter(|_| is_full || is_short) })
}

/// The most urgent rows in the overflow of a queue, up to the payload limit of a page.
pub(super) async fn overflow(
    session: &mut Session,
    &(queue, due, limit): &(&str, Window, usize),
) -> Result<Vec<Job>, Fault> {
    let mut hits = Vec::new();
    let mut from = Some(0);
    for _ in 0..LEVELS_MAX {
        let Some(start) = from.filter(|_| hits.len() < limit) else { break };
        let Some(priority) = session.level(queue, start).await? else { break };
        hits.extend(session.over(queue, priority, due, limit - hits.len()).await?);
        from = priority.checked_add(1);
    }
    hits.truncate(fitting(&hits));
    let mut jobs = read(session, &hits).await?;
    jobs.retain(|job| job.is_pending() && job.lease_until.is_none());
    Ok(jobs)
}

/// How many of the first hits fit in a page.
fn fitting(hits: &[Hit]) -> usize {
    let mut bytes = 0;
    let fits = |hit: &&Hit| {
        let has_room = bytes < PAGE_BYTES_MAX;
        bytes += hit.bytes;
        has_room
    };
    hits.iter().take_while(fits).count()
}

/// The rows of hits, in the same order, without those removed since.
pub(super) async fn read(session: &mut Session, hits: &[Hit]) -> Result<Vec<Job>, Fault> {
    let ids: Vec<JobId> = hits.iter().map(|hit| hit.id).collect();
    let mut found = HashMap::with_capacity(ids.len());
    for ids in ids.chunks(CHUNK) {
        found.extend(session.jobs(ids, false).await?.into_iter().map(|job| (job.id, job)));
    }
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}
