//! Rows by queue and state, with all-time totals: computed while a transaction runs, and written at its end.
//!
//! Each queue has several slots that are added up when they are read. With a single row, every transaction on the queue
//! would wait until the one before is on disk.

use super::fault::Fault;
use super::session::Session;
use crate::sums::{self, Sums, Tallies};
use duetime_core::limits::STEP_QUEUES_MAX;
use duetime_core::ports::{Queues, Tally};
use std::sync::Arc;

/// Writes the changes.
pub(super) async fn write(tallies: Tallies, session: &mut Session) -> Result<(), Fault> {
    session.tally(&tallies.changes().collect::<Vec<_>>()).await
}

/// The tallies of these queues, without queues that have no rows.
pub(super) async fn of(session: &mut Session, queues: &Queues) -> Result<Vec<(Arc<str>, Tally)>, Fault> {
    let (mut queues, mut found) = (queues.clone(), Vec::new());
    loop {
        let sums = session.tallies(&queues).await?;
        let next = queues.next(sums.iter().map(|(queue, _)| queue));
        found.extend(
            sums.into_iter().filter(|(_, sums)| has_rows(sums)).map(|(queue, sums)| (queue, sums::tally(sums))),
        );
        // If some queues had no rows, continue with the queues after them.
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

/// Whether the queue with these sums has rows.
pub(super) fn has_rows(sums: &Sums) -> bool {
    sums::rows(sums).iter().any(|&rows| rows != 0)
}
