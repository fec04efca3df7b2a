//! Tombstones: of jobs that have ended or were edited unseen, so that no earlier reading of them is put.

use crate::clock::Millis;
use crate::id::JobId;
use crate::job::Stage;
use crate::ports::Broker;
use std::collections::{HashMap, VecDeque};

/// How long a tombstone stands.
const TOMB_MS: u64 = 2 * <dyn Broker>::READ_AGE_MS_MAX;

/// What is remembered of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tomb {
    /// No version below this one is put.
    pub(super) version: u64,
    /// Its last lease, and how it ended, where it ended here.
    pub(super) end: Option<(u64, Stage)>,
}

#[derive(Debug, Default)]
pub(super) struct Tombs {
    tombs: HashMap<JobId, (Millis, Tomb)>,
    order: VecDeque<(Millis, JobId)>,
}

impl Tombs {
    pub(super) fn get(&self, id: JobId) -> Option<&Tomb> {
        self.tombs.get(&id).map(|(_, tomb)| tomb)
    }

    pub(super) fn add(&mut self, id: JobId, tomb: Tomb, mono: Millis) {
        // A few at a time, so that no call pays for a burst.
        for _ in 0..2 {
            if let Some(&(at, old)) = self.order.front()
                && at + TOMB_MS <= mono
            {
                self.order.pop_front();
                if self.tombs.get(&old).is_some_and(|&(newest, _)| newest == at) {
                    self.tombs.remove(&old);
                }
            }
        }
        self.tombs.insert(id, (mono, tomb));
        self.order.push_back((mono, id));
    }

    /// The ledger has the job in this version: the tombstone of an unseen edit stands for that much.
    pub(super) fn resolve(&mut self, id: JobId, version: u64) {
        if let Some((_, tomb)) = self.tombs.get_mut(&id)
            && tomb.end.is_none()
        {
            tomb.version = tomb.version.min(version);
        }
    }
}
