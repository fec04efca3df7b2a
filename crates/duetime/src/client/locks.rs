//! Locks between processes: acquiring them, and their holders.

use super::{Client, ask, forward};
use crate::error::Error;
use crate::lock::Lock;
use duetime_core::api::Span;
use duetime_core::engine::{LockList, LockRequest};
use duetime_core::ports::{Grant, Holding, Released};
use std::sync::Arc;
use std::time::Duration;

/// The locks: see [`Client::locks`].
#[derive(Clone, Copy, Debug)]
pub struct Locks<'c> {
    client: &'c Client,
}

impl Client {
    /// Acquires locks and shows who holds them. A lock has one holder at a time, across machines.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # mod example {
    /// # use duetime::Client;
    /// use std::time::Duration;
    ///
    /// # #[tokio::main]
    /// # pub async fn run() -> duetime::Result<()> {
    /// # let client = Client::memory().await?;
    /// let guard = client.locks().named("stock-42").acquire(Duration::from_secs(5)).await?;
    /// assert!(client.locks().holder("stock-42").await?.is_some());
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(feature = "embedded")]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    pub fn locks(&self) -> Locks<'_> {
        Locks { client: self }
    }
}

impl Locks<'_> {
    /// Returns the lock of this name, which is not acquired yet. Its name has 1 to 255 bytes.
    pub fn named(self, name: impl Into<Arc<str>>) -> Lock {
        Lock::new(self.client, name.into())
    }

    /// Returns the holder of a lock; `None` if it is free.
    ///
    /// # Errors
    /// If the name is malformed.
    pub async fn holder(self, name: &str) -> Result<Option<Holding>, Error> {
        ask!(self.client => inspect(&name))
    }

    /// Returns a page of 1 to 1000 held locks, by name. `cursor` comes from the page before.
    ///
    /// # Errors
    /// If a limit is exceeded.
    pub async fn list(self, cursor: Option<&str>, limit: usize) -> Result<LockList, Error> {
        ask!(self.client => list_locks(?cursor, limit))
    }

    /// Acquires a lock for an owner that outlives this process. Renew it with [`renew`](Self::renew), or let it
    /// expire. A [`named`](Self::named) lock is renewed and released automatically.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) if the lock is still held after the wait.
    pub async fn acquire(self, request: LockRequest) -> Result<Grant, Error> {
        forward!(self.client => acquire_lock(request))
    }

    /// Renews a lock for this time from now: 100 ms to 24 h.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) if the lock is no longer held under this fence.
    pub async fn renew(self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl: Duration) -> Result<Grant, Error> {
        let ttl = Span::from(ttl);
        ask!(self.client => renew(&name, &owner, fence, ttl))
    }

    /// Releases a lock.
    ///
    /// # Errors
    /// Same as [`renew`](Self::renew).
    pub async fn release(self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<(), Error> {
        ask!(self.client => release_lock(&name, &owner, fence))
    }

    /// Releases all locks of an owner. Returns how many, and how many the owner had lost within the last minute.
    ///
    /// # Errors
    /// If the owner is malformed.
    pub async fn release_all(self, owner: &str) -> Result<Released, Error> {
        ask!(self.client => release_all(&owner))
    }
}
