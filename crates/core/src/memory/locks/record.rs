//! The part of the locks that the registry keeps: the holders, and a bound of the fences.

use crate::error::Error;
use crate::ports::{Acquire, PutIf, Registry};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::Mutex;

/// The registry's kind of document for a lock that is held.
const KIND: &str = "lock";
/// The registry's kind of document for the bound of the fences; there is one.
const FENCE_KIND: &str = "lock_fence";
/// Its name.
const FENCE_NAME: &str = "bound";
/// The bound is set so far ahead that it is written about once a minute: fences grow as milliseconds do.
const FENCES_AHEAD: u64 = 60_000;

/// A stored grant.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GrantRecord {
    pub(super) owner: Arc<str>,
    pub(super) fence: u64,
    pub(super) ttl_ms: u64,
}

/// The documents.
pub(super) struct Record {
    registry: Arc<dyn Registry>,
    /// No fence above this has been given.
    bound: Mutex<u64>,
}

impl Record {
    pub(super) fn new(registry: Arc<dyn Registry>) -> Self {
        Self { registry, bound: Mutex::default() }
    }

    /// The grants that an earlier process left, and a fence that is at least as great as any that it gave.
    pub(super) async fn read(&self) -> Result<(Vec<(Arc<str>, GrantRecord)>, u64), Error> {
        let mut bound = self.bound.lock().await;
        if let Some(document) = self.registry.document(FENCE_KIND, FENCE_NAME).await? {
            *bound = parse(FENCE_NAME, &document.body)?;
        }
        let mut grants = Vec::new();
        for document in self.registry.documents(KIND).await? {
            let written: GrantRecord = parse(&document.name, &document.body)?;
            *bound = written.fence.max(*bound);
            grants.push((Arc::from(document.name), written));
        }
        Ok((grants, *bound))
    }

    /// Writes that a lock is granted.
    pub(super) async fn write(&self, acquire: &Acquire, fence: u64) -> Result<(), Error> {
        let mut bound = self.bound.lock().await;
        if fence > *bound {
            let new = fence.saturating_add(FENCES_AHEAD);
            self.put(FENCE_KIND, FENCE_NAME, &new).await?;
            *bound = new;
        }
        drop(bound);
        let written = GrantRecord { owner: acquire.owner.clone(), fence, ttl_ms: acquire.ttl_ms };
        self.put(KIND, &acquire.name, &written).await
    }

    /// Writes that a lock is free.
    pub(super) async fn remove(&self, name: &str) -> Result<(), Error> {
        self.registry.remove(KIND, name, None).await.map(drop)
    }

    /// Overwrites the stored document: nobody else writes it.
    async fn put(&self, kind: &str, name: &str, body: &impl Serialize) -> Result<(), Error> {
        let body = serde_json::to_string(body).expect("it has only string keys");
        let mut version = 0;
        loop {
            match self.registry.put_if(kind, name, &body, version).await? {
                PutIf::Stored(_) => return Ok(()),
                PutIf::Mismatch(stored) => version = stored,
            }
        }
    }
}

fn parse<T: for<'de> Deserialize<'de>>(name: &str, body: &str) -> Result<T, Error> {
    serde_json::from_str(body).map_err(|error| Error::Damaged(format!("the record of the lock {name:?}: {error}")))
}
