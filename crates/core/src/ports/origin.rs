//! What a broker's memory must know before it hands anything out.

use super::limits::Limits;
use crate::error::Error;
use async_trait::async_trait;
use std::sync::Arc;

/// Says what a memory that begins must know. A broker asks once it knows which memory that is, so that whatever a memory
/// before it had was given out earlier.
#[async_trait]
pub trait Origin: Send + Sync {
    /// A generation that no memory of this store had or will have, and all limits that hold now.
    async fn begin(&self) -> Result<Beginning, Error>;
}

/// What a memory begins with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beginning {
    /// Its versions and epochs, and those of its locks' fences, are not below the
    /// [floor](crate::id::floor) of this. A broker that is its own ledger goes by its clock instead.
    pub generation: u64,
    /// The limits of all queues that have settings, and the versions of these.
    pub limits: Vec<(Arc<str>, Limits, u64)>,
}
