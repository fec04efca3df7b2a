//! The callers in this process that wait for a lock: one waiter for each owner and lock, woken when it is first in line.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// An owner, and the lock that it wants.
pub(in crate::engine) type Claim = (Arc<str>, Arc<str>);

/// All waiters.
#[derive(Debug, Default)]
pub(in crate::engine) struct Waiters {
    waiters: Mutex<HashMap<Claim, Waiter>>,
}

#[derive(Debug, Default)]
struct Waiter {
    notify: Arc<Notify>,
    count: usize,
}

impl Waiters {
    /// It may be this owner's turn.
    pub(in crate::engine) fn wake(&self, name: &Arc<str>, owner: &Arc<str>) {
        if let Some(waiter) = self.waiters().get(&(owner.clone(), name.clone())) {
            waiter.notify.notify_waiters();
        }
    }

    /// Waits for this lock.
    pub(super) fn register(self: &Arc<Self>, claim: Claim) -> LockWait {
        let mut waiters = self.waiters();
        let waiter = waiters.entry(claim.clone()).or_default();
        waiter.count += 1;
        LockWait { waiters: self.clone(), claim, notify: waiter.notify.clone() }
    }

    fn waiters(&self) -> MutexGuard<'_, HashMap<Claim, Waiter>> {
        self.waiters.lock().expect("no panic under this lock")
    }
}

/// Somebody who waits. The same owner may wait twice for a lock: where it repeats a request whose answer was lost.
pub(super) struct LockWait {
    waiters: Arc<Waiters>,
    claim: Claim,
    notify: Arc<Notify>,
}

impl LockWait {
    pub(super) fn claim(&self) -> (&Arc<str>, &Arc<str>) {
        (&self.claim.0, &self.claim.1)
    }

    /// Whether the same owner waits for the same lock elsewhere, too.
    pub(super) fn is_shared(&self) -> bool {
        self.waiters.waiters().get(&self.claim).is_some_and(|waiter| waiter.count > 1)
    }

    /// Is told of each wake-up from now on.
    pub(super) fn listen(&self) -> Pin<Box<OwnedNotified>> {
        let mut heard = Box::pin(self.notify.clone().notified_owned());
        heard.as_mut().enable();
        heard
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        let mut waiters = self.waiters.waiters();
        if let Some(waiter) = waiters.get_mut(&self.claim) {
            waiter.count -= 1;
            if waiter.count == 0 {
                waiters.remove(&self.claim);
            }
        }
    }
}
