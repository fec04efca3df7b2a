//! The settings of queues that this process has read.

use super::Settings;
use super::index::{Index, WaitingLimit};
use crate::clock::Millis;
use crate::json::Span;
use crate::ports::{QueueLeases, Retention};
use crate::request::QueueSettings;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};

/// A queue, with its settings.
pub(in crate::engine) type WithSettings = (Arc<str>, Arc<QueueSettings>);

impl Settings {
    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().expect("no panic under this lock")
    }

    fn to_change(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().expect("no panic under this lock")
    }

    pub(in crate::engine) fn of(&self, queue: &str) -> Arc<QueueSettings> {
        self.index().queues.get(queue).cloned().unwrap_or_default()
    }

    /// At most `limit` queues that have settings, by name, from this one on.
    pub(in crate::engine) fn from(&self, from: &str, limit: usize) -> Vec<(Arc<str>, Arc<QueueSettings>)> {
        let known = self.index();
        let range = known.queues.range::<str, _>((Bound::Included(from), Bound::Unbounded)).take(limit);
        range.map(|(queue, settings)| (queue.clone(), settings.clone())).collect()
    }

    /// The lease lengths of queues that have one.
    pub(in crate::engine) fn leases(&self) -> Arc<QueueLeases> {
        self.leases.clone()
    }

    /// At most `limit` paused queues, by name, with their settings; and how many there are.
    pub(in crate::engine) fn paused(&self, limit: usize) -> (Vec<WithSettings>, usize) {
        let known = self.index();
        let settings = |queue: &Arc<str>| Some((queue.clone(), known.queues.get(queue)?.clone()));
        (known.paused.iter().take(limit).filter_map(settings).collect(), known.paused.len())
    }

    /// The limit on what waits in a queue, if it has one.
    pub(in crate::engine) fn waiting_limit(&self, queue: &str) -> Option<WaitingLimit> {
        self.index().limited.get(queue).copied()
    }

    /// The queues that have a target, with their settings.
    pub(in crate::engine) fn with_targets(&self) -> Vec<(Arc<str>, Arc<QueueSettings>)> {
        let known = self.index();
        let settings = |queue: &Arc<str>| Some((queue.clone(), known.queues.get(queue)?.clone()));
        known.targets.iter().filter_map(settings).collect()
    }

    /// At most `limit` queues that have their own retention, by name, from this one on.
    pub(in crate::engine) fn keeping(&self, from: &str, limit: usize) -> Vec<Arc<str>> {
        let known = self.index();
        known.keeping.range::<str, _>((Bound::Included(from), Bound::Unbounded)).take(limit).cloned().collect()
    }

    /// The longest retention of any queue.
    pub(in crate::engine) fn longest_retention(&self, usual: Retention) -> Retention {
        let known = self.index();
        let longest = |kept: &BTreeMap<u64, usize>, usual: u64| kept.keys().last().map_or(usual, |&ms| ms.max(usual));
        Retention {
            succeeded: Span(longest(&known.succeeded_ms, usual.succeeded.0)),
            failed: Span(longest(&known.failed_ms, usual.failed.0)),
        }
    }

    /// Queues whose pause is over, at most `limit`, and when the next pause ends; now, if there are more.
    pub(in crate::engine) fn pauses(&self, now: Millis, limit: usize) -> (Vec<Arc<str>>, Option<Millis>) {
        let known = self.index();
        let over = known.pauses.iter().take_while(|(until, _)| *until <= now).take(limit);
        (over.map(|(_, queue)| queue.clone()).collect(), known.pauses.first().map(|&(until, _)| until))
    }

    pub(in crate::engine) fn set(&self, queue: Arc<str>, settings: QueueSettings) {
        self.leases.set(&queue, settings.lease.map(|length| length.0));
        self.to_change().set(queue, settings);
        self.changed.notify_waiters();
    }

    /// A queue has no settings any more.
    pub(in crate::engine) fn unset(&self, queue: &Arc<str>) {
        if self.index().queues.contains_key(queue) {
            self.leases.set(queue, None);
            self.to_change().unset(queue);
            self.changed.notify_waiters();
        }
    }

    /// Replaces all known settings.
    pub(in crate::engine) fn set_all(&self, all: Vec<(Arc<str>, QueueSettings)>) {
        let mut known = Index::default();
        let leases = all.iter().filter_map(|(queue, settings)| Some((queue.clone(), settings.lease?.0)));
        self.leases.set_all(leases.collect());
        all.into_iter().for_each(|(queue, settings)| known.set(queue, settings));
        *self.to_change() = known;
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::engine::base::Base;
    use crate::engine::stores::Stores;
    use crate::json::Timestamp;
    use crate::request::{Options, QueueRetention};
    use crate::testing::ModelLedger;

    const USUAL: Retention = Retention { succeeded: Span(10), failed: Span(20) };

    fn keeps(succeeded_ms: Option<u64>, failed_ms: Option<u64>) -> QueueSettings {
        let (succeeded, failed) = (succeeded_ms.map(Span), failed_ms.map(Span));
        QueueSettings { retention: QueueRetention { succeeded, failed }, ..QueueSettings::default() }
    }

    #[tokio::test]
    async fn indexes_follow_what_is_set() {
        let stores = Stores::one_process(Arc::new(SystemClock::default()), Arc::new(ModelLedger::default()));
        let settings = Settings::new(&Base::new(stores, Options::default()));
        let set = |queue: &str, set: QueueSettings| settings.set(queue.into(), set);
        set(
            "a",
            QueueSettings {
                paused: true,
                paused_until: Some(Timestamp(5)),
                lease: Some(Span(7_000)),
                ..keeps(Some(30), None)
            },
        );
        set("b", QueueSettings { paused: true, paused_until: Some(Timestamp(4)), ..keeps(Some(30), Some(5)) });
        assert_eq!(settings.pauses(4, 9), (vec!["b".into()], Some(4)));
        assert_eq!(settings.longest_retention(USUAL), Retention { succeeded: Span(30), failed: Span(20) });
        assert_eq!(settings.keeping("b", 9), ["b".into()]);
        assert_eq!((settings.leases().of("a"), settings.leases().of("b")), (Some(7_000), None));
        set("a", QueueSettings::default());
        assert_eq!(settings.longest_retention(USUAL).succeeded.0, 30, "of b");
        set("b", QueueSettings::default());
        assert_eq!(settings.longest_retention(USUAL), USUAL);
        assert_eq!((settings.pauses(9, 9), settings.keeping("", 9)), ((vec![], None), vec![]));
        assert_eq!(settings.leases().of("a"), None);
        settings.set_all(vec![("c".into(), QueueSettings { lease: Some(Span(1_000)), ..QueueSettings::default() })]);
        let names: Vec<Arc<str>> = settings.from("", 9).into_iter().map(|(queue, _)| queue).collect();
        assert_eq!((names, settings.leases().of("c")), (vec!["c".into()], Some(1_000)));
    }
}
