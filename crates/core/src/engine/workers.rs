//! The workers that ask this process for jobs under a name.

use super::Engine;
use crate::api::Workers as Page;
use crate::ports::{Lease, Source};
use std::sync::Arc;

/// A named worker that asks for jobs, until this is dropped.
pub(super) struct Asking {
    engine: Engine,
    worker: Arc<str>,
    queues: Vec<Arc<str>>,
}

impl Asking {
    /// The worker got these leases, and nobody knows their receipts yet.
    pub(super) fn got(&self, leases: &[Lease]) {
        if !leases.is_empty() {
            self.engine.workers.got(&self.worker, leases, self.engine.now());
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.engine.workers.asked(&self.worker, &self.queues, self.engine.now());
    }
}

impl Engine {
    /// A worker with this name asks for jobs.
    pub(super) fn asks(&self, worker: Arc<str>, source: &Source) -> Asking {
        let queues = match source {
            Source::Queues(queues) => queues.clone(),
            Source::Jobs(_) => Vec::new(),
        };
        self.workers.asks(&worker, &queues, self.now());
        Asking { engine: self.clone(), worker, queues }
    }

    /// At most `limit` named workers of this process, by name, after this name. Only workers of queues that the caller may
    /// read, and only that part of them.
    pub fn workers(&self, after: Option<&str>, limit: usize, may_read: impl Fn(&str) -> bool) -> Page {
        self.workers.page(after, limit, may_read, self.now())
    }
}
