//! Locks: who holds them, and all of an owner. [`Lock`] acquires them.

use super::{Client, ask, forward};
use crate::error::Error;
use crate::lock::Lock;
use duetime_core::engine::{LockList, LockRequest};
use duetime_core::ports::{Grant, Holding, Released};
use std::sync::Arc;

impl Client {
    /// A lock, not acquired yet. Its name has 1 to 255 bytes.
    pub fn lock(&self, name: impl Into<Arc<str>>) -> Lock {
        Lock::new(self, name.into())
    }

    /// Shows who holds a lock; `None` if it is free.
    ///
    /// # Errors
    /// Where the name is malformed.
    pub async fn inspect_lock(&self, name: &str) -> Result<Option<Holding>, Error> {
        ask!(self.inspect(&name))
    }

    /// A page of the locks that are held, by name, 1 to 1000 of them; `cursor` is what the page before answered.
    ///
    /// # Errors
    /// Beyond a limit.
    pub async fn locks(&self, cursor: Option<&str>, limit: usize) -> Result<LockList, Error> {
        ask!(self.list_locks(?cursor, limit))
    }

    /// Releases all locks of an owner; answers how many, and how many it had lost within the last minute.
    ///
    /// # Errors
    /// Where the owner is malformed.
    pub async fn release_all(&self, owner: &str) -> Result<Released, Error> {
        ask!(self.release_all(&owner))
    }

    /// Acquires a lock for an owner that outlives this process. Renew it with [`renew_lock`](Self::renew_lock), or let it
    /// expire. [`lock`](Self::lock) renews and releases by itself.
    ///
    /// # Errors
    /// [`LockHeld`](duetime_core::Error::LockHeld) where it is held, also after the wait.
    pub async fn acquire_lock(&self, request: LockRequest) -> Result<Grant, Error> {
        forward!(self.acquire_lock(request))
    }

    /// Renews a lock for this many milliseconds from now.
    ///
    /// # Errors
    /// [`LockLost`](duetime_core::Error::LockLost) where it is no longer held under this fence.
    pub async fn renew_lock(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl_ms: u64) -> Result<Grant, Error> {
        ask!(self.renew(&name, &owner, fence, ttl_ms))
    }

    /// Releases a lock.
    ///
    /// # Errors
    /// As [`renew_lock`](Self::renew_lock).
    pub async fn release_lock(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<(), Error> {
        ask!(self.release_lock(&name, &owner, fence))
    }
}
