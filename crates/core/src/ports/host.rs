//! What a broker asks of the engine that uses it, and tells it.

use super::limits::Limits;
use crate::error::Error;
use async_trait::async_trait;
use std::sync::Arc;

/// The engine, as the broker sees it.
#[async_trait]
pub trait Host: Send + Sync {
    /// What a memory that begins must know: a generation that no memory of this store had or will have, and all limits that
    /// hold now. A broker asks once it knows which memory that is, so that whatever a memory before it had was given out
    /// earlier.
    async fn beginning(&self) -> Result<Beginning, Error>;

    /// Something may be due in this queue sooner than the broker last said; `None`: in any queue.
    fn wake(&self, _queue: Option<&Arc<str>>) {}
}

/// What a memory begins with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beginning {
    /// Its versions and epochs, and those of its locks' fences, are not below the
    /// [floor](crate::model::id::floor) of this. A broker that is its own ledger uses its clock instead.
    pub generation: u64,
    /// The limits of all queues that have settings, and the versions of these.
    pub limits: Vec<(Arc<str>, Limits, u64)>,
}
