//! The callers that ask this process for jobs: those that wait, when they last asked for a queue, and the workers that have a name.

mod requests;
pub(super) mod waiting;
mod workers;

use crate::api::Workers as Page;
use crate::clock::Millis;
use crate::engine::timers::Timers;
use crate::limits::WAIT_MS_MAX;
use crate::ports::{Broker, Lease, Pick};
use requests::Requests;
use std::collections::HashMap;
use std::sync::Arc;
use waiting::Waiting;
use workers::Workers;
pub use workers::unnamed;

/// Who asks for jobs.
pub(super) struct Consumers {
    broker: Arc<dyn Broker>,
    timers: Arc<Timers>,
    pub(super) waiting: Arc<Waiting>,
    pub(super) requests: Requests,
    pub(super) workers: Workers,
}

/// A named worker that asks for jobs, until this is dropped.
pub(super) struct WaitingWorker {
    consumers: Arc<Consumers>,
    worker: Arc<str>,
    queues: Vec<Arc<str>>,
}

impl WaitingWorker {
    /// The worker got these leases, and nobody knows their receipts yet.
    pub(super) fn add_leases(&self, leases: &[Lease]) {
        if !leases.is_empty() {
            self.consumers.workers.add_leases(&self.worker, leases, self.consumers.broker.now());
        }
    }
}

impl Drop for WaitingWorker {
    fn drop(&mut self) {
        self.consumers.workers.leave(&self.worker, &self.queues, self.consumers.broker.now());
    }
}

impl Consumers {
    pub(super) fn new(broker: Arc<dyn Broker>, timers: Arc<Timers>) -> Self {
        Self { broker, timers, waiting: Arc::default(), requests: Requests::default(), workers: Workers::default() }
    }

    /// Requests are remembered from now on.
    pub(super) fn begin(&self, now: Millis) {
        self.requests.begin(now);
        self.workers.begin(now);
    }

    /// Wakes callers that have something due, until the process stops.
    pub(super) async fn keep_alarm(&self) {
        self.waiting.keep(self.broker.as_ref(), &self.timers).await;
    }

    /// A worker with this name asks for jobs.
    pub(super) fn enter(self: &Arc<Self>, worker: Arc<str>, pick: &Pick) -> WaitingWorker {
        let queues = pick.queues().unwrap_or_default().to_vec();
        self.workers.enter(&worker, &queues, self.broker.now());
        WaitingWorker { consumers: self.clone(), worker, queues }
    }

    /// The number of workers of each queue that have asked lately.
    pub(super) fn by_queue(&self) -> HashMap<Arc<str>, u64> {
        self.workers.by_queue(self.broker.now().saturating_sub(WAIT_MS_MAX))
    }

    pub(super) fn workers(&self, after: Option<&str>, limit: usize, may_read: impl Fn(&str) -> bool) -> Page {
        self.workers.page(after, limit, may_read, self.broker.now())
    }
}
