//! A clock that is set by hand.

use super::fixtures::T0;
use crate::clock::{Clock, Millis};
use std::sync::atomic::{AtomicU64, Ordering};

/// The start of the monotonic clock of a test: not 0, which would hide errors in subtractions.
const MONO_START: Millis = 1_000_000;

/// A wall clock and a monotonic one that stand still until they are moved.
#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicU64,
    mono: AtomicU64,
}

impl ManualClock {
    /// A clock whose wall stands at [`T0`].
    pub fn new() -> Self {
        Self { wall: AtomicU64::new(T0), mono: AtomicU64::new(MONO_START) }
    }

    /// Lets time pass: both clocks go forward by this many milliseconds.
    pub fn advance(&self, ms: u64) {
        self.mono.fetch_add(ms, Ordering::Relaxed);
        self.wall.fetch_add(ms, Ordering::Relaxed);
    }

    /// Sets the wall clock forward or back by this many milliseconds; the monotonic one continues.
    pub fn step(&self, ms: i64) {
        self.set_wall(self.wall().saturating_add_signed(ms));
    }

    /// Sets the wall clock alone.
    pub fn set_wall(&self, wall: Millis) {
        self.wall.store(wall, Ordering::Relaxed);
    }

    /// Sets the monotonic clock alone.
    pub fn set_mono(&self, mono: Millis) {
        self.mono.store(mono, Ordering::Relaxed);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Millis {
        self.wall.load(Ordering::Relaxed)
    }

    fn mono(&self) -> Millis {
        self.mono.load(Ordering::Relaxed)
    }
}
