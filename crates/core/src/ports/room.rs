//! How much live jobs may take.

use crate::limits::MINUTE_MS;

/// How much a put may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Whatever it takes: for jobs that are handed out at once.
    Any,
    /// Live jobs take about so many bytes at most; `None` for what the broker itself finds right.
    Within(Option<u64>),
}

/// A job that is due within this time is due *soon*.
pub const SOON_MS: u64 = MINUTE_MS;

impl Room {
    /// What counts of a bound for a job that is due in so many milliseconds.
    pub fn share(bytes_max: u64, due_in_ms: u64) -> u64 {
        match due_in_ms {
            0 => bytes_max,
            1..=SOON_MS => bytes_max / 8 * 7,
            _ => bytes_max / 4 * 3,
        }
    }

    /// What every queue may hold, of so many that there are, whatever the others hold.
    pub fn least(bytes_max: u64, queues: u64) -> u64 {
        bytes_max / 4 / queues.max(1)
    }
}
