//! Tombstones of jobs that have ended, were dropped, or are edited in the ledger, so that no earlier reading of them is put.
//!
//! While an entry waits in the outbox, it serves as the tombstone. The tombstone begins when the entry is forgotten, since
//! until then the ledger may be read as it was before.

use super::by_id::ById;
use crate::clock::Millis;
use crate::model::id::JobId;
use crate::model::job::Stage;
use crate::ports::Broker;
use std::collections::VecDeque;

/// Lapsed tombstones that one call drops: a few, so that no call pays for a burst, but more than one call adds.
pub(super) const DROPPED_MAX: usize = 3;

/// The tombstone of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tombstone {
    /// No version below this one is put.
    pub(super) version: u64,
    /// Its last lease and how that ended, if it ended here.
    pub(super) end: Option<(u64, Stage)>,
    until: Millis,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Tombstones {
    tombstones: ById<Tombstone>,
    /// The times at which tombstones may lapse.
    order: VecDeque<(Millis, JobId)>,
    /// The same for those of barred jobs.
    order_barred: VecDeque<(Millis, JobId)>,
}

impl Tombstones {
    pub(super) fn get(&self, id: JobId, mono: Millis) -> Option<&Tombstone> {
        self.tombstones.get(id).filter(|tombstone| tombstone.until > mono)
    }

    /// The ledger has recorded that the job has ended, or waits beyond the watermark.
    pub(super) fn add(&mut self, id: JobId, version: u64, end: Option<(u64, Stage)>, mono: Millis) {
        self.drop_lapsed(DROPPED_MAX, mono);
        let until = mono + <dyn Broker>::TOMBSTONE_MS;
        if self.lengthen(id, version, end, until, mono) {
            self.order.push_back((until, id));
        }
    }

    /// The ledger has this version of a job that is not known here.
    pub(super) fn raise(&mut self, id: JobId, version: u64, mono: Millis) {
        if self.get(id, mono).is_none_or(|old| old.version < version) {
            self.add(id, version, None, mono);
        }
    }

    /// The ledger is about to edit the job in this version.
    pub(super) fn bar(&mut self, id: JobId, version: u64, mono: Millis) {
        self.drop_lapsed(DROPPED_MAX, mono);
        let until = mono + <dyn Broker>::BARRED_MS;
        let least = self.get(id, mono).map_or(0, |old| old.version).max(version + 1);
        if self.lengthen(id, least, None, until, mono) {
            self.order_barred.push_back((until, id));
        }
    }

    /// Sets a tombstone, which lasts no shorter than before. Returns whether it lasts longer.
    fn lengthen(&mut self, id: JobId, version: u64, end: Option<(u64, Stage)>, until: Millis, mono: Millis) -> bool {
        let old = self.get(id, mono).copied();
        let end = end.or(old.and_then(|old| old.end));
        let before = old.map_or(0, |old| old.until);
        debug_assert!(old.is_none_or(|old| old.version <= version), "a tombstone does not let earlier versions pass");
        self.tombstones.insert(id, Tombstone { version, end, until: until.max(before) });
        until > before
    }

    /// Drops at most this many of each kind.
    pub(super) fn drop_lapsed(&mut self, most: usize, mono: Millis) {
        for order in [&mut self.order, &mut self.order_barred] {
            for _ in 0..most {
                let Some(&(_, id)) = order.front().filter(|(until, _)| *until <= mono) else { break };
                order.pop_front();
                if self.tombstones.get(id).is_some_and(|tombstone| tombstone.until <= mono) {
                    self.tombstones.remove(id);
                }
            }
        }
    }
}
