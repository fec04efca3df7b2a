//! Who waits for a lock in this process: a bell for each owner and lock, rung when that is the first in line.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// An owner, and the lock that it wants.
pub(in crate::engine) type Claim = (Arc<str>, Arc<str>);

/// All bells.
#[derive(Debug, Default)]
pub(in crate::engine) struct Bells {
    bells: Mutex<HashMap<Claim, Bell>>,
}

#[derive(Debug, Default)]
struct Bell {
    notify: Arc<Notify>,
    seats: usize,
}

impl Bells {
    /// It may be this owner's turn.
    pub(in crate::engine) fn ring(&self, name: &Arc<str>, owner: &Arc<str>) {
        if let Some(bell) = self.bells().get(&(owner.clone(), name.clone())) {
            bell.notify.notify_waiters();
        }
    }

    /// Waits for this lock.
    pub(super) fn sit(self: &Arc<Self>, claim: Claim) -> Seat {
        let mut bells = self.bells();
        let bell = bells.entry(claim.clone()).or_default();
        bell.seats += 1;
        Seat { bells: self.clone(), claim, notify: bell.notify.clone() }
    }

    fn bells(&self) -> MutexGuard<'_, HashMap<Claim, Bell>> {
        self.bells.lock().expect("no panic under this lock")
    }
}

/// Somebody who waits. The same owner may wait twice for a lock: where it repeats a request whose answer was lost.
pub(super) struct Seat {
    bells: Arc<Bells>,
    claim: Claim,
    notify: Arc<Notify>,
}

impl Seat {
    pub(super) fn claim(&self) -> (&Arc<str>, &Arc<str>) {
        (&self.claim.0, &self.claim.1)
    }

    /// Whether the same owner waits for the same lock elsewhere, too.
    pub(super) fn is_shared(&self) -> bool {
        self.bells.bells().get(&self.claim).is_some_and(|bell| bell.seats > 1)
    }

    /// Hears any ring from now on.
    pub(super) fn listen(&self) -> Pin<Box<OwnedNotified>> {
        let mut heard = Box::pin(self.notify.clone().notified_owned());
        heard.as_mut().enable();
        heard
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut bells = self.bells.bells();
        if let Some(bell) = bells.get_mut(&self.claim) {
            bell.seats -= 1;
            if bell.seats == 0 {
                bells.remove(&self.claim);
            }
        }
    }
}
