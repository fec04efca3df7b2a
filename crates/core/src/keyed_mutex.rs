//! A mutex for each key: a caller waits until the one before it is done with the same key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

type Mutexes<K> = Mutex<HashMap<K, Arc<AsyncMutex<()>>>>;

/// One at a time for each key, first come, first served. A key takes room only while it is used.
#[derive(Debug)]
pub(crate) struct KeyedMutex<K: Eq + Hash> {
    mutexes: Arc<Mutexes<K>>,
}

impl<K: Eq + Hash> Default for KeyedMutex<K> {
    fn default() -> Self {
        Self { mutexes: Arc::default() }
    }
}

impl<K: Eq + Hash + Clone> KeyedMutex<K> {
    /// Waits for the mutex of this key, which is released when the answer is dropped.
    pub(crate) async fn lock(&self, key: K) -> KeyedGuard<K> {
        let mutex = mutexes(&self.mutexes).entry(key.clone()).or_default().clone();
        let mut guard = KeyedGuard { key, mutexes: self.mutexes.clone(), mutex: Some(mutex.clone()), held: None };
        guard.held = Some(mutex.lock_owned().await);
        guard
    }
}

/// The mutex of a key, held or waited for.
#[derive(Debug)]
pub(crate) struct KeyedGuard<K: Eq + Hash> {
    key: K,
    mutexes: Arc<Mutexes<K>>,
    mutex: Option<Arc<AsyncMutex<()>>>,
    held: Option<OwnedMutexGuard<()>>,
}

impl<K: Eq + Hash> Drop for KeyedGuard<K> {
    fn drop(&mut self) {
        let mut mutexes = mutexes(&self.mutexes);
        self.held = None;
        self.mutex = None;
        // Mutexes are cloned only under this lock, so nobody else uses one with a single reference.
        if mutexes.get(&self.key).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
            mutexes.remove(&self.key);
        }
    }
}

fn mutexes<K>(mutexes: &Mutexes<K>) -> MutexGuard<'_, HashMap<K, Arc<AsyncMutex<()>>>> {
    mutexes.lock().expect("no panic under this lock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_left() {
        let mutex = KeyedMutex::default();
        let first = mutex.lock("a").await;
        let other = mutex.lock("b").await;
        let mut second = Box::pin(mutex.lock("a"));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(pin!(mutex.lock("a")).poll(&mut context).is_pending(), "who gives up leaves nothing behind");
        drop(first);
        let second = second.await;
        assert_eq!(mutexes(&mutex.mutexes).len(), 2);
        drop((second, other));
        assert!(mutexes(&mutex.mutexes).is_empty());
    }
}
