//! The locks of a broker that several engines share.

use crate::error::Error;
use crate::memory;
use crate::ports::{Acquire, Acquired, Grant, Holding, LockList, Locks, Registry, Released, TurnWake};
use crate::testing::skewed::Skewed;
use crate::testing::{ModelLedger, Shared};
use async_trait::async_trait;
use std::sync::Arc;

/// Locks whose fences are above this.
pub(super) async fn locks_from(clock: Arc<Skewed>, fence: u64) -> Result<Arc<memory::Locks>, Error> {
    let record = ModelLedger::default();
    record.put_if("lock_fence", "bound", &fence.to_string(), 0).await?;
    let locks = memory::Locks::new(clock, Arc::new(record));
    locks.start(Arc::new(|_, _| {})).await?;
    Ok(Arc::new(locks))
}

#[async_trait]
impl Locks for Shared {
    async fn start(&self, _: TurnWake) -> Result<(), Error> {
        Ok(())
    }

    async fn acquire(&self, acquire: Acquire) -> Result<Acquired, Error> {
        self.call_locks(|locks| async move {
            let name = acquire.name.clone();
            let acquired = locks.acquire(acquire).await?;
            if let (Acquired::Granted { grant, is_new: true }, Some(tell)) = (&acquired, self.on_grant.get()) {
                tell(&name, grant.fence);
            }
            Ok(acquired)
        })
        .await
    }

    async fn abandon(&self, name: &Arc<str>, owner: &Arc<str>) -> Result<(), Error> {
        self.call_locks(|locks| async move { locks.abandon(name, owner).await }).await
    }

    async fn renew(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl_ms: u64) -> Result<Option<Grant>, Error> {
        self.call_locks(|locks| async move { locks.renew(name, owner, fence, ttl_ms).await }).await
    }

    async fn release(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<bool, Error> {
        self.call_locks(|locks| async move { locks.release(name, owner, fence).await }).await
    }

    async fn release_all(&self, owner: &Arc<str>) -> Result<Released, Error> {
        self.call_locks(|locks| async move { locks.release_all(owner).await }).await
    }

    async fn inspect(&self, name: &Arc<str>) -> Result<Option<Holding>, Error> {
        self.call_locks(|locks| async move { locks.inspect(name).await }).await
    }

    async fn list(&self, after: Option<&Arc<str>>, limit: usize) -> Result<LockList, Error> {
        self.call_locks(|locks| async move { locks.list(after, limit).await }).await
    }

    async fn sweep(&self) -> Result<(), Error> {
        self.call_locks(|locks| async move { locks.sweep().await }).await
    }
}
