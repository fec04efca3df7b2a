//! Rows of each queue by state, with all-time totals, and how a transaction changes both.

use duetime_core::ports::{Tally, Totals};
use duetime_core::{Stage, State};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows that are pending, succeeded, failed and cancelled; then the all-time totals of jobs that were pushed, succeeded,
/// failed and were cancelled. Totals only grow.
pub(crate) type Sums = [i64; 8];

/// No change.
pub(crate) const NONE: Sums = [0; 8];
/// The index of the first total.
const TOTALS: usize = 4;

/// How the tallies change in one transaction, ordered by queue.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    queues: BTreeMap<Arc<str>, Sums>,
    /// The queue of the last row, since neighbouring rows mostly share it.
    last: Option<(Arc<str>, Sums)>,
}

impl Tallies {
    fn of(&mut self, queue: &Arc<str>) -> &mut Sums {
        if self.last.as_ref().is_none_or(|(last, _)| last != queue) {
            self.settle();
        }
        &mut self.last.get_or_insert_with(|| (queue.clone(), NONE)).1
    }

    fn settle(&mut self) {
        if let Some((queue, changes)) = self.last.take() {
            let sums = self.queues.entry(queue).or_default();
            sums.iter_mut().zip(changes).for_each(|(sum, change)| *sum += change);
        }
    }

    /// Counts new rows.
    pub(crate) fn inserted(&mut self, queue: &Arc<str>, stage: Stage, rows: i64) {
        let sums = self.of(queue);
        sums[place(stage)] += rows;
        sums[TOTALS] += rows;
        end(sums, stage, rows);
    }

    /// Counts the move of a row from one stage to another.
    pub(crate) fn moved(&mut self, queue: &Arc<str>, from: Stage, to: Stage) {
        if from != to {
            let sums = self.of(queue);
            sums[place(from)] -= 1;
            sums[place(to)] += 1;
            end(sums, to, 1);
        }
    }

    /// Counts the removal of a row, whose job had reached this stage.
    pub(crate) fn removed(&mut self, queue: &Arc<str>, stored: Stage, last: Stage) {
        let sums = self.of(queue);
        sums[place(stored)] -= 1;
        if stored != last {
            end(sums, last, 1);
        }
    }

    /// The changes.
    pub(crate) fn changes(mut self) -> impl Iterator<Item = (Arc<str>, Sums)> {
        self.settle();
        self.queues.into_iter().filter(|(_, sums)| *sums != NONE)
    }
}

/// Whether this change may leave the queue without rows.
pub(crate) fn has_removed(sums: &Sums) -> bool {
    rows(sums).iter().sum::<i64>() < sums[TOTALS]
}

/// The rows by state.
pub(crate) fn rows(sums: &Sums) -> &[i64] {
    &sums[..TOTALS]
}

/// Converts the sums of a queue to its tally.
pub(crate) fn tally(sums: Sums) -> Tally {
    let [pending, succeeded, failed, cancelled, totals @ ..] = sums.map(|sum| u64::try_from(sum).unwrap_or(0));
    let totals = Totals { pushed: totals[0], succeeded: totals[1], failed: totals[2], cancelled: totals[3] };
    Tally::new([pending, succeeded, failed, cancelled], totals)
}

/// The stages of these states; all stages if no state is named.
pub(crate) fn stages(states: &[State]) -> Vec<Stage> {
    const ALL: [(Stage, State); 4] = [
        (Stage::Pending, State::Ready),
        (Stage::Succeeded, State::Succeeded),
        (Stage::Failed, State::Failed),
        (Stage::Cancelled, State::Cancelled),
    ];
    let named = |state: State| states.iter().any(|&s| s == state || (s.is_live() && state.is_live()));
    ALL.into_iter().filter(|&(_, state)| states.is_empty() || named(state)).map(|(stage, _)| stage).collect()
}

fn end(sums: &mut Sums, stage: Stage, rows: i64) {
    if stage != Stage::Pending {
        sums[TOTALS + place(stage)] += rows;
    }
}

fn place(stage: Stage) -> usize {
    match stage {
        Stage::Pending => 0,
        Stage::Succeeded => 1,
        Stage::Failed => 2,
        Stage::Cancelled => 3,
    }
}
