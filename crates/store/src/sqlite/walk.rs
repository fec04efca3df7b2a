//! Compares the rows of jobs with the indexes in short steps, each a reading of its own, so that a large file is compared while the
//! log is restarted in between.
//!
//! First, each row must have its entries in the indexes. Then each entry of the index that has all rows must have its row. So
//! whatever is written meanwhile, a row or an entry that a damaged page hides is found, unless it hides all that belongs to a row.

use super::fault::{Fault, advice};
use duetime_core::Error;
use rusqlite::{Connection, OptionalExtension as _, params};

/// Rows of a step: they take some 50 ms.
pub(super) const ROWS: usize = 5_000;

/// Where a walk goes on.
pub(super) enum Place {
    /// After the row with this id.
    Rows(i64),
    /// After the queue and state of these entries, or within them.
    Entries { queue: String, state: i64, within: Option<(Option<i64>, i64)> },
}

/// The first place of a walk.
pub(super) const START: Place = Place::Rows(i64::MIN);

const LAST_ROW: &str =
    "SELECT max(id), count(*) FROM (SELECT id FROM duetime_jobs NOT INDEXED WHERE id > ?1 ORDER BY id LIMIT ?2)";

/// The rows of each index, and what is to be equal in its entry.
const INDEXES: [(&str, &str, &str); 7] = [
    ("queue", "1", "i.queue = j.queue AND i.state = j.state AND i.finished_at IS j.finished_at"),
    ("pending", "j.state = 1", "i.state = 1 AND i.bucket = j.bucket"),
    (
        "overflow",
        "j.state = 1 AND j.bucket = -1",
        "i.state = 1 AND i.bucket = -1 AND i.queue = j.queue AND i.priority = j.priority AND i.due_at = j.due_at",
    ),
    ("leased", "j.lease_until IS NOT NULL", "i.lease_until IS NOT NULL AND i.lease_until = j.lease_until"),
    ("finished", "j.state <> 1", "i.state <> 1 AND i.state = j.state AND i.finished_at IS j.finished_at"),
    (
        "key",
        "j.key_entry IS NOT NULL",
        "i.key_entry IS NOT NULL AND i.key_entry = j.key_entry AND i.key_order IS j.key_order",
    ),
    ("origin", "j.origin IS NOT NULL", "i.origin IS NOT NULL AND i.queue = j.queue AND i.origin = j.origin"),
];

const NEXT_STATE: &str = "SELECT queue, state FROM duetime_jobs INDEXED BY duetime_jobs_queue \
     WHERE queue = ?1 AND state > ?2 ORDER BY state LIMIT 1";
const NEXT_QUEUE: &str = "SELECT queue, state FROM duetime_jobs INDEXED BY duetime_jobs_queue \
     WHERE queue > ?1 AND ?2 IS NOT NULL ORDER BY queue, state LIMIT 1";

/// Entries of a group with the same end and with later ones, and whether each has its row. Those without an end come first.
const ENTRIES: [&str; 2] = [
    "SELECT finished_at, id, EXISTS (SELECT 1 FROM duetime_jobs j NOT INDEXED WHERE j.id = i.id) \
     FROM duetime_jobs i INDEXED BY duetime_jobs_queue \
     WHERE queue = ?1 AND state = ?2 AND finished_at IS ?3 AND id > ?4 ORDER BY id LIMIT ?5",
    "SELECT finished_at, id, EXISTS (SELECT 1 FROM duetime_jobs j NOT INDEXED WHERE j.id = i.id) \
     FROM duetime_jobs i INDEXED BY duetime_jobs_queue \
     WHERE queue = ?1 AND state = ?2 AND finished_at > coalesce(?3, -1) AND ?4 IS NOT NULL ORDER BY finished_at, id LIMIT ?5",
];

/// Compares about so many rows or entries after this place, and returns where to go on; `None` at the end.
pub(super) fn step(connection: &Connection, place: Place, rows: usize) -> Result<Option<Place>, Fault> {
    let _snapshot = connection.unchecked_transaction()?;
    match place {
        Place::Rows(after) => compare_rows(connection, after, rows).map(Some),
        Place::Entries { queue, state, within: None } => {
            for next in [NEXT_STATE, NEXT_QUEUE] {
                let next = connection.prepare_cached(next)?.query_row(params![queue, state], |row| {
                    Ok(Place::Entries { queue: row.get(0)?, state: row.get(1)?, within: Some((None, i64::MIN)) })
                });
                if let Some(next) = next.optional()? {
                    return Ok(Some(next));
                }
            }
            Ok(None)
        }
        Place::Entries { queue, state, within: Some(after) } => {
            let within = compare_entries(connection, (&queue, state), after, rows)?;
            Ok(Some(Place::Entries { queue, state, within }))
        }
    }
}

fn compare_rows(connection: &Connection, after: i64, rows: usize) -> Result<Place, Fault> {
    let range = connection.prepare_cached(LAST_ROW)?.query_row(params![after, rows as i64], |row| row.get(0))?;
    let Some(last) = range else {
        return Ok(Place::Entries { queue: String::new(), state: i64::MIN, within: None });
    };
    let last: i64 = last;
    for (index, of_rows, is_equal) in INDEXES {
        let sql = format!(
            "SELECT count(*) FROM duetime_jobs j NOT INDEXED WHERE j.id > ?1 AND j.id <= ?2 AND {of_rows} AND NOT EXISTS \
             (SELECT 1 FROM duetime_jobs i INDEXED BY duetime_jobs_{index} WHERE {is_equal} AND i.id = j.id)"
        );
        let missing: i64 = connection.prepare_cached(&sql)?.query_row([after, last], |row| row.get(0))?;
        if missing > 0 {
            return Err(damaged(&format!("{missing} jobs up to {last} are not in the index by {index}")));
        }
    }
    Ok(Place::Rows(last))
}

fn compare_entries(
    connection: &Connection,
    (queue, state): (&str, i64),
    (at, id): (Option<i64>, i64),
    rows: usize,
) -> Result<Option<(Option<i64>, i64)>, Fault> {
    for sql in ENTRIES {
        let mut entries = connection.prepare_cached(sql)?;
        let mut entries = entries.query(params![queue, state, at, id, rows as i64])?;
        let mut last = None;
        while let Some(entry) = entries.next()? {
            let (at, id): (Option<i64>, i64) = (entry.get(0)?, entry.get(1)?);
            if !entry.get::<_, bool>(2)? {
                return Err(damaged(&format!("the job {id} is in the index by queue, and cannot be read")));
            }
            last = Some((at, id));
        }
        if last.is_some() {
            return Ok(last);
        }
    }
    Ok(None)
}

fn damaged(what: &str) -> Fault {
    Error::Damaged(format!("{what}; {}", advice("the file"))).into()
}
