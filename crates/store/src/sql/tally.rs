//! Rows by queue and state, and how many there ever were: worked out while a transaction runs, and written at its end.
//!
//! A queue has several counts that are added up when they are read: one row for all would have every transaction on the
//! queue wait for the one before to be on disk.

use super::fault::Fault;
use super::session::Session;
use crate::sums::{self, Sums};
use duetime_core::Stage;
use duetime_core::limits::STEP_QUEUES_MAX;
use duetime_core::ports::{Queues, Tally};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How they change in one transaction.
#[derive(Debug, Default)]
pub(super) struct Tallies(BTreeMap<Arc<str>, Sums>);

impl Tallies {
    fn of(&mut self, queue: &Arc<str>) -> &mut Sums {
        if !self.0.contains_key(queue) {
            self.0.insert(queue.clone(), sums::NONE);
        }
        self.0.get_mut(queue).expect("it was inserted above")
    }

    /// A new row of a queue in this stage.
    pub(super) fn inserted(&mut self, queue: &Arc<str>, stage: Stage) {
        sums::insert(self.of(queue), stage, 1);
    }

    /// A row went from one stage to another.
    pub(super) fn moved(&mut self, queue: &Arc<str>, from: Stage, to: Stage) {
        sums::change(self.of(queue), from, to);
    }

    /// A row in this stage is gone, and its job came to that one before.
    pub(super) fn removed(&mut self, queue: &Arc<str>, stored: Stage, last: Stage) {
        sums::remove(self.of(queue), stored, last);
    }

    /// Writes them.
    pub(super) async fn write(self, session: &mut Session) -> Result<(), Fault> {
        let changes: Vec<_> = self.0.into_iter().filter(|(_, sums)| *sums != sums::NONE).collect();
        session.tally(&changes).await
    }
}

/// Those of these queues that have rows, by queue.
pub(super) async fn of(session: &mut Session, queues: &Queues) -> Result<Vec<(Arc<str>, Tally)>, Fault> {
    let (mut queues, mut found) = (queues.clone(), Vec::new());
    loop {
        let sums = session.tallies(&queues).await?;
        let next = queues.next(sums.iter().map(|(queue, _)| queue));
        found.extend(sums.into_iter().filter(|(_, sums)| has_rows(sums)).map(told));
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

fn told((queue, sums): (Arc<str>, Sums)) -> (Arc<str>, Tally) {
    (queue, sums::tally(sums))
}

/// Whether the queue of these sums has rows.
pub(super) fn has_rows(sums: &Sums) -> bool {
    sums::rows(sums).iter().any(|&rows| rows != 0)
}
