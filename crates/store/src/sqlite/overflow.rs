//! Rows that wait for room in the broker, by urgency; and the buckets of pending rows.
//!
//! Each priority is a stream of rows by due time, so due rows are found without examining more urgent rows that are not due.

use super::fault::Fault;
use super::number::{Number, Numbers};
use super::row::{Reader, jobs};
use duetime_core::limits::PAGE_BYTES_MAX;
use duetime_core::ports::{OVERFLOW, OverflowDue, Window};
use duetime_core::{Job, JobId, Millis};
use rusqlite::{Connection, OptionalExtension};
use std::sync::Arc;

/// Priorities examined for one page.
const LEVELS_MAX: usize = 1_000;

// Each names its index: without statistics on the rows of a bucket, another index looks equally good to SQLite.
pub(super) const LEVEL: &str = "SELECT priority FROM duetime_jobs j INDEXED BY duetime_jobs_overflow \
     WHERE state = 1 AND bucket = -1 AND queue = ?1 AND priority >= ?2 ORDER BY priority LIMIT 1";
pub(super) const OVER: &str = jobs!(
    " FROM duetime_jobs j INDEXED BY duetime_jobs_overflow WHERE state = 1 AND bucket = -1 AND queue = ?1 \
     AND priority = ?2 AND due_at BETWEEN ?3 AND ?4 AND lease_until IS NULL ORDER BY due_at, id"
);
pub(super) const OVERFLOWING: &str = "SELECT queue FROM duetime_jobs j INDEXED BY duetime_jobs_overflow \
     WHERE state = 1 AND bucket = -1 AND queue > ?1 ORDER BY queue LIMIT 1";
pub(super) const DUE: &str = "SELECT count(*), min(due_at) FROM duetime_jobs j INDEXED BY duetime_jobs_overflow \
     WHERE state = 1 AND bucket = -1 AND queue = ?1 AND due_at <= ?2";
const MARK_LOADED: &str = "UPDATE duetime_jobs SET bucket = 0 WHERE id = ?1 AND version = ?2 AND state = 1";
const MARK_OVERFLOW: &str = "UPDATE duetime_jobs SET bucket = -1 WHERE id = ?1 AND state = 1";
/// Uses the width of buckets, which is fixed for all ledgers.
const MARK_NOT_LOADED: &str = "UPDATE duetime_jobs SET bucket = max(1, due_at / 600000) WHERE id = ?1 AND state = 1";

/// The most urgent rows of a queue without a lease, up to the payload limit of a page.
pub(super) fn page(connection: &Connection, queue: &str, due: Window, limit: usize) -> Result<Vec<Job>, Fault> {
    let mut level = connection.prepare_cached(LEVEL)?;
    let mut over = connection.prepare_cached(OVER)?;
    let [due_from, due_to] = [due.from, due.to].map(|due_at| i64::try_from(due_at).unwrap_or(i64::MAX));
    let mut reader = Reader::default();
    let (mut jobs, mut bytes, mut from) = (Vec::new(), 0, Some(0));
    for _ in 0..LEVELS_MAX {
        let Some(start) = from else { break };
        let priority: Option<u32> = level.query_row((queue, start), |row| row.get(0)).optional()?;
        let Some(priority) = priority else { break };
        let mut rows = over.query((queue, priority, due_from, due_to))?;
        while jobs.len() < limit
            && bytes < PAGE_BYTES_MAX
            && let Some(row) = rows.next()?
        {
            let job = reader.job(row)?;
            bytes += job.payload.len();
            jobs.push(job);
        }
        if jobs.len() >= limit || bytes >= PAGE_BYTES_MAX {
            break;
        }
        from = priority.checked_add(1);
    }
    Ok(jobs)
}

/// The next queue by name, after this one.
pub(super) fn next(connection: &Connection, after: &str) -> Result<Option<Arc<str>>, Fault> {
    let mut statement = connection.prepare_cached(OVERFLOWING)?;
    Ok(statement.query_row([after], |row| row.get(0)).optional()?)
}

/// The due rows of a queue.
pub(super) fn due(connection: &Connection, queue: &str, now: Millis) -> Result<OverflowDue, Fault> {
    let mut statement = connection.prepare_cached(DUE)?;
    let due = statement.query_row((queue, Number(now)), |row| {
        Ok(OverflowDue { jobs: row.number(0)?, oldest_due: row.optional_number(1)? })
    });
    Ok(due?)
}

/// Marks pending rows that still have these versions as loaded.
pub(super) fn mark_loaded(connection: &Connection, jobs: &[(JobId, u64)]) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(MARK_LOADED)?;
    for (id, version) in jobs {
        statement.execute((Number(id.get()), Number(*version)))?;
    }
    Ok(())
}

/// Marks pending rows as not loaded: by due time if the watermark is 0, otherwise as overflow.
pub(super) fn mark(connection: &Connection, ids: &[JobId], watermark: Millis) -> Result<(), Fault> {
    const { assert!(duetime_core::ports::BUCKET_MS == 600_000) };
    let sql = if watermark == OVERFLOW { MARK_OVERFLOW } else { MARK_NOT_LOADED };
    let mut statement = connection.prepare_cached(sql)?;
    for id in ids {
        statement.execute([Number(id.get())])?;
    }
    Ok(())
}
