//! Turns of deliveries over a connection: there may be more queues with targets than connections.
//!
//! A receiver that does not answer holds a turn, and its connection, until the time is up. So receivers that did not answer last, or were
//! not asked yet, share a part of the turns, and none of their connections is kept: those that answer always have the rest.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Of so many turns one is for receivers that did not answer last.
const UNANSWERED_PART: usize = 2;
/// Receivers that are remembered. Beyond them all are forgotten.
const RECEIVERS_MAX: usize = 100_000;

/// The turns, and which receivers answered last. A receiver is a URL to which jobs of a queue are delivered.
pub(super) struct Turns {
    all: Arc<Semaphore>,
    unanswered: Arc<Semaphore>,
    /// Hashes of receivers: two that have the same only share turns.
    answered: Mutex<HashSet<u64>>,
    hasher: RandomState,
    /// A receiver has answered that did not before.
    changed: Notify,
}

/// A turn, until it is dropped.
pub(in crate::deliver) struct Turn {
    _unanswered: Option<OwnedSemaphorePermit>,
    _turn: OwnedSemaphorePermit,
}

impl Turns {
    /// None yet.
    pub(super) fn none() -> Self {
        let [all, unanswered] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        Self { all, unanswered, answered: Mutex::default(), hasher: RandomState::new(), changed: Notify::new() }
    }

    /// Adds this many.
    pub(super) fn admit(&self, turns: usize) {
        self.all.add_permits(turns);
        self.unanswered.add_permits((turns / UNANSWERED_PART).max(1));
    }

    /// Waits for a turn, behind all who asked before.
    pub(super) async fn take(&self, queue: &str, url: &str) -> Turn {
        let unanswered = self.unanswered(queue, url).await;
        let turn = self.all.clone().acquire_owned().await.expect("it is never closed");
        Turn { _unanswered: unanswered, _turn: turn }
    }

    /// A share in the turns of receivers that did not answer last, unless this one did, or does so meanwhile.
    async fn unanswered(&self, queue: &str, url: &str) -> Option<OwnedSemaphorePermit> {
        let mut share = pin!(self.unanswered.clone().acquire_owned());
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.has_answered(queue, url) {
                return None;
            }
            tokio::select! {
                share = &mut share => return Some(share.expect("it is never closed")),
                () = changed => {}
            }
        }
    }

    /// Whether the receiver's last delivery was answered.
    pub(super) fn has_answered(&self, queue: &str, url: &str) -> bool {
        self.answered().contains(&self.hasher.hash_one((queue, url)))
    }

    /// A delivery was answered, or not.
    pub(super) fn ended(&self, queue: &str, url: &str, is_answered: bool) {
        let (receiver, mut answered) = (self.hasher.hash_one((queue, url)), self.answered());
        if !is_answered {
            answered.remove(&receiver);
        } else if !answered.contains(&receiver) {
            if answered.len() >= RECEIVERS_MAX {
                answered.clear();
            }
            answered.insert(receiver);
            self.changed.notify_waiters();
        }
    }

    fn answered(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn receivers_that_did_not_answer_share_a_part_of_the_turns() {
        let turns = Turns::none();
        turns.admit(5);
        let mut silent: Vec<_> = (0..2).map(|_| turns.take("silent", "u").now_or_never().unwrap()).collect();
        let (mut new, mut other) = (pin!(turns.take("new", "u")), pin!(turns.take("silent", "u")));
        assert!(new.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
        // One that has answered meanwhile waits no longer.
        turns.ended("new", "u", true);
        assert!(!turns.has_answered("silent", "u") && !turns.has_answered("new", "v"));
        let held = [new.await, turns.take("new", "u").await, turns.take("new", "u").await];
        assert!(turns.take("new", "u").now_or_never().is_none(), "there are no more turns");
        drop(held);
        silent.pop();
        other.await;
        turns.ended("new", "u", false);
        silent.push(turns.take("new", "u").now_or_never().unwrap());
        assert!(turns.take("new", "u").now_or_never().is_none());
    }
}
