//! Entries that the ledger does not have yet: the latest one of each job.

use super::by_id::ById;
use crate::clock::Millis;
use crate::model::id::JobId;
use crate::ports::OutboxEntry;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    entries: ById<Box<Item>>,
    /// By age: when it was written, and of which job. Not a queue: with gaps, that would grow for as long as one entry
    /// stays.
    order: BTreeMap<u64, (Millis, JobId)>,
    last: u64,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct Item {
    number: u64,
    entry: OutboxEntry,
}

impl Outbox {
    /// Adds an entry instead of an earlier one of the job, and returns it in the form to record: an entry without the job's
    /// full content is merged into an earlier one that has it.
    pub(super) fn add(&mut self, entry: OutboxEntry, mono: Millis) -> OutboxEntry {
        let id = entry.job().id;
        self.last += 1;
        self.order.insert(self.last, (mono, id));
        self.bytes += entry.held_bytes();
        let Some(numbered) = self.entries.get_mut(id) else {
            self.entries.insert(id, Box::new(Item { number: self.last, entry: entry.clone() }));
            return entry;
        };
        debug_assert!(numbered.entry.job().version <= entry.job().version, "an entry is replaced by a later one");
        self.order.remove(&numbered.number);
        self.bytes -= numbered.entry.held_bytes();
        let (change, successors) = entry.parts();
        let change = match (&numbered.entry, change) {
            (OutboxEntry::Rewritten(_), OutboxEntry::Changed(job)) => OutboxEntry::Rewritten(job),
            (_, change) => change,
        };
        let entry = change.followed_by(successors);
        **numbered = Item { number: self.last, entry: entry.clone() };
        entry
    }

    pub(super) fn get(&self, id: JobId) -> Option<&OutboxEntry> {
        self.entries.get(id).map(|numbered| &numbered.entry)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The memory of what is large in the entries.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest entries written until `until`, without the first `skip`.
    pub(super) fn oldest(&self, skip: usize, limit: usize, until: Millis) -> Vec<OutboxEntry> {
        let old = self.order.values().take_while(|&&(at, _)| at <= until).skip(skip).take(limit);
        old.filter_map(|&(_, id)| self.get(id).cloned()).collect()
    }

    /// Drops the entry of a job up to a version, and returns it.
    pub(super) fn forget(&mut self, id: JobId, version: u64) -> Option<OutboxEntry> {
        self.get(id).filter(|entry| entry.job().version <= version)?;
        let Item { number, entry } = *self.entries.remove(id)?;
        self.order.remove(&number);
        self.bytes -= entry.held_bytes();
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::{id, job};

    /// An entry that the ledger never accepts must not keep the order of later ones growing.
    #[test]
    fn one_entry_that_stays_does_not_make_the_order_grow() {
        let mut outbox = Outbox::default();
        outbox.add(OutboxEntry::Changed(job(1)), 0);
        for n in 2..100 {
            outbox.add(OutboxEntry::Changed(job(n)), n);
            outbox.add(OutboxEntry::Changed(job(n)), n);
            assert!(outbox.forget(id(n), u64::MAX).is_some());
        }
        assert_eq!((outbox.len(), outbox.order.len()), (1, 1));
        assert_eq!(outbox.bytes(), job(1).held_bytes() as u64);
        assert_eq!(outbox.oldest(0, 10, 1_000).len(), 1);
    }
}
