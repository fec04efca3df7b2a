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

/// A lock that is held. It is renewed every third of its time to live, on a thread of the library's own, so that a
/// caller that blocks its thread keeps it; and released when the guard is dropped.
///
/// A drop does not wait for the release: [`release`](Self::release) does, and so should a program that is about to end.
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

    /// For whom it is held.
    pub fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// Grows with every grant: whoever is handed a smaller one than before talks to somebody who has lost the lock.
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

    /// Is cancelled as soon as the lock may be lost: when the store says so, and at the latest when the time to live has
    /// passed since the last renewal that was answered was *sent*, whether or not the store can be reached. That is a
    /// hundredth earlier than the store counts it, for clocks that do not run alike.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Releases it, and waits until that is done.
    ///
    /// # Errors
    /// [`LockLost`](CoreError::LockLost) where it had been lost before; where the store cannot be reached.
    pub async fn release(self) -> Result<(), Error> {
        let (told, heard) = oneshot::channel();
        // It listens until it is told, and then answers.
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
