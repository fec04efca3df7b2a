//! Tombstones of jobs that have ended, were dropped, or were edited unseen, so that no earlier reading of them is put.
//!
//! While an entry waits in the outbox, it serves as the tombstone. The tombstone begins when the entry is forgotten, since
//! until then the ledger may be read as it was before.

use super::by_id::ById;
use crate::clock::Millis;
use crate::model::id::JobId;
use crate::model::job::Stage;
use crate::ports::Broker;
use std::collections::VecDeque;

/// Lapsed tombstones that one call drops.
const DROPPED_MAX: usize = 3;

/// The tombstone of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tombstone {
    /// No version below this one is put.
    version: u64,
    /// Its last lease and how that ended, if it ended here.
    pub(super) end: Option<(u64, Stage)>,
    /// Edits that the ledger has not answered; meanwhile no version at all is put.
    unseen: u32,
    until: Millis,
}

impl Tombstone {
    /// The least version that may be put.
    pub(super) fn version(&self) -> u64 {
        if self.unseen > 0 { u64::MAX } else { self.version }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Tombstones {
    tombstones: ById<Tombstone>,
    /// The times at which tombstones may lapse.
    order: VecDeque<(Millis, JobId)>,
    /// The same for those of unseen edits.
    order_unseen: VecDeque<(Millis, JobId)>,
}

impl Tombstones {
    pub(super) fn get(&self, id: JobId, mono: Millis) -> Option<&Tombstone> {
        self.tombstones.get(id).filter(|tombstone| tombstone.until > mono)
    }

    /// The ledger has recorded that the job has ended, or waits beyond the watermark.
    pub(super) fn add(&mut self, id: JobId, version: u64, end: Option<(u64, Stage)>, mono: Millis) {
        let until = mono + <dyn Broker>::TOMBSTONE_MS;
        let tombstone = match self.get(id, mono) {
            Some(&old) => Tombstone { version, end: end.or(old.end), unseen: old.unseen, until: until.max(old.until) },
            None => Tombstone { version, end, unseen: 0, until },
        };
        self.set(id, tombstone, mono);
    }

    /// The ledger has this version of a job that is not known here.
    pub(super) fn raise(&mut self, id: JobId, version: u64, mono: Millis) {
        if self.get(id, mono).is_none_or(|old| old.unseen == 0 && old.version < version) {
            self.add(id, version, None, mono);
        }
    }

    /// The job was edited and is not known.
    pub(super) fn edit_unseen(&mut self, id: JobId, mono: Millis) {
        let until = mono + <dyn Broker>::UNSEEN_MS;
        let tombstone = match self.get(id, mono) {
            Some(&old) => Tombstone { unseen: old.unseen.saturating_add(1), until, ..old },
            None => Tombstone { version: 0, end: None, unseen: 1, until },
        };
        self.set(id, tombstone, mono);
    }

    /// The ledger has answered an edit, and has the job in this version; 0 if it changed nothing. A version that was
    /// forgotten before is a repeat, not an answer.
    pub(super) fn resolve(&mut self, id: JobId, version: u64, mono: Millis) {
        let is_answer = |old: &Tombstone| old.unseen > 0 && (version > old.version || version == 0 || old.version == 0);
        if let Some(&old) = self.get(id, mono).filter(|&old| is_answer(old)) {
            let tombstone = Tombstone { version: old.version.max(version), unseen: old.unseen - 1, ..old };
            let until = if tombstone.unseen > 0 { tombstone.until } else { mono + <dyn Broker>::TOMBSTONE_MS };
            self.set(id, Tombstone { until, ..tombstone }, mono);
        }
    }

    fn set(&mut self, id: JobId, tombstone: Tombstone, mono: Millis) {
        self.drop_lapsed(mono);
        let order = if tombstone.unseen > 0 { &mut self.order_unseen } else { &mut self.order };
        order.push_back((tombstone.until, id));
        self.tombstones.insert(id, tombstone);
    }

    /// Drops a few, so that no call pays for a burst, but more than one call adds.
    pub(super) fn drop_lapsed(&mut self, mono: Millis) {
        for order in [&mut self.order, &mut self.order_unseen] {
            for _ in 0..DROPPED_MAX {
                let Some(&(_, id)) = order.front().filter(|(until, _)| *until <= mono) else { break };
                order.pop_front();
                if self.tombstones.get(id).is_some_and(|tombstone| tombstone.until <= mono) {
                    self.tombstones.remove(id);
                }
            }
        }
    }
}
