//! The lease lengths of queues.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// The lease lengths of those queues that have one, in milliseconds. Shared, so that a request costs the same however many
/// there are.
#[derive(Debug, Default)]
pub struct QueueLeases(RwLock<HashMap<Arc<str>, u64>>);

impl QueueLeases {
    /// The lease length of a queue.
    pub fn of(&self, queue: &str) -> Option<u64> {
        self.0.read().expect("no panic under this lock").get(queue).copied()
    }

    /// Sets the lease length of a queue; `None` removes it.
    pub fn set(&self, queue: &Arc<str>, lease_ms: Option<u64>) {
        let mut known = self.0.write().expect("no panic under this lock");
        match lease_ms {
            Some(ms) => drop(known.insert(queue.clone(), ms)),
            None => drop(known.remove(queue)),
        }
    }

    /// Replaces the lease lengths of all queues.
    pub fn set_all(&self, all: HashMap<Arc<str>, u64>) {
        *self.0.write().expect("no panic under this lock") = all;
    }
}
