//! Clocks. The only place that reads the machine's.
//!
//! Due times use the wall clock, leases the monotonic one: setting the wall clock ends no lease. Nothing else in the project
//! reads the time; everything is handed a [`Clock`] or an instant.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An instant: milliseconds since 1970-01-01 UTC or, if a name says `mono`, since an arbitrary start.
pub type Millis = u64;

/// A source of time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The wall clock.
    fn wall(&self) -> Millis;
    /// The monotonic clock. Its zero is arbitrary.
    fn mono(&self) -> Millis;
    /// How long until the wall clock reads this, at the clock's full resolution: [`wall`](Self::wall) is truncated to
    /// milliseconds.
    fn until(&self, at: Millis) -> Duration {
        Duration::from_millis(at.saturating_sub(self.wall()))
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// The machine's clocks; the monotonic one starts here.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Millis {
        millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
    }

    fn mono(&self) -> Millis {
        millis(self.start.elapsed())
    }

    fn until(&self, at: Millis) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Duration::from_millis(at).saturating_sub(now)
    }
}

/// Clocks that can be moved forward, for tests: the machine's, or such that stand still otherwise.
#[derive(Debug)]
pub struct MovableClock {
    machine: SystemClock,
    /// What the machine's clocks read when these were stopped.
    stopped: Option<(Millis, Millis)>,
    ahead_ms: AtomicU64,
}

impl MovableClock {
    /// The machine's clocks, not moved yet.
    pub fn new() -> Self {
        Self { machine: SystemClock::new(), stopped: None, ahead_ms: AtomicU64::new(0) }
    }

    /// Clocks that stand still until they are moved. They begin with what the machine's read.
    pub fn stopped() -> Self {
        let clock = Self::new();
        Self { stopped: Some((clock.wall(), clock.mono())), ..clock }
    }

    /// Lets time pass: both clocks go forward by this many milliseconds.
    pub fn advance(&self, ms: u64) {
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// By how many milliseconds they were moved.
    pub fn ahead_ms(&self) -> u64 {
        self.ahead_ms.load(Ordering::SeqCst)
    }
}

impl Default for MovableClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MovableClock {
    fn wall(&self) -> Millis {
        self.stopped.map_or_else(|| self.machine.wall(), |(wall, _)| wall) + self.ahead_ms()
    }

    fn mono(&self) -> Millis {
        self.stopped.map_or_else(|| self.machine.mono(), |(_, mono)| mono) + self.ahead_ms()
    }

    fn until(&self, at: Millis) -> Duration {
        match self.stopped {
            Some(_) if at > self.wall() => Duration::MAX,
            Some(_) => Duration::ZERO,
            None => self.machine.until(at.saturating_sub(self.ahead_ms())),
        }
    }
}

fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).expect("the clock reads before the year 500,000,000")
}
