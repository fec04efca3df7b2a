//! The worker's leases, from reserve until the outcome is answered, and when to extend each.

use super::context::Context;
use duetime_core::{Job, Receipt};
use std::collections::HashMap;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// A lease is extended after this fraction of its length.
const EXTEND_PART: u32 = 3;

#[derive(Default)]
pub(super) struct Leases {
    leases: HashMap<Receipt, Lease>,
}

struct Lease {
    length: Duration,
    extend_at: Instant,
    /// When it expires unless it is extended, by this process's clock.
    ends_at: Instant,
    /// The engine reported that the lease has ended; an outcome would be refused.
    is_lost: bool,
    handler: Option<Running>,
}

/// A handler that runs, or that waits for its runtime.
pub(super) struct Running {
    pub(super) context: Context,
    pub(super) task: AbortHandle,
    pub(super) since: Instant,
}

impl Leases {
    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    pub(super) fn insert(&mut self, job: &Job, lease_ms: u64, now: Instant) {
        let length = Duration::from_millis(lease_ms);
        let (extend_at, ends_at) = (now + length / EXTEND_PART, now + length);
        let lease = Lease { length, extend_at, ends_at, is_lost: false, handler: None };
        self.leases.insert(job.receipt(), lease);
    }

    pub(super) fn started(&mut self, receipt: Receipt, handler: Running) {
        if let Some(lease) = self.leases.get_mut(&receipt) {
            if lease.is_lost {
                handler.context.cancellation().cancel();
            }
            lease.handler = Some(handler);
        }
    }

    /// The handler has ended. Returns whether its outcome can still count.
    pub(super) fn finished(&mut self, receipt: Receipt) -> bool {
        let Some(lease) = self.leases.get_mut(&receipt) else { return false };
        lease.handler = None;
        if lease.is_lost {
            self.leases.remove(&receipt);
            return false;
        }
        true
    }

    /// Removes and returns leases whose handlers have waited this long for a busy or blocked runtime; they will not begin.
    pub(super) fn take_unbegun(&mut self, now: Instant, wait: Duration) -> Vec<Receipt> {
        let is_late = |handler: &Running| now.duration_since(handler.since) > wait && handler.context.begin();
        let late = self.leases.iter_mut().filter(|(_, lease)| lease.handler.as_ref().is_some_and(is_late));
        late.map(|(receipt, lease)| {
            lease.handler = None;
            *receipt
        })
        .collect()
    }

    /// The outcome was answered or given up.
    pub(super) fn remove(&mut self, receipt: Receipt) {
        self.leases.remove(&receipt);
    }

    /// Returns at most `limit` leases that must be extended now.
    pub(super) fn take_due(&mut self, now: Instant, limit: usize) -> Vec<Receipt> {
        let due = self.leases.iter_mut().filter(|(_, lease)| lease.extend_at <= now && !lease.is_lost);
        due.take(limit)
            .map(|(receipt, lease)| {
                lease.extend_at = now + lease.length / EXTEND_PART;
                *receipt
            })
            .collect()
    }

    /// The original length of a lease.
    pub(super) fn length(&self, receipt: Receipt) -> Option<Duration> {
        self.leases.get(&receipt).map(|lease| lease.length)
    }

    pub(super) fn extended(&mut self, receipt: Receipt, asked_at: Instant, cancel_asked: bool) {
        let Some(lease) = self.leases.get_mut(&receipt) else { return };
        lease.ends_at = asked_at + lease.length;
        if cancel_asked {
            lease.cancel();
        }
    }

    /// The extend was not answered: retry soon.
    pub(super) fn not_extended(&mut self, receipt: Receipt, now: Instant) {
        if let Some(lease) = self.leases.get_mut(&receipt) {
            lease.extend_at = now + lease.length / (EXTEND_PART * 4);
        }
    }

    /// The engine reported that the lease has ended. Returns whether this is new.
    pub(super) fn lost(&mut self, receipt: Receipt) -> bool {
        let Some(lease) = self.leases.get_mut(&receipt) else { return false };
        lease.cancel();
        !std::mem::replace(&mut lease.is_lost, true)
    }

    /// Whether the lease must have expired, unless an extend succeeded and its answer was lost.
    pub(super) fn is_over(&self, receipt: Receipt, now: Instant) -> bool {
        self.leases.get(&receipt).is_none_or(|lease| lease.ends_at <= now)
    }

    /// Cancels the tokens of handlers whose lease must have expired.
    pub(super) fn cancel_over(&mut self, now: Instant) {
        self.leases.values().filter(|lease| lease.ends_at <= now).for_each(Lease::cancel);
    }

    pub(super) fn cancel_all(&self) {
        self.leases.values().for_each(Lease::cancel);
    }

    pub(super) fn abort_all(&self) {
        self.leases.values().filter_map(|lease| lease.handler.as_ref()).for_each(|handler| handler.task.abort());
    }
}

impl Lease {
    fn cancel(&self) {
        if let Some(handler) = &self.handler {
            handler.context.cancellation().cancel();
        }
    }
}
