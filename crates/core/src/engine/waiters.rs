//! The waiting callers of this process, by key: reserves by queue, and locks by owner and lock.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// All waiting callers, in order of their keys, so that a seed always wakes the same one first.
#[derive(Debug)]
pub(super) struct Waiters<K: Ord>(Mutex<BTreeMap<K, Waiter>>);

/// The callers with one key.
#[derive(Debug, Default)]
struct Waiter {
    notify: Arc<Notify>,
    count: usize,
}

impl<K: Ord> Default for Waiters<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord> Waiters<K> {
    fn by_key(&self) -> MutexGuard<'_, BTreeMap<K, Waiter>> {
        self.0.lock().expect("no panic under this lock")
    }

    /// The number of waiters with this key.
    pub(super) fn count<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.by_key().get(key).map_or(0, |waiter| waiter.count)
    }

    /// Wakes the caller that has waited longest with this key.
    pub(super) fn wake_first(&self, key: &K) {
        if let Some(waiter) = self.by_key().get(key) {
            waiter.notify.notify_one();
        }
    }

    /// The same for each key.
    pub(super) fn wake_first_of_each(&self) {
        self.by_key().values().for_each(|waiter| waiter.notify.notify_one());
    }

    /// Wakes all callers with this key.
    pub(super) fn wake_all(&self, key: &K) {
        if let Some(waiter) = self.by_key().get(key) {
            waiter.notify.notify_waiters();
        }
    }
}

impl<K: Ord + Clone> Waiters<K> {
    /// Begins to wait with these keys.
    pub(super) fn register(self: &Arc<Self>, keys: Vec<K>) -> Registration<K> {
        let mut by_key = self.by_key();
        let notifies = keys.iter().map(|key| {
            let waiter = by_key.entry(key.clone()).or_default();
            waiter.count += 1;
            waiter.notify.clone()
        });
        Registration { notifies: notifies.collect(), waiters: self.clone(), keys }
    }
}

/// A place among the waiting callers.
pub(super) struct Registration<K: Ord> {
    notifies: Vec<Arc<Notify>>,
    waiters: Arc<Waiters<K>>,
    keys: Vec<K>,
}

impl<K: Ord> Registration<K> {
    /// Whether another caller waits with one of the same keys.
    pub(super) fn is_shared(&self) -> bool {
        self.keys.iter().any(|key| self.waiters.count(key) > 1)
    }

    /// The next wake from now on.
    pub(super) fn woken(&self) -> Woken {
        let notified = self.notifies.iter().map(|notify| {
            let mut notified = Box::pin(notify.clone().notified_owned());
            notified.as_mut().enable();
            notified
        });
        Woken(notified.collect())
    }
}

impl<K: Ord> Drop for Registration<K> {
    fn drop(&mut self) {
        let mut by_key = self.waiters.by_key();
        for key in &self.keys {
            if let Some(waiter) = by_key.get_mut(key) {
                waiter.count -= 1;
                if waiter.count == 0 {
                    by_key.remove(key);
                }
            }
        }
    }
}

/// The next wake with any of some keys.
pub(super) struct Woken(Vec<Pin<Box<OwnedNotified>>>);

impl Woken {
    pub(super) async fn wait(mut self) {
        poll_fn(|context| {
            let any = self.0.iter_mut().any(|notified| notified.as_mut().poll(context).is_ready());
            if any { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn is_woken(woken: Woken) -> bool {
        tokio::time::timeout(Duration::ZERO, woken.wait()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_has_waited_longest_is_woken_and_a_wake_that_it_does_not_see_goes_on() {
        let waiters = Arc::new(Waiters::default());
        let (first, second) = (waiters.register(vec!["a"]), waiters.register(vec!["b", "a"]));
        let (woken, next) = (first.woken(), second.woken());
        waiters.wake_first(&"a");
        assert!(is_woken(woken).await && !is_woken(next).await);
        let (woken, next) = (first.woken(), second.woken());
        waiters.wake_first(&"a");
        drop((woken, first));
        assert!(is_woken(next).await);
        let woken = second.woken();
        waiters.wake_first(&"b");
        assert!(is_woken(woken).await, "with any of its keys");
    }

    #[tokio::test(start_paused = true)]
    async fn all_with_a_key_are_woken_and_those_that_left_do_not_count() {
        let waiters = Arc::new(Waiters::default());
        let (first, second) = (waiters.register(vec!["a"]), waiters.register(vec!["a"]));
        assert!(waiters.count("a") == 2 && first.is_shared());
        let both = (first.woken(), second.woken());
        waiters.wake_all(&"a");
        assert!(is_woken(both.0).await && is_woken(both.1).await);
        drop(second);
        assert!(waiters.count("a") == 1 && !first.is_shared());
        drop(first);
        assert!(waiters.by_key().is_empty());
    }
}
