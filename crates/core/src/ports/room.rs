//! The memory that live jobs may take.

use crate::limits::MINUTE_MS;

/// The memory that a put may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// No bound: for jobs that are handed out at once.
    Any,
    /// The bytes that live jobs may take; `None` for the broker's default.
    Within(Option<u64>),
}

/// A job that is due within this time is due *soon*.
pub const SOON_MS: u64 = MINUTE_MS;

impl Room {
    /// The part of the bound that counts for a job that is due in this many milliseconds.
    pub fn share(bytes_max: u64, due_in_ms: u64) -> u64 {
        match due_in_ms {
            0 => bytes_max,
            1..=SOON_MS => bytes_max / 8 * 7,
            _ => bytes_max / 4 * 3,
        }
    }

    /// The memory that each of this many queues may use in any case.
    pub fn least(bytes_max: u64, queues: u64) -> u64 {
        bytes_max / 4 / queues.max(1)
    }
}
