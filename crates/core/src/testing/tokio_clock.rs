//! A clock that follows tokio's, which tests pause, and whose wall clock can be stepped.

use crate::clock::{Clock, Millis};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tokio::time::Instant;

/// 2026-11-20T00:00:00Z.
pub const WALL_START_MS: Millis = 1_795_132_800_000;

/// A clock for a runtime whose time is paused.
#[derive(Debug)]
pub struct TokioClock {
    start: Instant,
    mono_base: Millis,
    wall_offset: AtomicI64,
    wall_steps: AtomicU64,
}

impl TokioClock {
    /// A clock that begins at [`WALL_START_MS`]. Must be made in the runtime.
    pub fn new() -> Self {
        Self::following(Past::default())
    }

    /// A clock that continues a clock of an earlier runtime.
    pub fn following(past: Past) -> Self {
        Self {
            start: Instant::now(),
            mono_base: past.mono + 1,
            wall_offset: AtomicI64::new(past.wall_offset),
            wall_steps: AtomicU64::new(past.wall_steps),
        }
    }

    /// Its readings. Must be called in the runtime.
    pub fn past(&self) -> Past {
        let wall_offset = self.wall_offset.load(Ordering::SeqCst);
        Past { mono: self.mono(), wall_offset, wall_steps: self.wall_steps() }
    }

    /// Sets the wall clock forward or back by this many milliseconds.
    pub fn step_wall(&self, ms: i64) {
        self.wall_offset.fetch_add(ms, Ordering::SeqCst);
        self.wall_steps.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of times that the wall clock was set.
    pub fn wall_steps(&self) -> u64 {
        self.wall_steps.load(Ordering::SeqCst)
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn wall(&self) -> Millis {
        self.mono().saturating_add_signed(self.wall_offset.load(Ordering::SeqCst))
    }

    fn mono(&self) -> Millis {
        self.mono_base + u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The readings of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// The monotonic clock.
    mono: Millis,
    /// The offset from the monotonic to the wall clock.
    wall_offset: i64,
    wall_steps: u64,
}

impl Default for Past {
    fn default() -> Self {
        Self { mono: 0, wall_offset: WALL_START_MS.cast_signed(), wall_steps: 0 }
    }
}
