//! The subscribers to job events. Without any, an event costs one read of an atomic. All share one ring.

use super::ends::Ends;
use crate::model::id::JobId;
use crate::ports::{Event, Transition};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How far a subscriber may fall behind, in transitions, before it misses some.
pub const RING_TRANSITIONS: usize = 16_384;
/// Transitions that are kept for readers who come later.
pub const RECENT_TRANSITIONS: usize = 50;
/// The increment of the count per local subscriber; the lowest bit says that there are remote ones.
const HERE: usize = 2;
const ELSEWHERE: usize = 1;

/// The number of subscribers, here and elsewhere.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    ring: OnceLock<broadcast::Sender<Event>>,
    /// The last transitions, oldest first, whether or not somebody subscribes. It is locked while they are sent, so that a subscriber
    /// gets each transition once: from here, or from the ring.
    recent: Mutex<VecDeque<Arc<Transition>>>,
    ends: Ends,
    count: AtomicUsize,
    /// Since when there have been local ones.
    since: Mutex<Option<Instant>>,
}

impl Subscribers {
    pub(super) fn are_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    pub(super) fn are_here(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= HERE
    }

    pub(super) fn are_elsewhere(&self) -> bool {
        self.count.load(Ordering::Relaxed) & ELSEWHERE != 0
    }

    pub(super) fn set_elsewhere(&self, are_there: bool) {
        if are_there {
            self.count.fetch_or(ELSEWHERE, Ordering::Relaxed);
        } else {
            self.count.fetch_and(!ELSEWHERE, Ordering::Relaxed);
        }
    }

    /// Keeps transitions, and delivers them to local subscribers.
    pub(super) fn deliver_all(&self, transitions: &[Arc<Transition>]) {
        let mut recent = self.recent.lock().expect("no panic under this lock");
        for transition in transitions {
            if recent.len() >= RECENT_TRANSITIONS {
                recent.pop_front();
            }
            recent.push_back(transition.clone());
            self.send(Event::Transition(transition.clone()));
        }
    }

    /// The same for what another process tells.
    pub(super) fn deliver(&self, event: Event) {
        match event {
            Event::Transition(transition) => self.deliver_all(&[transition]),
            event => self.send(event),
        }
    }

    /// Delivers to local subscribers.
    fn send(&self, event: Event) {
        if !self.are_here() {
            return;
        }
        self.ends.deliver(&event);
        if let Some(ring) = self.ring.get() {
            // If the last subscriber has just left, nobody gets it.
            let _ = ring.send(event);
        }
    }

    /// Adds a local subscriber. It gets the events from now on; the last ones before are returned, too.
    pub(super) fn join_late(&self) -> (broadcast::Receiver<Event>, Instant, Vec<Arc<Transition>>) {
        let recent = self.recent.lock().expect("no panic under this lock");
        let (receiver, since) = self.join();
        (receiver, since, recent.iter().cloned().collect())
    }

    /// Adds a local subscriber; returns since when there has always been one.
    pub(super) fn join(&self) -> (broadcast::Receiver<Event>, Instant) {
        let ring = self.ring.get_or_init(|| broadcast::channel(RING_TRANSITIONS).0);
        let since = self.count_one();
        (ring.subscribe(), since)
    }

    /// The same for a subscriber to the end of one job.
    pub(super) fn watch(&self, id: JobId) -> (watch::Receiver<()>, Instant) {
        let since = self.count_one();
        (self.ends.join(id), since)
    }

    /// Removes one of those.
    pub(super) fn unwatch(&self, id: JobId) {
        self.ends.leave(id);
        self.leave();
    }

    fn count_one(&self) -> Instant {
        let mut since = self.since.lock().expect("no panic under this lock");
        if self.count.fetch_add(HERE, Ordering::Relaxed) < HERE {
            *since = None;
        }
        *since.get_or_insert_with(Instant::now)
    }

    /// Removes a local subscriber.
    pub(super) fn leave(&self) {
        let _since = self.since.lock().expect("no panic under this lock");
        self.count.fetch_sub(HERE, Ordering::Relaxed);
    }
}

/// Tells when a job may have ended.
#[derive(Debug)]
pub(in crate::engine) struct EndWatch {
    id: JobId,
    ended: watch::Receiver<()>,
    subscribers: Arc<Subscribers>,
    stopping: CancellationToken,
}

impl EndWatch {
    pub(super) fn new(
        id: JobId,
        ended: watch::Receiver<()>,
        subscribers: Arc<Subscribers>,
        stopping: CancellationToken,
    ) -> Self {
        Self { id, ended, subscribers, stopping }
    }

    /// Waits until the job may have ended since the last call; `false` once the engine stops. Cancel safe.
    pub(in crate::engine) async fn next(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => false,
            told = self.ended.changed() => told.is_ok(),
        }
    }
}

impl Drop for EndWatch {
    fn drop(&mut self) {
        self.subscribers.unwatch(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_delivered_while_somebody_is_here_and_published_while_somebody_is_elsewhere() {
        let subscribers = Subscribers::default();
        subscribers.deliver(Event::Missed);
        let (mut first, since) = subscribers.join();
        let (mut second, _) = subscribers.join();
        subscribers.set_elsewhere(true);
        subscribers.deliver(Event::Missed);
        assert!(first.try_recv().is_ok() && first.try_recv().is_err() && second.try_recv().is_ok());
        subscribers.leave();
        assert!(subscribers.are_here() && subscribers.are_elsewhere(), "one is left");
        assert_eq!(subscribers.join().1, since, "there has always been one");
        subscribers.leave();
        subscribers.leave();
        assert!(subscribers.are_there() && !subscribers.are_here());
        subscribers.set_elsewhere(false);
        assert!(!subscribers.are_there());
    }
}
