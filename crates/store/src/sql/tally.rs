//! Rows by queue and state, and how many there ever were: worked out while a transaction runs, and written at its end.
//!
//! A queue has several counts that are added up when they are read: one row for all would have every transaction on the
//! queue wait for the one before to be on disk.

use super::fault::Fault;
use super::session::Session;
use crate::sums::{self, Sums, Tallies};
use duetime_core::limits::STEP_QUEUES_MAX;
use duetime_core::ports::{Queues, Tally};
use std::sync::Arc;

/// Writes how they change.
pub(super) async fn write(tallies: Tallies, session: &mut Session) -> Result<(), Fault> {
    session.tally(&tallies.changes().collect::<Vec<_>>()).await
}

/// Those of these queues that have rows, by queue.
pub(super) async fn of(session: &mut Session, queues: &Queues) -> Result<Vec<(Arc<str>, Tally)>, Fault> {
    let (mut queues, mut found) = (queues.clone(), Vec::new());
    loop {
        let sums = session.tallies(&queues).await?;
        let next = queues.next(sums.iter().map(|(queue, _)| queue));
        found.extend(
            sums.into_iter().filter(|(_, sums)| has_rows(sums)).map(|(queue, sums)| (queue, sums::tally(sums))),
        );
        // Where some had none, there are others behind them.
        match next {
            Some(Queues::From(from, limit)) if found.len() < limit.min(STEP_QUEUES_MAX) => {
                queues = Queues::From(from, limit);
            }
            Some(Queues::From(_, limit)) => {
                found.truncate(limit);
                return Ok(found);
            }
            _ => {
                found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
                return Ok(found);
            }
        }
    }
}

/// Whether the queue of these sums has rows.
pub(super) fn has_rows(sums: &Sums) -> bool {
    sums::rows(sums).iter().any(|&rows| rows != 0)
}
