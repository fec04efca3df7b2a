//! Registry and locks.

use super::Life;
use crate::error::Error;
use crate::ports::{Acquire, Acquired, Document, Grant, Holding, LockList, Locks, PutIf, Registry, Released, TurnWake};
use async_trait::async_trait;
use std::sync::Arc;

/// A registry.
pub struct MortalRegistry {
    /// The registry.
    pub registry: Arc<dyn Registry>,
    /// The process that calls it.
    pub life: Arc<Life>,
}

#[async_trait]
impl Registry for MortalRegistry {
    async fn document(&self, kind: &str, name: &str) -> Result<Option<Document>, Error> {
        self.life.around("document", self.registry.document(kind, name)).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error> {
        self.life.around("documents", self.registry.documents(kind)).await
    }

    async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
        self.life.around("put_if", self.registry.put_if(kind, name, body, version)).await
    }

    async fn remove(&self, kind: &str, name: &str, version: Option<u64>) -> Result<bool, Error> {
        self.life.around("remove", self.registry.remove(kind, name, version)).await
    }
}

/// Locks.
pub struct MortalLocks {
    /// The locks.
    pub locks: Arc<dyn Locks>,
    /// The process that calls them.
    pub life: Arc<Life>,
}

#[async_trait]
impl Locks for MortalLocks {
    async fn start(&self, wake: TurnWake) -> Result<(), Error> {
        self.life.around("start", self.locks.start(wake)).await
    }

    async fn acquire(&self, acquire: Acquire) -> Result<Acquired, Error> {
        self.life.around("acquire", self.locks.acquire(acquire)).await
    }

    async fn abandon(&self, name: &Arc<str>, owner: &Arc<str>) -> Result<(), Error> {
        self.life.around("abandon", self.locks.abandon(name, owner)).await
    }

    async fn renew(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl_ms: u64) -> Result<Option<Grant>, Error> {
        self.life.around("renew", self.locks.renew(name, owner, fence, ttl_ms)).await
    }

    async fn release(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<bool, Error> {
        self.life.around("release", self.locks.release(name, owner, fence)).await
    }

    async fn release_all(&self, owner: &Arc<str>) -> Result<Released, Error> {
        self.life.around("release_all", self.locks.release_all(owner)).await
    }

    async fn inspect(&self, name: &Arc<str>) -> Result<Option<Holding>, Error> {
        self.life.around("inspect", self.locks.inspect(name)).await
    }

    async fn list(&self, after: Option<&Arc<str>>, limit: usize) -> Result<LockList, Error> {
        self.life.around("list_locks", self.locks.list(after, limit)).await
    }

    async fn sweep(&self) -> Result<(), Error> {
        self.life.around("sweep", self.locks.sweep()).await
    }
}
