//! Ends of leases that count and could not be recorded. Their callers got an error and ask again, but the leases are over:
//! without this, a failure or a release that is repeated would look like that of an expired lease. The end of a job is found
//! without it, in the broker and in the ledger.

use crate::model::id::Receipt;
use crate::model::job::State;
use crate::request::{Ending, Outcome};
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

/// Jobs that run when nothing more is handed out, at most, whose ends are remembered beyond the backlog.
const RUNNING: usize = 10_000;

#[derive(Debug)]
pub(super) struct PendingEnds {
    ends: Mutex<Ends>,
    /// How many are remembered. A repeat of an older one is answered that the lease is lost.
    max: usize,
}

#[derive(Debug, Default)]
struct Ends {
    ends: HashMap<EndKey, PendingEnd>,
    order: VecDeque<EndKey>,
}

/// The state and the version that an ending gave a job.
pub(super) type PendingEnd = (State, u64);

/// A lease, and the ending that was asked for.
pub(super) type EndKey = (Receipt, &'static str);

/// What a caller asks for with this ending.
pub(super) fn key(receipt: Receipt, ending: &Ending) -> EndKey {
    let word = match ending {
        Ending::Outcome(Outcome::Complete { .. }) => "complete",
        Ending::Outcome(Outcome::Fail(_)) => "fail",
        Ending::Outcome(Outcome::Release(_)) => "release",
        Ending::Unclaimed => "unclaimed",
        Ending::Abandoned => "abandoned",
        Ending::Return(..) => "return",
        Ending::Park(..) | Ending::Outcome(Outcome::Park(_)) => "park",
    };
    (receipt, word)
}

impl PendingEnds {
    /// Nothing is handed out while so many changes are not recorded.
    pub(super) fn new(backlog_max: usize) -> Self {
        Self { ends: Mutex::default(), max: backlog_max.saturating_add(RUNNING) }
    }

    pub(super) fn remember(&self, key: EndKey, end: PendingEnd) {
        let mut ends = self.ends.lock().expect("no panic under this lock");
        if ends.ends.insert(key, end).is_none() {
            ends.order.push_back(key);
        }
        if ends.order.len() > self.max
            && let Some(oldest) = ends.order.pop_front()
        {
            ends.ends.remove(&oldest);
        }
    }

    pub(super) fn of(&self, key: EndKey) -> Option<PendingEnd> {
        self.ends.lock().expect("no panic under this lock").ends.get(&key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::id;

    #[test]
    fn the_oldest_is_forgotten_at_the_bound() {
        let pending = PendingEnds::new(2);
        let of = |epoch| (Receipt { id: id(1), epoch }, "fail");
        (0..=2 + RUNNING as u64).for_each(|epoch| pending.remember(of(epoch), (State::Ready, epoch)));
        assert_eq!((pending.of(of(0)), pending.of(of(1))), (None, Some((State::Ready, 1))));
        assert_eq!(pending.of((Receipt { id: id(1), epoch: 1 }, "release")), None);
    }
}
