//! Deliveries under way: one task each, and one report of each, however it ends.

use super::delivery::{Delivery, Sign};
use super::errand::Errand;
use super::{Event, Means};
use duetime::{Failure, Outcome};
use duetime_core::{Job, Receipt};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// A delivery that has ended.
pub(super) struct Report {
    pub(super) receipt: Receipt,
    pub(super) outcome: Outcome,
    pub(super) sign: Sign,
    pub(super) began: Instant,
}

/// The deliveries of a queue.
pub(super) struct Crew {
    means: Arc<Means>,
    errand: Arc<Errand>,
    events: UnboundedSender<Event>,
    running: HashMap<Receipt, AbortHandle>,
}

impl Crew {
    pub(super) fn new(means: Arc<Means>, errand: Arc<Errand>, events: UnboundedSender<Event>) -> Self {
        Self { means, errand, events, running: HashMap::new() }
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn start(&mut self, job: Job, now: Instant) {
        let receipt = job.receipt();
        let (means, errand) = (self.means.clone(), self.errand.clone());
        let mut reporter = Reporter { receipt, began: now, events: self.events.clone(), delivery: None };
        let task = tokio::spawn(async move {
            let delivery = match &job.options().target {
                None => errand.run(&means.engine, &means.sender, &job).await,
                Some(own) => Errand::run_own(&means.policy, own, &means.engine, &means.sender, &job).await,
            };
            means.observed.delivered(&job, &delivery, now.elapsed());
            reporter.end(delivery);
        });
        self.running.insert(receipt, task.abort_handle());
    }

    pub(super) fn ended(&mut self, receipt: Receipt) {
        self.running.remove(&receipt);
    }

    pub(super) fn abort_all(&self) {
        self.running.values().for_each(AbortHandle::abort);
    }
}

/// Reports when it is dropped: also where the task is aborted, or has panicked.
struct Reporter {
    receipt: Receipt,
    began: Instant,
    events: UnboundedSender<Event>,
    delivery: Option<Delivery>,
}

impl Reporter {
    fn end(&mut self, delivery: Delivery) {
        self.delivery = Some(delivery);
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        let unended = || {
            let outcome = if std::thread::panicking() {
                Outcome::Fail(Failure { message: Arc::from("the delivery panicked"), ..Failure::default() })
            } else {
                Outcome::Release { delay_ms: 0 }
            };
            Delivery { outcome, sign: Sign::None }
        };
        let Delivery { outcome, sign } = self.delivery.take().unwrap_or_else(unended);
        let report = Report { receipt: self.receipt, outcome, sign, began: self.began };
        // Nobody listens once the deliverer has given up on it.
        let _ = self.events.send(Event::Ended(report));
    }
}
