//! How Redis is used.

use duetime_core::Clock;
use std::sync::Arc;

/// The use of Redis.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the ledger beside it. `None` if Redis is its own ledger: it keeps finished jobs, checks keys and allots
    /// ids. This cannot change for an existing set of jobs.
    pub beside: Option<String>,
    /// If Redis is its own ledger, new jobs are refused once it uses this many bytes. The default is nine tenths of its
    /// `maxmemory`, or no limit if it has none.
    pub memory_max: Option<u64>,
    /// The number of succeeded or cancelled jobs that each partition keeps; 100,000 by default.
    pub ended_max: usize,
    /// The number of failed jobs that each partition keeps; 100,000 by default.
    pub dead_max: usize,
    /// Replaces the clock of Redis in tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { beside: None, memory_max: None, ended_max: 100_000, dead_max: 100_000, clock: None }
    }
}
