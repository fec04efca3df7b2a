//! The known overflows. Only the ledger knows what is in an overflow: this merely decides where a new job goes first, so no
//! job is stranded by a process that dies or has old information.

use crate::clock::Millis;
use crate::model::job::Job;
use crate::ports::{OverflowDue, SOON_MS};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The document of a shared registry that says which queues have an overflow.
pub(crate) const OVERFLOWING: &str = "overflowing";
/// Queues that are published to other processes, at most.
pub(crate) const QUEUES_TOLD: usize = 1_000;

/// The boundary beyond which new jobs of a queue join its overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Boundary {
    /// Priority and due time of the most urgent job there that is due soon.
    pub(crate) soon: Option<(u32, Millis)>,
    /// Whether others are there.
    pub(crate) later: bool,
}

impl Boundary {
    fn takes(self, job: &Job, now: Millis) -> bool {
        let is_later = job.due_at > now.saturating_add(SOON_MS);
        self.soon.is_some_and(|soon| (job.priority, job.due_at) >= soon) || (is_later && self.later)
    }
}

/// The known overflows.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    bounds: RwLock<HashMap<Arc<str>, Boundary>>,
    /// Whether there are any.
    is_used: AtomicBool,
    /// Somebody asks for a look.
    pub(crate) asked: Notify,
    /// One loads at a time. Queues of which the last page found no room.
    pub(crate) full: tokio::sync::Mutex<HashSet<Arc<str>>>,
    pub(crate) counted: Mutex<HashMap<Arc<str>, Counted>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) until: Instant,
    pub(crate) due: OverflowDue,
}

impl Overflow {
    /// Whether any queue is known to have one.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    pub(crate) fn bounds(&self) -> std::sync::RwLockReadGuard<'_, HashMap<Arc<str>, Boundary>> {
        self.bounds.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut HashMap<Arc<str>, Boundary>) -> R) -> R {
        let mut bounds = self.bounds.write().unwrap_or_else(PoisonError::into_inner);
        let answer = change(&mut bounds);
        self.is_used.store(!bounds.is_empty(), Ordering::Release);
        answer
    }

    pub(crate) fn bound(&self, queue: &str) -> Option<Boundary> {
        if self.is_used() { self.bounds().get(queue).copied() } else { None }
    }

    /// Whether a new job joins the overflow of its queue.
    pub(crate) fn takes(&self, job: &Job, now: Millis) -> bool {
        self.bound(&job.queue).is_some_and(|bound| bound.takes(job, now))
    }

    /// There was no room for this job.
    pub(crate) fn refused(&self, (queue, priority, due_at): (Arc<str>, u32, Millis), now: Millis) {
        let is_new = self.change(|bounds| {
            let is_new = !bounds.contains_key(&queue);
            let bound = bounds.entry(queue.clone()).or_default();
            if due_at <= now.saturating_add(SOON_MS) {
                let rank = (priority, due_at);
                bound.soon = Some(bound.soon.map_or(rank, |soon| soon.min(rank)));
            } else {
                bound.later = true;
            }
            is_new
        });
        if is_new {
            tracing::info!(%queue, "the queue has more due jobs than fit into memory; the rest waits in the ledger. Add \
             workers, or raise --memory-max");
        }
    }

    pub(crate) fn set(&self, queue: &Arc<str>, bound: Boundary) {
        self.change(|bounds| {
            if bound == Boundary::default() {
                bounds.remove(queue);
            } else {
                bounds.insert(queue.clone(), bound);
            }
        });
    }

    /// Has the loader look.
    pub(crate) fn ask(&self) {
        self.asked.notify_one();
    }

    /// The boundaries as published to other processes.
    pub(crate) fn told(&self) -> String {
        let bounds: BTreeMap<String, Boundary> =
            self.bounds().iter().take(QUEUES_TOLD).map(|(queue, bound)| (queue.to_string(), *bound)).collect();
        serde_json::to_string(&bounds).unwrap_or_default()
    }

    /// Takes over the boundaries that the leader published.
    pub(crate) fn hear(&self, told: &str) {
        if let Ok(told) = serde_json::from_str::<BTreeMap<String, Boundary>>(told) {
            self.change(|bounds| *bounds = told.into_iter().map(|(queue, bound)| (queue.into(), bound)).collect());
        }
    }
}
