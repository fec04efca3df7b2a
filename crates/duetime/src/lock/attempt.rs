//! An attempt to acquire a lock. A failed or abandoned attempt leaves no lock behind.

use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::request_id;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::sleep;
use tracing::debug;

/// Pauses before each try to release a lock that was granted to nobody. The cancelled request may still be in flight, and
/// may be carried out after the first release.
const PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(2)];

/// An attempt in progress. If it is dropped before it ends, whatever was granted is released, even if the answer was lost.
/// This applies only to a generated owner: a named owner may hold other locks.
pub(super) struct Attempt {
    client: Client,
    keeper: Handle,
    owner: Arc<str>,
    is_open: bool,
}

impl Attempt {
    pub(super) fn new(client: &Client, keeper: &Handle, owner: Option<Arc<str>>) -> Self {
        let is_open = owner.is_none();
        let owner = owner.unwrap_or_else(request_id::next);
        Self { client: client.clone(), keeper: keeper.clone(), owner, is_open }
    }

    pub(super) fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// Ends the attempt successfully; the caller now manages the lock.
    pub(super) fn claimed(mut self) -> Arc<str> {
        self.is_open = false;
        self.owner.clone()
    }

    /// Ends the attempt with an error.
    pub(super) fn failed(mut self, error: Error) -> Error {
        self.is_open &= error.kind() == ErrorKind::OutcomeUnknown;
        error
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let (client, owner) = (self.client.for_keeper(), self.owner.clone());
        self.keeper.spawn(async move {
            for pause in PAUSES {
                sleep(pause).await;
                match client.locks().release_all(&owner).await {
                    Ok(done) if done.released > 0 => return,
                    Ok(_) => {}
                    Err(error) => {
                        debug!(%error, "a lock whose caller has stopped waiting may stay held until it expires");
                    }
                }
            }
        });
    }
}
