//! The broker's clock, and when jobs were read by it, so that a reading that is too old is not put.

use crate::clock::Millis;
use std::time::Duration;

/// The clock that due times and leases go by: of the process, or of the server that is the broker.
pub trait BrokerClock: Send + Sync {
    /// The broker's clock. Where it is only known to lie within bounds, an instant that has surely come: so what waits for an
    /// instant does not go on early.
    fn now(&self) -> Millis;

    /// The broker's clock, or where it is only known to lie within bounds an instant that has not passed: a delay that begins
    /// here is not cut short.
    fn now_at_most(&self) -> Millis {
        self.now()
    }

    /// How long until this instant has surely come, as finely as it can tell.
    fn until(&self, at: Millis) -> Duration {
        Duration::from_millis(at.saturating_sub(self.now()))
    }

    /// To be asked for before jobs are read from the ledger that are to be put.
    fn reading(&self) -> Reading {
        Reading { at: self.now(), memory: 0 }
    }
}

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
