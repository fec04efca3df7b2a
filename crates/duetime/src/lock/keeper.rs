//! The keeper: renews the locks that this process holds, on its own thread.
//!
//! The thread starts with the first lock and runs until the process ends. Work for one lock never waits for another.

use crate::client::Client;
use crate::error::{Error, ErrorKind};
use duetime_core::Error as CoreError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Assumed clock drift between two machines: one percent,
const DRIFT_PART: u32 = 100;
/// plus the rounding to milliseconds.
const DRIFT_LEAST: Duration = Duration::from_millis(2);
/// A lock is renewed after this fraction of its time to live.
pub(super) const RENEW_PART: u32 = 3;
/// An unanswered renewal is retried after this fraction of the time to live.
const RETRY_PART: u32 = 12;

/// An acquired lock.
pub(super) struct Acquired {
    pub(super) name: Arc<str>,
    pub(super) owner: Arc<str>,
    pub(super) fence: u64,
    pub(super) ttl: Duration,
    /// Taken just before the acquire was sent.
    pub(super) sent: Instant,
}

/// The runtime of the keeper's thread.
pub(super) fn handle() -> Result<Handle, Error> {
    static KEEPER: Mutex<Option<Handle>> = Mutex::new(None);
    let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*keeper {
        return Ok(handle.clone());
    }
    let no_thread = |error| CoreError::Unavailable(format!("cannot start a thread to renew locks: {error}"));
    let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    let handle = runtime.handle().clone();
    let work = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("duetime-locks".to_owned()).spawn(work).map_err(no_thread)?;
    Ok(keeper.insert(handle).clone())
}

/// Renews a lock until its guard is gone or the lock may be lost, then releases it.
pub(super) async fn keep(
    client: Client,
    held: Acquired,
    lost: CancellationToken,
    mut stopped: oneshot::Receiver<oneshot::Sender<Result<(), Error>>>,
) {
    let told = tokio::select! {
        told = &mut stopped => told,
        () = renew(&client, &held) => {
            lost.cancel();
            warn!(lock = %held.name, fence = held.fence, "a lock may be lost: it could not be renewed in time");
            stopped.await
        }
    };
    // Also if the lock may be lost, so that others need not wait until it expires.
    let released = client.locks().release(&held.name, &held.owner, held.fence).await;
    if let Err(error) = &released {
        debug!(lock = %held.name, %error, "a lock could not be released; it expires");
    }
    if let Ok(told) = told {
        // The caller may be gone.
        let _ = told.send(released);
    }
}

/// Completes when the lock may be lost.
async fn renew(client: &Client, held: &Acquired) {
    let ttl = held.ttl;
    let certain = ttl.saturating_sub(ttl / DRIFT_PART + DRIFT_LEAST);
    let mut end = held.sent + certain;
    let mut next = held.sent + ttl / RENEW_PART;
    loop {
        sleep_until(next.min(end).into()).await;
        let sent = Instant::now();
        if sent >= end {
            return;
        }
        let renewal = client.locks().renew(&held.name, &held.owner, held.fence, ttl);
        match timeout_at(end.into(), renewal).await {
            Ok(Ok(_)) => (end, next) = (sent + certain, sent + ttl / RENEW_PART),
            Err(_) => return,
            Ok(Err(error)) if error.kind() == ErrorKind::Lost => return,
            Ok(Err(error)) => {
                debug!(lock = %held.name, %error, "a lock could not be renewed yet; trying again");
                next = Instant::now() + ttl / RETRY_PART;
            }
        }
    }
}
