//! Locks: one of many holds a name, for a time that it renews.
//!
//! A holder keeps the lock by renewing it. If the holder stalls or loses its connection to the store, the lock expires at
//! the end of its time to live. The holder learns of that through a [token](Guard::lost). Every grant has a
//! [fence](Guard::fence) that only grows, so that what the lock protects can reject an earlier holder.

mod attempt;
mod guard;
mod keeper;

pub use guard::Guard;

use crate::client::Client;
use crate::error::Error;
use crate::push::millis_up;
use attempt::Attempt;
use duetime_core::Error as CoreError;
use duetime_core::engine::LockRequest;
use duetime_core::limits::LOCK_TTL_MS_DEFAULT;
use duetime_core::ports::Grant;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait of one call; a longer one is made of several, which keep the place in line.
const CALL_WAIT_MAX: Duration = Duration::from_secs(20);
/// A lock is renewed when this part of its time to live is over.
const RENEW_PART: u32 = 3;

/// A lock, to be acquired with [`try_acquire`](Self::try_acquire) or [`acquire`](Self::acquire).
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # mod example {
/// # use std::time::Duration;
/// # #[tokio::main]
/// # pub async fn run() -> Result<(), duetime::Error> {
/// let client = duetime::Client::memory().await?;
/// let lock = client.lock("stock-42").ttl(Duration::from_secs(10));
/// if let Some(guard) = lock.try_acquire().await? {
///     assert!(lock.try_acquire().await?.is_none());
///     tokio::select! {
///         () = async { /* what nobody else may do now */ } => {}
///         () = guard.lost().cancelled() => eprintln!("lost"),
///     }
///     guard.release().await?;
/// }
/// # Ok(())
/// # }
/// # }
/// # #[cfg(feature = "embedded")]
/// # example::run()?;
/// # Ok::<(), duetime::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock is not acquired yet"]
pub struct Lock {
    client: Client,
    name: Arc<str>,
    owner: Option<Arc<str>>,
    ttl: Duration,
}

impl Lock {
    pub(crate) fn new(client: &Client, name: Arc<str>) -> Self {
        Self { client: client.clone(), name, owner: None, ttl: Duration::from_millis(LOCK_TTL_MS_DEFAULT) }
    }

    /// The time to live: 100 ms to 24 h, 15 s by default. A guard renews the lock every third of it. If its process dies,
    /// the lock becomes free after it.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The owner, 1 to 255 bytes; by default a new one with every acquire. A caller with the same owner gets the same lock
    /// with the same fence, so use a name that no other holder has.
    pub fn owner(mut self, owner: impl Into<Arc<str>>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Acquires the lock if it is free and nobody waits for it; otherwise returns `None`.
    ///
    /// # Errors
    /// Beyond a limit, or where the store cannot be reached.
    pub async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        match self.acquire(Duration::ZERO).await {
            Ok(guard) => Ok(Some(guard)),
            Err(Error::Core(CoreError::LockHeld { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the lock, waiting for up to this long, first come, first served. If the caller is dropped while it waits,
    /// nothing is held.
    ///
    /// # Errors
    /// [`LockHeld`](CoreError::LockHeld) where it could not be had within the wait; beyond a limit; where the store
    /// cannot be reached.
    pub async fn acquire(&self, wait: Duration) -> Result<Guard, Error> {
        let keeper = keeper::handle()?;
        let begin = Instant::now();
        let attempt = Attempt::new(&self.client, &keeper, self.owner.clone());
        loop {
            let left = wait.saturating_sub(begin.elapsed());
            let now = left.min(CALL_WAIT_MAX);
            let request = LockRequest {
                name: self.name.clone(),
                owner: attempt.owner().clone(),
                ttl_ms: millis_up(self.ttl),
                wait_ms: millis_up(now),
                keep_place: left > now,
            };
            let sent = Instant::now();
            let grant = match self.client.acquire_lock(request).await {
                Ok(grant) => grant,
                Err(Error::Core(CoreError::LockHeld { .. })) if left > now => continue,
                Err(error) => return Err(attempt.failed(error)),
            };
            match self.since(grant, sent, attempt.owner()).await {
                Ok(sent) => {
                    let owner = attempt.claimed();
                    let held =
                        keeper::Acquired { name: self.name.clone(), owner, fence: grant.fence, ttl: self.ttl, sent };
                    return Ok(Guard::new(&self.client, &keeper, held));
                }
                Err(Error::Core(CoreError::LockLost { .. })) if !left.is_zero() => {}
                Err(error) => return Err(attempt.failed(error)),
            }
        }
    }

    /// Since when the time to live counts, at the earliest. After a wait that is not known, so the lock is renewed.
    async fn since(&self, grant: Grant, sent: Instant, owner: &Arc<str>) -> Result<Instant, Error> {
        if sent.elapsed() < self.ttl / RENEW_PART {
            return Ok(sent);
        }
        let sent = Instant::now();
        self.client.renew_lock(&self.name, owner, grant.fence, millis_up(self.ttl)).await?;
        Ok(sent)
    }
}
