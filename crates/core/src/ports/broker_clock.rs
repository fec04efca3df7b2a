//! The broker's clock, and the time at which jobs were read, so that a reading that is too old is not put.

use crate::clock::Millis;
use std::time::Duration;

/// The clock of due times and leases: of the process, or of the server that is the broker.
pub trait BrokerClock: Send + Sync {
    /// The broker's clock. If only bounds are known, this is an instant that it has certainly reached: so nothing that waits
    /// for an instant continues early.
    fn now(&self) -> Millis;

    /// The broker's clock. If it is only known to lie within bounds, an instant that it has not passed: a delay that begins
    /// here is not cut short.
    fn now_at_most(&self) -> Millis {
        self.now()
    }

    /// How far the clock of this machine is from the broker's, in milliseconds; 0 if it is the same clock.
    fn apart_ms(&self) -> u64 {
        0
    }

    /// How long until this instant has certainly passed, at the clock's full resolution.
    fn until(&self, at: Millis) -> Duration {
        Duration::from_millis(at.saturating_sub(self.now()))
    }

    /// Call it before jobs are read from the ledger in order to be put.
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
    /// The older of two readings in every respect.
    #[must_use]
    pub fn older(self, other: Self) -> Self {
        Self { at: self.at.min(other.at), memory: self.memory.min(other.memory) }
    }
}
