//! Counters of this process since its start.

use std::sync::atomic::{AtomicU64, Ordering};

/// The names of commands in the statistics, in beanstalkd's order.
pub(super) const COMMANDS: [&str; 22] = [
    "put",
    "peek",
    "peek-ready",
    "peek-delayed",
    "peek-buried",
    "reserve",
    "reserve-with-timeout",
    "delete",
    "release",
    "use",
    "watch",
    "ignore",
    "bury",
    "kick",
    "touch",
    "stats",
    "stats-job",
    "stats-tube",
    "list-tubes",
    "list-tube-used",
    "list-tubes-watched",
    "pause-tube",
];

/// Counts of a process.
#[derive(Debug, Default)]
pub(super) struct Counters {
    commands: [AtomicU64; COMMANDS.len()],
    pub(super) total_jobs: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) total_connections: AtomicU64,
    pub(super) producers: AtomicU64,
    pub(super) workers: AtomicU64,
    pub(super) waiting: AtomicU64,
}

impl Counters {
    /// Counts commands by their word. Those that beanstalkd does not count are omitted.
    pub(super) fn count(&self, word: &str, times: usize) {
        if let Some(place) = COMMANDS.iter().position(|other| *other == word) {
            add(&self.commands[place], times as u64);
        }
    }

    /// Counts by command, in the order of [`COMMANDS`].
    pub(super) fn commands(&self) -> impl Iterator<Item = (&'static str, u64)> {
        COMMANDS.into_iter().zip(self.commands.iter().map(get))
    }
}

/// Adds to a count.
pub(super) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// Takes one from a count.
pub(super) fn take_one(count: &AtomicU64) {
    count.fetch_sub(1, Ordering::Relaxed);
}

/// A count.
pub(super) fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
