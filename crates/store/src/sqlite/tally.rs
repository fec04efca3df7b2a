//! Rows by queue and state, with all-time totals: changed in memory while a transaction runs, and written at its end.

use super::fault::Fault;
use super::number::Number;
use crate::sums::{self, Tallies};
use duetime_core::limits::STEP_QUEUES_MAX;
use duetime_core::ports::{Queues, Tally};
use rusqlite::{Connection, Params};
use std::sync::Arc;

/// Writes the changes.
pub(super) fn write(tallies: Tallies, connection: &Connection) -> Result<(), Fault> {
    for (queue, sums) in tallies.changes() {
        let [pending, succeeded, failed, cancelled, totals @ ..] = sums;
        connection
            .prepare_cached(
                "INSERT INTO duetime_tallies (queue, pending, succeeded, failed, cancelled, total_pushed, \
                 total_succeeded, total_failed, total_cancelled) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
                 ON CONFLICT DO UPDATE SET pending = pending + ?2, succeeded = succeeded + ?3, \
                 failed = failed + ?4, cancelled = cancelled + ?5, total_pushed = total_pushed + ?6, \
                 total_succeeded = total_succeeded + ?7, total_failed = total_failed + ?8, \
                 total_cancelled = total_cancelled + ?9",
            )?
            .execute((&*queue, pending, succeeded, failed, cancelled, totals[0], totals[1], totals[2], totals[3]))?;
        if sums::has_removed(&sums) {
            // So that rows of queues used once do not accumulate.
            connection
                .prepare_cached(
                    "DELETE FROM duetime_tallies WHERE queue = ?1 \
                     AND pending = 0 AND succeeded = 0 AND failed = 0 AND cancelled = 0",
                )?
                .execute([&*queue])?;
        }
    }
    Ok(())
}

/// The columns of a tally, after its queue.
macro_rules! sums {
    () => {
        "pending, succeeded, failed, cancelled, total_pushed, total_succeeded, total_failed, total_cancelled"
    };
}

pub(super) const ALL: &str = concat!("SELECT queue, ", sums!(), " FROM duetime_tallies ORDER BY queue");
pub(super) const FROM: &str =
    concat!("SELECT queue, ", sums!(), " FROM duetime_tallies WHERE queue >= ?1 ORDER BY queue LIMIT ?2");
pub(super) const ONE: &str = concat!("SELECT queue, ", sums!(), " FROM duetime_tallies WHERE queue = ?1");

/// All tallies, by queue.
pub(super) fn all(connection: &Connection) -> Result<Vec<(Arc<str>, Tally)>, Fault> {
    read(connection, ALL, ())
}

/// The tallies of these queues, by queue.
pub(super) fn of(connection: &Connection, queues: &Queues) -> Result<Vec<(Arc<str>, Tally)>, Fault> {
    match queues {
        Queues::From(from, limit) => read(connection, FROM, (&**from, Number((*limit).min(STEP_QUEUES_MAX) as u64))),
        Queues::Named(queues) => {
            let mut found = Vec::new();
            for queue in queues {
                found.extend(read(connection, ONE, [queue])?);
            }
            found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
            Ok(found)
        }
    }
}

fn read(connection: &Connection, sql: &str, parameters: impl Params) -> Result<Vec<(Arc<str>, Tally)>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(parameters, |row| {
        let mut sums = sums::NONE;
        for (place, sum) in (1..).zip(&mut sums) {
            *sum = row.get(place)?;
        }
        Ok((row.get(0)?, sums::tally(sums)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
