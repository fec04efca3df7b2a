//! One budget of bytes for all bodies held at once, as received or decoded, and one for answers. A body takes only the
//! bytes that are buffered, not its announced length, so a slow sender costs little.

use crate::http::limits::{BODIES_BYTES_MAX, BODIES_WAIT_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Bytes that may be held.
#[derive(Debug)]
pub(crate) struct Budget {
    room: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// There was no room for so long that the body was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// The share of one body, released when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    permit: Option<OwnedSemaphorePermit>,
}

/// One that waits for room.
struct Waits<'a>(&'a AtomicUsize);

impl Budget {
    /// For this many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(bytes)), waiting: AtomicUsize::new(0) }
    }

    /// True if a request waits for room.
    pub(crate) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// A share of nothing yet.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { budget: self.clone(), permit: None }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(BODIES_BYTES_MAX)
    }
}

impl Share {
    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Takes this many more bytes. Those who have waited longest come first.
    ///
    /// # Errors
    /// [`Exhausted`] if others do not make room in time.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let room = self.budget.room.clone();
        let bytes = u32::try_from(bytes).map_err(|_| Exhausted)?;
        let permit = match room.clone().try_acquire_many_owned(bytes) {
            Ok(permit) => permit,
            Err(_) => {
                let _waits = Waits::new(&self.budget.waiting);
                let permit = timeout(BODIES_WAIT_MAX, room.acquire_many_owned(bytes)).await;
                permit.map_err(|_| Exhausted)?.map_err(|_| Exhausted)?
            }
        };
        match &mut self.permit {
            Some(held) => held.merge(permit),
            None => self.permit = Some(permit),
        }
        Ok(())
    }
}

impl Share {
    /// Takes more, or gives some back, so that it has so many.
    ///
    /// # Errors
    /// As [`grow`](Self::grow).
    pub(crate) async fn resize(&mut self, bytes: usize) -> Result<(), Exhausted> {
        match bytes.checked_sub(self.bytes()) {
            Some(more) => self.grow(more).await,
            None => {
                let rest = self.bytes() - bytes;
                drop(self.permit.as_mut().and_then(|permit| permit.split(rest)));
                Ok(())
            }
        }
    }
}

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test(start_paused = true)]
    async fn no_more_is_held_than_there_is() {
        let budget = Arc::new(Budget::new(100));
        let (mut one, mut other) = (budget.share(), budget.share());
        one.grow(60).await.unwrap();
        one.grow(20).await.unwrap();
        assert_eq!(one.bytes(), 80);
        other.grow(20).await.unwrap();
        assert!(!budget.is_short());
        let mut waits = Box::pin(other.grow(1));
        assert!((&mut waits).now_or_never().is_none() && budget.is_short());
        // Time passes.
        assert_eq!(waits.await, Err(Exhausted));
        assert!(!budget.is_short());
        drop(one);
        other.grow(80).await.unwrap();
        assert_eq!(other.bytes(), 100);
        other.resize(30).await.unwrap();
        let mut third = budget.share();
        third.resize(70).await.unwrap();
        assert_eq!((other.bytes(), third.bytes()), (30, 70));
    }
}
