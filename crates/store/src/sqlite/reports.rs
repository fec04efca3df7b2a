//! Reports over many rows, step by step. A step is a short transaction: a long one would block copying of the write-ahead
//! log.

use super::fault::Fault;
use super::number::{Number, Numbers};
use super::row;
use duetime_core::Stage;
use duetime_core::ports::{DueTally, FAILED_MESSAGE_READ, FailedJob};
use rusqlite::Connection;

/// Rows that a step examines: about 3 ms.
const STEP_ROWS: usize = 10_000;

/// In the order of the file. An index would need a lookup for each row, which takes ten times as long.
pub(super) const DUE: &str =
    "SELECT id, queue, due_at, state FROM duetime_jobs j NOT INDEXED WHERE id > ?1 ORDER BY id LIMIT ?2";

/// Counts the next unfinished rows and returns where to continue.
pub(super) fn due(connection: &Connection, tally: &mut DueTally, after: u64) -> Result<Option<u64>, Fault> {
    let pending = i64::from(Stage::Pending.code());
    let mut statement = connection.prepare_cached(DUE)?;
    let mut rows = statement.query((Number(after), Number(STEP_ROWS as u64)))?;
    let (mut last, mut seen) = (None, 0);
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(3)? == pending
            && let Some(queue) = row::text(row, 1)?
        {
            tally.add(queue, row.number(2)?, 1);
        }
        seen += 1;
        if seen == STEP_ROWS {
            last = Some(row.number(0)?);
        }
    }
    Ok(last)
}

pub(super) const FAILED: &str = "SELECT id, queue, kind, finished_at, substr(message, 1, ?1) FROM duetime_jobs j \
     INDEXED BY duetime_jobs_finished WHERE state = 20 AND state <> 1 AND finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT ?2";

/// The latest failed jobs, newest first.
pub(super) fn failed(connection: &Connection, limit: usize) -> Result<Vec<FailedJob>, Fault> {
    const { assert!(Stage::Failed as u8 == 20) };
    let mut statement = connection.prepare_cached(FAILED)?;
    let mut rows = statement.query((Number(FAILED_MESSAGE_READ as u64), Number(limit as u64)))?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        jobs.push(FailedJob {
            id: row::id(row)?,
            queue: row::text(row, 1)?.unwrap_or_default().into(),
            kind: row::text(row, 2)?.unwrap_or_default().into(),
            finished_at: row.number(3)?,
            message: row::text(row, 4)?.unwrap_or_default().to_owned(),
        });
    }
    Ok(jobs)
}
