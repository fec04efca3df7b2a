//! Compares the jobs that are there with those that are counted. A damaged page may hide rows from SQLite without an error: its
//! list of cells is short, or a tree lacks a branch. The totals are in another table, and change in the transactions that change
//! the jobs.
//!
//! Each tree from which jobs are read is counted. Contents are not checked: SQLite notices only malformed ones.

use super::fault::{Fault, advice};
use super::number::Numbers;
use duetime_core::Error;
use rusqlite::Connection;

type Step = fn(&Connection) -> Result<u64, Fault>;

/// Pending, succeeded, failed and cancelled jobs.
type Counts = [u64; 4];

const COUNTED: &str = "SELECT coalesce(sum(pending), 0), coalesce(sum(succeeded), 0), coalesce(sum(failed), 0), \
     coalesce(sum(cancelled), 0) FROM duetime_tallies";

/// The state of each row, and how many rows the indexes of the next queries must have.
const ROWS: &str = "SELECT count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 10), \
     count(*) FILTER (WHERE state = 20), count(*) FILTER (WHERE state = 30), \
     count(key_entry), count(origin), count(lease_until), count(*) FILTER (WHERE state <> 1), \
     count(*) FILTER (WHERE state = 1 AND bucket = -1) FROM duetime_jobs NOT INDEXED";

const INDEXED: [(&str, &str); 5] = [
    ("keys", "SELECT count(*) FROM duetime_jobs INDEXED BY duetime_jobs_key WHERE key_entry IS NOT NULL"),
    ("origins", "SELECT count(*) FROM duetime_jobs INDEXED BY duetime_jobs_origin WHERE origin IS NOT NULL"),
    ("leases", "SELECT count(*) FROM duetime_jobs INDEXED BY duetime_jobs_leased WHERE lease_until IS NOT NULL"),
    ("ends", "SELECT count(*) FROM duetime_jobs INDEXED BY duetime_jobs_finished WHERE state <> 1"),
    ("overflows", "SELECT count(*) FROM duetime_jobs INDEXED BY duetime_jobs_overflow WHERE state = 1 AND bucket = -1"),
];

const BY_QUEUE: &str = "SELECT count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 10), \
     count(*) FILTER (WHERE state = 20), count(*) FILTER (WHERE state = 30) \
     FROM duetime_jobs INDEXED BY duetime_jobs_queue WHERE queue >= ''";

const BY_DUE: &str =
    "SELECT count(*) FROM duetime_jobs INDEXED BY duetime_jobs_pending WHERE state = 1 AND bucket >= -1";

/// Compares the jobs that are there with those that are counted, and returns how many there are. Each step is one reading of a
/// tree, so that a reading of a large file can be given up and the others be made.
pub(super) const STEPS: [Step; 3] = [by_due, by_queue, rows];

/// All steps.
pub(super) fn verify(connection: &Connection) -> Result<u64, Fault> {
    STEPS.iter().try_fold(0, |_, step| step(connection))
}

/// The index by which jobs are loaded.
fn by_due(connection: &Connection) -> Result<u64, Fault> {
    let _snapshot = connection.unchecked_transaction()?;
    let [pending, ..] = counted(connection)?;
    let found = number(connection, BY_DUE)?;
    compare("waiting or running jobs are found by due time", found, pending)?;
    Ok(found)
}

/// The index by which the jobs of a queue are listed.
fn by_queue(connection: &Connection) -> Result<u64, Fault> {
    let _snapshot = connection.unchecked_transaction()?;
    let counted = counted(connection)?;
    let found: Counts = connection
        .query_row(BY_QUEUE, [], |row| Ok([row.number(0)?, row.number(1)?, row.number(2)?, row.number(3)?]))?;
    compare_each("are found by queue", found, counted)
}

/// The rows, and the other indexes.
fn rows(connection: &Connection) -> Result<u64, Fault> {
    let _snapshot = connection.unchecked_transaction()?;
    let counted = counted(connection)?;
    let (found, indexed) = connection.query_row(ROWS, [], |row| {
        let found: Counts = [row.number(0)?, row.number(1)?, row.number(2)?, row.number(3)?];
        let mut indexed = [0; INDEXED.len()];
        for (place, count) in (found.len()..).zip(&mut indexed) {
            *count = row.number(place)?;
        }
        Ok((found, indexed))
    })?;
    let count = compare_each("can be read", found, counted)?;
    for ((what, sql), expected) in INDEXED.iter().zip(indexed) {
        compare(&format!("entries are in the index of {what}"), number(connection, sql)?, expected)?;
    }
    Ok(count)
}

fn counted(connection: &Connection) -> Result<Counts, Fault> {
    Ok(connection.query_row(COUNTED, [], |row| Ok([row.number(0)?, row.number(1)?, row.number(2)?, row.number(3)?]))?)
}

fn number(connection: &Connection, sql: &str) -> Result<u64, Fault> {
    Ok(connection.query_row(sql, [], |row| row.number(0))?)
}

fn compare_each(how: &str, found: Counts, counted: Counts) -> Result<u64, Fault> {
    for (place, state) in ["waiting or running", "succeeded", "failed", "cancelled"].into_iter().enumerate() {
        compare(&format!("{state} jobs {how}"), found[place], counted[place])?;
    }
    Ok(found.iter().sum())
}

fn compare(what: &str, found: u64, counted: u64) -> Result<(), Fault> {
    if found == counted {
        return Ok(());
    }
    Err(Error::Damaged(format!("{found} {what}, but {counted} are counted; {}", advice("the file"))).into())
}
