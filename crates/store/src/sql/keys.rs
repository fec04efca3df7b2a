//! The holders of keys, as a transaction has read and since changed them.

use super::fault::Fault;
use super::session::{Key, Session};
use duetime_core::JobId;
use std::collections::HashMap;
use std::sync::Arc;

/// The holders of some keys.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<Key, JobId>);

impl Keys {
    /// Reads the holders of these keys.
    pub(super) async fn read(session: &mut Session, mut keys: Vec<Key>) -> Result<Self, Fault> {
        keys.sort_unstable();
        keys.dedup();
        Ok(Self(session.holders(&keys).await?.into_iter().collect()))
    }

    /// The holder of a key.
    pub(super) fn holder(&self, queue: &Arc<str>, key: &Arc<str>) -> Option<JobId> {
        self.0.get(&(queue.clone(), key.clone())).copied()
    }

    /// This job now holds the key.
    pub(super) fn take(&mut self, queue: &Arc<str>, key: &Arc<str>, id: JobId) {
        self.0.insert((queue.clone(), key.clone()), id);
    }

    /// This job no longer holds the key.
    pub(super) fn free(&mut self, queue: &Arc<str>, key: &Arc<str>, id: JobId) {
        let key = (queue.clone(), key.clone());
        if self.0.get(&key) == Some(&id) {
            self.0.remove(&key);
        }
    }
}
