//! A held lock.

use super::keeper::{self, Acquired};
use crate::client::Client;
use crate::error::Error;
use duetime_core::Error as CoreError;
use std::fmt;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// A held lock. The library renews it on its own thread after every third of its time to live, so it stays held even if the
/// caller blocks. It is released when the guard is dropped.
///
/// Dropping does not wait for the release. A program that is about to exit should call [`release`](Self::release).
#[must_use = "the lock is released when its guard is dropped"]
pub struct Guard {
    client: Client,
    name: Arc<str>,
    owner: Arc<str>,
    fence: u64,
    lost: CancellationToken,
    /// Ends the renewals and asks for the result of the release. Dropping it ends them too.
    stop: oneshot::Sender<oneshot::Sender<Result<(), Error>>>,
}

impl Guard {
    pub(super) fn new(client: &Client, keeper: &Handle, held: Acquired) -> Self {
        let (stop, stopped) = oneshot::channel();
        let lost = CancellationToken::new();
        let (name, owner, fence) = (held.name.clone(), held.owner.clone(), held.fence);
        keeper.spawn(keeper::keep(client.for_keeper(), held, lost.clone(), stopped));
        Self { client: client.clone(), name, owner, fence, lost, stop }
    }

    /// The lock's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The owner of the lock.
    pub fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// The fence of this grant, which grows with every grant. A store that receives a smaller fence than before can reject
    /// the request, because its sender has lost the lock.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Asks the store whether the lock is still held under this fence.
    ///
    /// # Errors
    /// If the store cannot be reached.
    pub async fn is_held(&self) -> Result<bool, Error> {
        let holding = self.client.locks().holder(&self.name).await?;
        Ok(holding.is_some_and(|held| held.owner == self.owner && held.grant.fence == self.fence))
    }

    /// Cancelled as soon as the lock may be lost: the store reports it, or the time to live has passed since the last
    /// acknowledged renewal was *sent*. The latter happens one percent before the store's own deadline, to allow for clock
    /// drift.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Releases the lock and waits for the answer.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) if the lock was already lost; if the store cannot be reached.
    pub async fn release(self) -> Result<(), Error> {
        let (told, heard) = oneshot::channel();
        // The keeper always receives this, and then answers.
        let _ = self.stop.send(told);
        heard.await.unwrap_or(Err(CoreError::Stopping.into()))
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut guard = f.debug_struct("Guard");
        guard.field("name", &self.name).field("owner", &self.owner).field("fence", &self.fence);
        guard.field("is_lost", &self.lost.is_cancelled()).finish_non_exhaustive()
    }
}
