//! The known overflows. Only the ledger knows what is in an overflow: this merely decides where a new job goes first, so no
//! job is stranded by a process that dies or has old information.

use crate::clock::Millis;
use crate::error::Error;
use crate::model::job::Job;
use crate::ports::{Broker, Ledger, OverflowDue, SOON_MS};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The document of a shared registry that says which queues have an overflow.
pub(super) const OVERFLOWING: &str = "overflowing";
/// Queues that are published to other processes, at most.
pub(super) const QUEUES_PUBLISHED: usize = 1_000;

/// The boundary beyond which new jobs of a queue join its overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Boundary {
    /// Priority and due time of the most urgent job there that is due soon.
    pub(super) soon: Option<(u32, Millis)>,
    /// Whether others are there.
    pub(super) later: bool,
}

impl Boundary {
    fn takes(self, job: &Job, now: Millis) -> bool {
        let is_later = job.due_at.0 > now.saturating_add(SOON_MS);
        self.soon.is_some_and(|soon| (job.priority, job.due_at.0) >= soon) || (is_later && self.later)
    }
}

/// The least age of a count before it is made again; or twenty times as long as it took, if that is more.
const COUNT_AGE_MIN: Duration = Duration::from_secs(1);

/// The known overflows.
pub(super) struct Overflow {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    bounds: RwLock<HashMap<Arc<str>, Boundary>>,
    /// Whether there are any.
    is_used: AtomicBool,
    /// Somebody asks for a look.
    pub(super) requested: Notify,
    /// One loads at a time. Queues of which the last page found no room.
    pub(super) full: tokio::sync::Mutex<HashSet<Arc<str>>>,
    counted: Mutex<HashMap<Arc<str>, DueReading>>,
}

#[derive(Clone, Copy, Debug)]
struct DueReading {
    until: Instant,
    due: OverflowDue,
}

impl Overflow {
    pub(super) fn new(broker: Arc<dyn Broker>, ledger: Arc<dyn Ledger>) -> Self {
        Self {
            broker,
            ledger,
            bounds: RwLock::default(),
            is_used: AtomicBool::default(),
            requested: Notify::default(),
            full: tokio::sync::Mutex::default(),
            counted: Mutex::default(),
        }
    }

    /// Whether any queue is known to have one.
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    pub(super) fn bounds(&self) -> std::sync::RwLockReadGuard<'_, HashMap<Arc<str>, Boundary>> {
        self.bounds.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change<R>(&self, change: impl FnOnce(&mut HashMap<Arc<str>, Boundary>) -> R) -> R {
        let mut bounds = self.bounds.write().unwrap_or_else(PoisonError::into_inner);
        let answer = change(&mut bounds);
        self.is_used.store(!bounds.is_empty(), Ordering::Release);
        answer
    }

    pub(super) fn bound(&self, queue: &str) -> Option<Boundary> {
        if self.is_used() { self.bounds().get(queue).copied() } else { None }
    }

    /// Whether a new job joins the overflow of its queue.
    pub(super) fn takes(&self, job: &Job, now: Millis) -> bool {
        self.bound(&job.queue).is_some_and(|bound| bound.takes(job, now))
    }

    /// There was no room for this job.
    pub(super) fn refused(&self, (queue, priority, due_at): (Arc<str>, u32, Millis), now: Millis) {
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

    pub(super) fn set(&self, queue: &Arc<str>, bound: Boundary) {
        self.change(|bounds| {
            if bound == Boundary::default() {
                bounds.remove(queue);
            } else {
                bounds.insert(queue.clone(), bound);
            }
        });
    }

    /// Has the loader look.
    pub(super) fn ask(&self) {
        self.requested.notify_one();
    }

    /// The boundaries as published to other processes.
    pub(super) fn to_publish(&self) -> String {
        let bounds: BTreeMap<String, Boundary> =
            self.bounds().iter().take(QUEUES_PUBLISHED).map(|(queue, bound)| (queue.to_string(), *bound)).collect();
        serde_json::to_string(&bounds).unwrap_or_default()
    }

    /// Takes over the boundaries that the leader published.
    pub(super) fn learn(&self, told: &str) {
        if let Ok(told) = serde_json::from_str::<BTreeMap<String, Boundary>>(told) {
            self.change(|bounds| *bounds = told.into_iter().map(|(queue, bound)| (queue.into(), bound)).collect());
        }
    }

    /// The due jobs in the overflow of a queue, slightly out of date.
    pub(super) async fn due(&self, queue: &Arc<str>) -> Result<OverflowDue, Error> {
        if self.bound(queue).is_none() {
            return Ok(OverflowDue::default());
        }
        let counted = || self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        if let Some(counted) = counted().get(queue).filter(|counted| counted.until > begun) {
            return Ok(counted.due);
        }
        let due = self.ledger.overflow_due(queue, self.broker.now()).await?;
        let until = Instant::now() + (begun.elapsed() * 20).max(COUNT_AGE_MIN);
        let mut counted = counted();
        counted.retain(|_, counted| counted.until > begun);
        counted.insert(queue.clone(), DueReading { until, due });
        Ok(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use crate::testing::fixtures::{QUEUE, T0 as NOW, due};
    use crate::testing::{ManualClock, ModelLedger};

    const LATER: Millis = NOW + SOON_MS + 1;

    fn overflow() -> Overflow {
        let broker = Memory::new(Arc::new(ManualClock::new()));
        Overflow::new(Arc::new(broker), Arc::new(ModelLedger::default()))
    }

    fn job(priority: u32, due_at: Millis) -> Job {
        Job { priority, ..due(1, due_at) }
    }

    fn joins(overflow: &Overflow, priority: u32, due_at: Millis) -> bool {
        overflow.takes(&job(priority, due_at), NOW)
    }

    /// One that is more urgent than the most urgent there does not wait behind it.
    #[test]
    fn what_is_less_urgent_than_the_first_of_an_overflow_joins_it() {
        let overflow = overflow();
        assert!(!joins(&overflow, 9, NOW), "there is none");
        for (priority, due_at) in [(5, NOW - 10), (7, NOW - 20)] {
            overflow.refused((QUEUE.into(), priority, due_at), NOW);
        }
        assert!(joins(&overflow, 5, NOW - 10) && joins(&overflow, 6, NOW - 90), "the most urgent one decides");
        assert!(!joins(&overflow, 5, NOW - 11) && !joins(&overflow, 4, NOW), "it is more urgent");
        assert!(!overflow.takes(&Job { queue: "other".into(), ..job(9, NOW) }, NOW), "each queue has its own");
    }

    /// They need no room yet. One that is due soon does, whatever waits there for later.
    #[test]
    fn what_is_due_later_joins_only_what_is_due_later() {
        let overflow = overflow();
        overflow.refused((QUEUE.into(), 5, LATER), NOW);
        assert!(joins(&overflow, 0, LATER) && !joins(&overflow, 9, LATER - 1));
    }

    #[test]
    fn an_overflow_that_is_empty_takes_nothing() {
        let overflow = overflow();
        overflow.refused((QUEUE.into(), 5, NOW), NOW);
        overflow.set(&QUEUE.into(), Boundary::default());
        assert!(!joins(&overflow, 9, NOW) && !overflow.is_used());
    }

    #[test]
    fn others_learn_where_new_jobs_go() {
        let (leader, other) = (overflow(), overflow());
        leader.refused((QUEUE.into(), 5, NOW), NOW);
        other.refused(("gone".into(), 5, NOW), NOW);
        other.learn(&leader.to_publish());
        assert!(joins(&other, 5, NOW) && !joins(&other, 4, NOW));
        assert_eq!(other.bound("gone"), None);
    }
}
