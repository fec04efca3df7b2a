//! A lock that is held.

use super::keeper::{self, Acquired};
use crate::client::Client;
use crate::error::Error;
use duetime_core::Error as CoreError;
use std::fmt;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// A lock that is held. It is renewed every third of its time to live on the library's own thread, so it stays held even if
/// the caller blocks. It is released when the guard is dropped.
///
/// Dropping does not wait for the release. A program that is about to exit should call [`release`](Self::release).
#[must_use = "the lock is released when its guard is dropped"]
pub struct Guard {
    client: Client,
    name: Arc<str>,
    owner: Arc<str>,
    fence: u64,
    lost: CancellationToken,
    /// Ends the renewals, and wants to hear of the release. Dropped, it ends them too.
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

    /// The fence of this grant, which grows with every grant. A store that sees a smaller fence than before can reject it:
    /// its sender has lost the lock.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Asks the store whether it is still held under this fence.
    ///
    /// # Errors
    /// Where the store cannot be reached.
    pub async fn is_held(&self) -> Result<bool, Error> {
        let holding = self.client.inspect_lock(&self.name).await?;
        Ok(holding.is_some_and(|held| held.owner == self.owner && held.grant.fence == self.fence))
    }

    /// Cancelled as soon as the lock may be lost: when the store says so, or when the time to live has passed since the
    /// last acknowledged renewal was *sent*. The latter is one percent earlier than the store counts it, to allow for
    /// differing clocks.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Releases it, and waits until that is done.
    ///
    /// # Errors
    /// [`LockLost`](CoreError::LockLost) where it had been lost before; where the store cannot be reached.
    pub async fn release(self) -> Result<(), Error> {
        let (told, heard) = oneshot::channel();
        // It listens until the notice comes, and then answers.
        let _ = self.stop.send(told);
        heard.await.unwrap_or(Err(Error::Core(CoreError::Stopping)))
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut guard = f.debug_struct("Guard");
        guard.field("name", &self.name).field("owner", &self.owner).field("fence", &self.fence);
        guard.field("is_lost", &self.lost.is_cancelled()).finish_non_exhaustive()
    }
}
