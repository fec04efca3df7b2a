//! Jobs that the broker does not hold as they were put, until the ledger has been read or updated.

use crate::model::id::JobId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// The lists, and who works on them.
#[derive(Debug, Default)]
pub(super) struct ToReconcile {
    lists: Mutex<Lists>,
    /// Held while jobs are read again.
    pub(super) finding: tokio::sync::Mutex<()>,
    /// One of the jobs that a shared broker did not take the last time.
    left: Mutex<Option<JobId>>,
}

#[derive(Debug, Default)]
pub(super) struct Lists {
    /// To be read from the ledger again.
    pub(super) again: Vec<JobId>,
    /// To be marked as overflow.
    pub(super) full: Vec<JobId>,
    /// Refused because of a tombstone: the version that the ledger had, and since when.
    pub(super) barred: BTreeMap<JobId, (u64, Instant)>,
    /// Those that were freed last: the version that this gave them, and when.
    pub(super) freed: BTreeMap<JobId, (u64, Instant)>,
}

impl ToReconcile {
    pub(super) fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().expect("no panic under this lock")
    }

    /// A shared broker did not take some jobs, of which this is one.
    pub(super) fn set_left(&self, job: Option<JobId>) {
        *self.left.lock().expect("no panic under this lock") = job;
    }

    pub(super) fn take_left(&self) -> Option<JobId> {
        self.left.lock().expect("no panic under this lock").take()
    }
}
