//! Locks: their holders, and all locks of an owner. [`Lock`] acquires them.

use super::{Client, ask, forward};
use crate::error::Error;
use crate::lock::Lock;
use duetime_core::engine::{LockList, LockRequest};
use duetime_core::ports::{Grant, Holding, Released};
use std::sync::Arc;

impl Client {
    /// Returns a lock that is not acquired yet. Its name has 1 to 255 bytes.
    pub fn lock(&self, name: impl Into<Arc<str>>) -> Lock {
        Lock::new(self, name.into())
    }

    /// Returns the holder of a lock; `None` if it is free.
    ///
    /// # Errors
    /// If the name is malformed.
    pub async fn inspect_lock(&self, name: &str) -> Result<Option<Holding>, Error> {
        ask!(self.inspect(&name))
    }

    /// Returns a page of 1 to 1000 held locks, by name. `cursor` comes from the page before.
    ///
    /// # Errors
    /// If a limit is exceeded.
    pub async fn locks(&self, cursor: Option<&str>, limit: usize) -> Result<LockList, Error> {
        ask!(self.list_locks(?cursor, limit))
    }

    /// Releases all locks of an owner. Returns how many, and how many the owner had lost within the last minute.
    ///
    /// # Errors
    /// If the owner is malformed.
    pub async fn release_all(&self, owner: &str) -> Result<Released, Error> {
        ask!(self.release_all(&owner))
    }

    /// Acquires a lock for an owner that outlives this process. Renew it with [`renew_lock`](Self::renew_lock), or let it
    /// expire. [`lock`](Self::lock) renews and releases automatically.
    ///
    /// # Errors
    /// [`LockHeld`](duetime_core::Error::LockHeld) if the lock is still held after the wait.
    pub async fn acquire_lock(&self, request: LockRequest) -> Result<Grant, Error> {
        forward!(self.acquire_lock(request))
    }

    /// Renews a lock for this many milliseconds from now.
    ///
    /// # Errors
    /// [`LockLost`](duetime_core::Error::LockLost) if the lock is no longer held under this fence.
    pub async fn renew_lock(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl_ms: u64) -> Result<Grant, Error> {
        ask!(self.renew(&name, &owner, fence, ttl_ms))
    }

    /// Releases a lock.
    ///
    /// # Errors
    /// Same as [`renew_lock`](Self::renew_lock).
    pub async fn release_lock(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<(), Error> {
        ask!(self.release_lock(&name, &owner, fence))
    }
}
