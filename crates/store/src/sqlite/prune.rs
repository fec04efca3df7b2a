//! Finished rows past their retention, found by when they ended.

use super::apply::{remove, stored};
use super::fault::Fault;
use super::number::{Number, Numbers};
use super::row;
use super::task::Transaction;
use duetime_core::ports::Retention;
use duetime_core::{Millis, Stage};
use rusqlite::Connection;

/// If at least this many pages are free, and more than a quarter of the file, some are returned to the system.
const FREE_PAGES_KEPT: u64 = 4_096;
/// Pages returned in one transaction.
const PAGES_PER_STEP: u32 = 256;

pub(super) const FINISHED: &str = "SELECT id, queue, state, tags, version, epoch FROM duetime_jobs \
     WHERE state = ?1 AND state <> 1 AND finished_at IS NOT NULL AND finished_at <= ?2 ORDER BY finished_at LIMIT ?3";

/// Removes at most `limit` of them, and returns how many.
pub(super) fn prune(
    transaction: &mut Transaction<'_>,
    retention: Retention,
    now: Millis,
    limit: usize,
) -> Result<usize, Fault> {
    let connection = transaction.connection;
    let mut removed = 0;
    for (stage, kept_ms) in [
        (Stage::Succeeded, retention.succeeded.0),
        (Stage::Cancelled, retention.succeeded.0),
        (Stage::Failed, retention.failed.0),
    ] {
        let Some(ended_by) = now.checked_sub(kept_ms) else { continue };
        removed += remove_ended(transaction, stage, ended_by, limit - removed)?;
    }
    if removed > 0 {
        give_back(connection)?;
    }
    Ok(removed)
}

/// Removes at most `limit` of the oldest finished rows, whatever their retention, and returns how many. Failed ones come last:
/// somebody may want to retry them.
pub(super) fn oldest(transaction: &mut Transaction<'_>, limit: usize) -> Result<usize, Fault> {
    let mut removed = 0;
    for stage in [Stage::Succeeded, Stage::Cancelled, Stage::Failed] {
        removed += remove_ended(transaction, stage, i64::MAX.unsigned_abs(), limit - removed)?;
    }
    Ok(removed)
}

/// Removes at most `limit` rows that ended by then in this state, the oldest first, and returns how many.
fn remove_ended(transaction: &mut Transaction<'_>, stage: Stage, by: Millis, limit: usize) -> Result<usize, Fault> {
    let mut past = Vec::new();
    {
        let mut statement = transaction.connection.prepare_cached(FINISHED)?;
        let mut rows = statement.query((stage.code(), Number(by), Number(limit as u64)))?;
        while let Some(row) = rows.next()? {
            past.push((row::id(row)?, stored(row)?));
        }
    }
    for (id, stored) in &past {
        remove(transaction, *id, stored, stage)?;
    }
    Ok(past.len())
}

fn give_back(connection: &Connection) -> Result<(), Fault> {
    let number = |sql: &str| connection.prepare_cached(sql)?.query_row([], |row| row.number(0));
    let free = number("PRAGMA freelist_count")?;
    if free > FREE_PAGES_KEPT && free > number("PRAGMA page_count")? / 4 {
        let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES_PER_STEP})"))?;
        let mut rows = statement.query([])?;
        // Each step returns one page.
        while rows.next()?.is_some() {}
    }
    Ok(())
}
