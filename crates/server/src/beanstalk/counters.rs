//! Counters of this process since its start.

use super::command::Command;
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
    /// Counts a command.
    pub(super) fn count(&self, command: &Command) {
        let name = match command {
            Command::Put(_) => "put",
            Command::Use(_) => "use",
            Command::Reserve => "reserve",
            Command::ReserveWithTimeout(_) => "reserve-with-timeout",
            Command::Delete(_) => "delete",
            Command::Release(_) => "release",
            Command::Bury(..) => "bury",
            Command::Touch(_) => "touch",
            Command::Watch(_) => "watch",
            Command::Ignore(_) => "ignore",
            Command::Peek(_) => "peek",
            Command::PeekReady => "peek-ready",
            Command::PeekDelayed => "peek-delayed",
            Command::PeekBuried => "peek-buried",
            Command::Kick(_) => "kick",
            Command::StatsJob(_) => "stats-job",
            Command::StatsTube(_) => "stats-tube",
            Command::Stats => "stats",
            Command::ListTubes => "list-tubes",
            Command::ListTubeUsed => "list-tube-used",
            Command::ListTubesWatched => "list-tubes-watched",
            Command::PauseTube(..) => "pause-tube",
            Command::ReserveJob(_) | Command::KickJob(_) | Command::Auth(_) | Command::Quit => return,
        };
        if let Some(place) = COMMANDS.iter().position(|other| *other == name) {
            add(&self.commands[place], 1);
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
