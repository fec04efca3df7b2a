//! Settings of queues, with an index for each question about all queues at once, so that the cost of one queue does not depend on the number of
//! others.

use crate::clock::Millis;
use crate::json::Span;
use crate::request::{QueueRetention, QueueSettings, WhenFull};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The limit of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct WaitingLimit {
    /// The number of jobs that may wait.
    pub(in crate::engine) max: u32,
    /// What becomes of a push without a permit.
    pub(in crate::engine) then: WhenFull,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) queues: BTreeMap<Arc<str>, Arc<QueueSettings>>,
    /// Those whose pause has an end.
    pub(super) pauses: BTreeSet<(Millis, Arc<str>)>,
    /// Those that are paused.
    pub(super) paused: BTreeSet<Arc<str>>,
    /// Those that have a target.
    pub(super) targets: BTreeSet<Arc<str>>,
    /// Those that have a limit on what waits.
    pub(super) limited: HashMap<Arc<str>, WaitingLimit>,
    /// Those that have their own retention.
    pub(super) keeping: BTreeSet<Arc<str>>,
    /// The number of queues by retention: of succeeded jobs, and of failed ones.
    pub(super) succeeded_ms: BTreeMap<u64, usize>,
    pub(super) failed_ms: BTreeMap<u64, usize>,
}

impl Index {
    pub(super) fn set(&mut self, queue: Arc<str>, settings: QueueSettings) {
        self.drop_indexed(&queue);
        if let Some(until) = settings.paused_until {
            self.pauses.insert((until.0, queue.clone()));
        }
        if settings.paused {
            self.paused.insert(queue.clone());
        }
        if settings.target.is_some() {
            self.targets.insert(queue.clone());
        }
        if let Some(max) = settings.max_waiting {
            let then = settings.when_full.unwrap_or_default();
            self.limited.insert(queue.clone(), WaitingLimit { max, then });
        }
        let QueueRetention { succeeded, failed } = settings.retention;
        if !settings.retention.is_usual() {
            self.keeping.insert(queue.clone());
        }
        succeeded.into_iter().for_each(|Span(ms)| *self.succeeded_ms.entry(ms).or_default() += 1);
        failed.into_iter().for_each(|Span(ms)| *self.failed_ms.entry(ms).or_default() += 1);
        self.queues.insert(queue, Arc::new(settings));
    }

    pub(super) fn unset(&mut self, queue: &Arc<str>) {
        self.drop_indexed(queue);
        self.queues.remove(queue);
    }

    fn drop_indexed(&mut self, queue: &Arc<str>) {
        let Some(old) = self.queues.get(queue) else { return };
        if let Some(until) = old.paused_until {
            self.pauses.remove(&(until.0, queue.clone()));
        }
        self.paused.remove(queue);
        self.targets.remove(queue);
        self.limited.remove(queue);
        self.keeping.remove(queue);
        let QueueRetention { succeeded, failed } = old.retention;
        succeeded.into_iter().for_each(|Span(ms)| take_one(&mut self.succeeded_ms, ms));
        failed.into_iter().for_each(|Span(ms)| take_one(&mut self.failed_ms, ms));
    }
}

fn take_one(counts: &mut BTreeMap<u64, usize>, ms: u64) {
    if let Some(count) = counts.get_mut(&ms) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&ms);
        }
    }
}
