//! Rows by id, running rows, and pending rows by bucket and id.

use super::fault::Fault;
use super::number::Number;
use super::row::{Reader, jobs};
use duetime_core::limits::PAGE_BYTES_MAX;
use duetime_core::ports::{BUCKET_MS, Cursor, OVERFLOW_BUCKET, Page};
use duetime_core::{Job, JobId, Millis};
use rusqlite::Connection;

pub(super) const ONE: &str = jobs!(" FROM duetime_jobs j WHERE id = ?1");
pub(super) const LEASED: &str = jobs!(" FROM duetime_jobs j WHERE lease_until IS NOT NULL");
pub(super) const PENDING_IN: &str =
    jobs!(", j.bucket FROM duetime_jobs j WHERE state = 1 AND bucket = ?1 AND id > ?2 ORDER BY id");
pub(super) const PENDING_BEHIND: &str =
    jobs!(", j.bucket FROM duetime_jobs j WHERE state = 1 AND bucket > ?1 AND bucket <= ?2 ORDER BY bucket, id");

/// The position of the bucket in the latter two.
const BUCKET_COLUMN: usize = 29;

/// One row.
pub(super) fn one(connection: &Connection, id: JobId) -> Result<Option<Job>, Fault> {
    let mut statement = connection.prepare_cached(ONE)?;
    let mut rows = statement.query([Number(id.get())])?;
    rows.next()?.map(|row| Reader::default().job(row)).transpose()
}

/// The rows of these jobs.
pub(super) fn get(connection: &Connection, ids: &[JobId]) -> Result<Vec<Option<Job>>, Fault> {
    let mut statement = connection.prepare_cached(ONE)?;
    let mut reader = Reader::default();
    ids.iter()
        .map(|id| {
            let mut rows = statement.query([Number(id.get())])?;
            rows.next()?.map(|row| reader.job(row)).transpose()
        })
        .collect()
}

/// All rows with a lease.
pub(super) fn leased(connection: &Connection) -> Result<Vec<Job>, Fault> {
    let mut statement = connection.prepare_cached(LEASED)?;
    let mut reader = Reader::default();
    let mut rows = statement.query([])?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        jobs.push(reader.job(row)?);
    }
    Ok(jobs)
}

/// A page of pending rows without a lease. It examines `limit` rows, up to the payload limit of a page, so it may be short.
pub(super) fn pending(
    connection: &Connection,
    until: Millis,
    after: Option<Cursor>,
    limit: usize,
) -> Result<Page, Fault> {
    let mut page = Page { jobs: Vec::new(), next: None };
    let Some(last_ms) = until.checked_sub(1) else { return Ok(page) };
    let last_bucket = i64::try_from(last_ms / BUCKET_MS).unwrap_or(i64::MAX);
    let after = after.unwrap_or(Cursor { bucket: OVERFLOW_BUCKET, id: u64::MAX });
    let mut reader = Reader::default();
    let (mut seen, mut bytes) = (0, 0);
    let mut is_full = false;
    // The rest of the bucket in which the last page ended, then the buckets after it.
    for (sql, high) in [(PENDING_IN, i64::try_from(after.id).unwrap_or(i64::MAX)), (PENDING_BEHIND, last_bucket)] {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query((after.bucket, high))?;
        while !is_full && let Some(row) = rows.next()? {
            let job = reader.job(row)?;
            seen += 1;
            page.next = Some(Cursor { bucket: row.get(BUCKET_COLUMN)?, id: job.id.get() });
            if job.lease_until.is_none() {
                bytes += job.payload.len();
                page.jobs.push(job);
            }
            is_full = seen >= limit || bytes >= PAGE_BYTES_MAX;
        }
    }
    if !is_full {
        page.next = None;
    }
    Ok(page)
}
