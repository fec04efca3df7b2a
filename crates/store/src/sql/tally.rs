//! Rows by queue and state: worked out while a transaction runs, and written at its end.
//!
//! A queue has several counts that are added up when they are read: one row for all would have every transaction on the
//! queue wait for the one before to be on disk.

use super::fault::Fault;
use super::session::Session;
use duetime_core::Stage;
use duetime_core::ports::Tally;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How they change in one transaction.
#[derive(Debug, Default)]
pub(super) struct Tallies(BTreeMap<Arc<str>, [i64; 4]>);

impl Tallies {
    /// So many rows more (or fewer) of a queue in this stage.
    pub(super) fn add(&mut self, queue: &Arc<str>, stage: Stage, rows: i64) {
        let place = match stage {
            Stage::Pending => 0,
            Stage::Succeeded => 1,
            Stage::Failed => 2,
            Stage::Cancelled => 3,
        };
        match self.0.get_mut(queue) {
            Some(tally) => tally[place] += rows,
            None => {
                let mut tally = [0; 4];
                tally[place] = rows;
                self.0.insert(queue.clone(), tally);
            }
        }
    }

    /// A row went from one stage to another.
    pub(super) fn moved(&mut self, queue: &Arc<str>, from: Stage, to: Stage) {
        self.add(queue, from, -1);
        self.add(queue, to, 1);
    }

    /// Writes them.
    pub(super) async fn write<S: Session>(self, session: &mut S) -> Result<(), Fault> {
        let changes: Vec<_> = self.0.into_iter().filter(|(_, tally)| *tally != [0; 4]).collect();
        if changes.is_empty() { Ok(()) } else { session.tally(&changes).await }
    }
}

/// Those of queues that have rows, by queue.
pub(super) async fn all<S: Session>(session: &mut S) -> Result<Vec<(Arc<str>, Tally)>, Fault> {
    let mut tallies: Vec<_> = session
        .tallies()
        .await?
        .into_iter()
        .filter(|(_, sums)| *sums != [0; 4])
        .map(|(queue, sums)| {
            let [pending, succeeded, failed, cancelled] = sums.map(|sum| u64::try_from(sum).unwrap_or(0));
            (queue, Tally { pending, succeeded, failed, cancelled })
        })
        .collect();
    tallies.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(tallies)
}
