//! Turns: whoever does something with a thing waits until the one before is done.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

type Places<K> = Mutex<HashMap<K, Arc<AsyncMutex<()>>>>;

/// One at a time for each key, first come, first served. A key takes room only while it is used.
#[derive(Debug)]
pub(crate) struct Turns<K: Eq + Hash> {
    places: Arc<Places<K>>,
}

impl<K: Eq + Hash> Default for Turns<K> {
    fn default() -> Self {
        Self { places: Arc::default() }
    }
}

impl<K: Eq + Hash + Clone> Turns<K> {
    /// Waits for the turn with this key, which ends when the answer is dropped.
    pub(crate) async fn take(&self, key: K) -> Turn<K> {
        let place = places(&self.places).entry(key.clone()).or_default().clone();
        let mut turn = Turn { key, places: self.places.clone(), place: Some(place.clone()), held: None };
        turn.held = Some(place.lock_owned().await);
        turn
    }
}

/// A turn, or the wait for one.
#[derive(Debug)]
pub(crate) struct Turn<K: Eq + Hash> {
    key: K,
    places: Arc<Places<K>>,
    place: Option<Arc<AsyncMutex<()>>>,
    held: Option<OwnedMutexGuard<()>>,
}

impl<K: Eq + Hash> Drop for Turn<K> {
    fn drop(&mut self) {
        let mut places = places(&self.places);
        self.held = None;
        self.place = None;
        // Places are shared under this lock only, so one that nobody else has is nobody's.
        if places.get(&self.key).is_some_and(|place| Arc::strong_count(place) == 1) {
            places.remove(&self.key);
        }
    }
}

fn places<K>(places: &Places<K>) -> MutexGuard<'_, HashMap<K, Arc<AsyncMutex<()>>>> {
    places.lock().expect("no panic under this lock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_left() {
        let turns = Turns::default();
        let first = turns.take("a").await;
        let other = turns.take("b").await;
        let mut second = Box::pin(turns.take("a"));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(pin!(turns.take("a")).poll(&mut context).is_pending(), "who gives up leaves nothing behind");
        drop(first);
        let second = second.await;
        assert_eq!(places(&turns.places).len(), 2);
        drop((second, other));
        assert!(places(&turns.places).is_empty());
    }
}
