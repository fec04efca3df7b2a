//! Locks: a name has one holder at a time, for a time to live that the holder renews.
//!
//! A holder keeps the lock by renewing it. If the holder stalls or loses its connection to the store, the lock expires at
//! the end of its time to live. A [token](Guard::lost) then notifies the holder. Every grant has a larger
//! [fence](Guard::fence) than the one before, so that the protected resource can reject an earlier holder.

mod attempt;
mod guard;
mod keeper;

pub use duetime_core::engine::{LockList, LockRequest};
pub use duetime_core::ports::{Grant, Holding, Released};
pub use guard::Guard;

use crate::client::Client;
use crate::error::{Error, ErrorKind};
use attempt::Attempt;
use duetime_core::Error as CoreError;
use duetime_core::limits::LOCK_TTL_MS_DEFAULT;
use keeper::RENEW_PART;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait of one call. A longer wait is split into several calls, which keep their place in line.
const CALL_WAIT_MAX: Duration = Duration::from_secs(20);

/// A lock. Acquire it with [`try_acquire`](Self::try_acquire) or [`acquire`](Self::acquire).
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # mod example {
/// # use std::time::Duration;
/// # #[tokio::main]
/// # pub async fn run() -> Result<(), duetime::Error> {
/// let client = duetime::Client::memory().await?;
/// let lock = client.locks().named("stock-42").ttl(Duration::from_secs(10));
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

    /// Sets the time to live: 100 ms to 24 h, 15 s by default. A guard renews the lock after every third of it. If the
    /// holder's process dies, the lock becomes free once the time to live has passed.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the owner, 1 to 255 bytes; by default every acquire generates a new one. A caller with the same owner gets the
    /// same lock with the same fence, so use a name that no other holder has.
    pub fn owner(mut self, owner: impl Into<Arc<str>>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Acquires the lock if it is free and nobody is waiting for it; otherwise returns `None`.
    ///
    /// # Errors
    /// If a limit is exceeded, or if the store cannot be reached.
    pub async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        match self.acquire(Duration::ZERO).await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if is_held(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the lock, waiting at most this long, first come, first served. If the returned future is dropped while it
    /// waits, nothing is held.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if the lock did not become free within the wait; if a limit is exceeded; if the
    /// store cannot be reached.
    pub async fn acquire(&self, wait: Duration) -> Result<Guard, Error> {
        let keeper = keeper::handle()?;
        let begin = Instant::now();
        let attempt = Attempt::new(&self.client, &keeper, self.owner.clone());
        loop {
            let left = wait.saturating_sub(begin.elapsed());
            let now = left.min(CALL_WAIT_MAX);
            let request = LockRequest::new(self.name.clone(), attempt.owner().clone());
            let request = request.ttl(self.ttl).wait(now).keep_place(left > now);
            let sent = Instant::now();
            let grant = match self.client.locks().acquire(request).await {
                Ok(grant) => grant,
                Err(error) if left > now && is_held(&error) => continue,
                Err(error) => return Err(attempt.failed(error)),
            };
            match self.since(grant, sent, attempt.owner()).await {
                Ok(sent) => {
                    let owner = attempt.claimed();
                    let held =
                        keeper::Acquired { name: self.name.clone(), owner, fence: grant.fence, ttl: self.ttl, sent };
                    return Ok(Guard::new(&self.client, &keeper, held));
                }
                Err(error) if !left.is_zero() && error.kind() == ErrorKind::Lost => {}
                Err(error) => return Err(attempt.failed(error)),
            }
        }
    }

    /// The earliest time at which the time to live may have started. After a wait this is unknown, so the lock is renewed.
    async fn since(&self, grant: Grant, sent: Instant, owner: &Arc<str>) -> Result<Instant, Error> {
        if sent.elapsed() < self.ttl / RENEW_PART {
            return Ok(sent);
        }
        let sent = Instant::now();
        self.client.locks().renew(&self.name, owner, grant.fence, self.ttl).await?;
        Ok(sent)
    }
}

/// Whether another owner holds the lock.
fn is_held(error: &Error) -> bool {
    matches!(error.core(), Some(CoreError::LockHeld { .. }))
}
