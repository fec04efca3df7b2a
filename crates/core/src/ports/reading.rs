//! When jobs were read, so that a reading that is too old is not put.

use crate::clock::Millis;

/// When jobs were read from the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The broker's clock before that.
    pub at: Millis,
    /// How many memories of the broker this process had known by then.
    pub memory: u64,
}

impl Reading {
    /// Of two readings that which is the older in every respect.
    #[must_use]
    pub fn older(self, other: Self) -> Self {
        Self { at: self.at.min(other.at), memory: self.memory.min(other.memory) }
    }
}
