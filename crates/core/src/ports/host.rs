//! The engine's side of a broker: values that the broker asks for, and wakes.

use super::limits::Limits;
use crate::error::Error;
use async_trait::async_trait;
use std::sync::Arc;

/// The engine, as the broker sees it.
#[async_trait]
pub trait Host: Send + Sync {
    /// The values with which a memory begins: a generation that no other memory of this store had or will have, and all
    /// current limits. A broker calls this once it knows which memory it has, so that all numbers of an earlier memory were
    /// given out before.
    async fn beginning(&self) -> Result<Beginning, Error>;

    /// Makes sure that this memory holds nothing of which the ledger has a later state, as an older copy of a memory may. A
    /// shared broker calls this once it knows which memory it has in this partition, and begins the memory only if this
    /// succeeds. Meanwhile the memory must be listed, and take puts and drops. No two memories have one name.
    ///
    /// # Errors
    /// If that fails or takes long. It goes on by itself, and the broker asks again.
    async fn compare(&self, _partition: u16, _memory: &str) -> Result<(), Error> {
        Ok(())
    }

    /// A job may be due in this queue sooner than the broker last reported; `None`: in any queue.
    fn wake(&self, _queue: Option<&Arc<str>>) {}
}

/// The values with which a memory begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beginning {
    /// The lower bound of its versions, epochs and fences is the [floor](crate::model::id::floor) of this. A broker that is
    /// its own ledger uses its clock instead.
    pub generation: u64,
    /// The limits of all queues that have settings, and the versions of these.
    pub limits: Vec<(Arc<str>, Limits, u64)>,
}
