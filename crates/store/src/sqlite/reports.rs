//! Readings of many rows, step by step. A step is a short transaction: a long one would keep the write-ahead log from being
//! copied.

use super::fault::Fault;
use super::row;
use duetime_core::Stage;
use duetime_core::ports::DueTally;
use rusqlite::Connection;

/// Rows that a step looks at: about 3 ms.
const STEP_ROWS: usize = 10_000;

/// In the order of the file. By an index each row would be looked for, which takes ten times as long.
pub(super) const DUE: &str =
    "SELECT id, queue, due_at, state FROM duetime_jobs j NOT INDEXED WHERE id > ?1 ORDER BY id LIMIT ?2";

/// Counts the next rows that have not ended; answers where to go on.
pub(super) fn due(connection: &Connection, tally: &mut DueTally, after: u64) -> Result<Option<u64>, Fault> {
    let pending = i64::from(Stage::Pending.code());
    let mut statement = connection.prepare_cached(DUE)?;
    let mut rows = statement.query((after, STEP_ROWS))?;
    let (mut last, mut seen) = (None, 0);
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(3)? == pending
            && let Some(queue) = row::text(row, 1)?
        {
            tally.add(queue, row.get(2)?, 1);
        }
        seen += 1;
        if seen == STEP_ROWS {
            last = Some(row.get(0)?);
        }
    }
    Ok(last)
}
