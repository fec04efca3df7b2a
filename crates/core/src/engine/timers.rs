//! The sleeps of the loops that wait for an instant: the ends of leases, the wakes of waiting callers, ticks, the ends of pauses.
//!
//! Each loop says for which instant it waits. So a clock that is moved by hand goes from one such instant to the next, and on
//! once every loop has done what was due: nothing is skipped, and nothing happens in another order.
//!
//! It leaves out what nobody waits for: a job that comes due while nobody asks for it is ready by the clock alone.

use crate::clock::{Millis, MovableClock};
use crate::json::Span;
use crate::ports::Broker;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Notify};

/// How long a caller that was woken has to take its job before the clock moves on.
const HAND_OUT_TIME: Duration = Duration::from_millis(1);

/// A loop that waits for instants.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Timer {
    /// Leases, and jobs that must be started in time.
    Reaper,
    /// Callers that wait for jobs.
    Alarm,
    Schedules,
    Pauses,
}

const TIMERS: usize = 4;

/// A loop works, or has not begun.
const WORKS: Millis = 0;
/// A loop waits for no instant.
const WAITS: Millis = Millis::MAX;

/// The loops, and what they wait for.
pub(in crate::engine) struct Timers {
    broker: Arc<dyn Broker>,
    /// The instant for which each loop waits, or one of the values above.
    until: [AtomicU64; TIMERS],
    /// A loop has begun to wait while the clock is being moved.
    changed: Notify,
    moved: Notify,
    is_moving: AtomicBool,
    one_at_a_time: Mutex<()>,
}

/// A loop that sleeps, until this is dropped.
struct Asleep<'a>(&'a AtomicU64);

impl Timers {
    pub(in crate::engine) fn new(broker: Arc<dyn Broker>) -> Self {
        Self {
            broker,
            until: Default::default(),
            changed: Notify::default(),
            moved: Notify::default(),
            is_moving: AtomicBool::default(),
            one_at_a_time: Mutex::default(),
        }
    }

    /// Sleeps until this instant, for at most so long, or until the clock was moved. Cancel safe.
    pub(in crate::engine) async fn sleep(&self, timer: Timer, until: Option<Millis>, at_most: Duration) {
        let mut moved = pin!(self.moved.notified());
        moved.as_mut().enable();
        let place = &self.until[timer as usize];
        place.store(until.unwrap_or(WAITS), Ordering::SeqCst);
        let _asleep = Asleep(place);
        if self.is_moving.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
        let sleep = until.map_or(at_most, |at| self.broker.until(at).min(at_most));
        tokio::select! { biased; () = moved => {} () = tokio::time::sleep(sleep) => {} }
    }

    /// Moves the clock forward by so much, from instant to instant, and returns what it reads then. Calls are made one after
    /// the other.
    pub(in crate::engine) async fn advance(&self, clock: &MovableClock, by: Span) -> Millis {
        let _one_at_a_time = self.one_at_a_time.lock().await;
        self.is_moving.store(true, Ordering::SeqCst);
        // A loop may not know yet what was changed just before. What it was about to do may be older than the change, hence twice.
        for _ in 0..2 {
            self.look_again().await;
        }
        let Span(mut left) = by;
        while left > 0 {
            let (until, now) = (self.settled().await, self.broker.now());
            let next = until.into_iter().min().unwrap_or(WAITS);
            let step = next.saturating_sub(now).clamp(1, left);
            clock.advance(step);
            left -= step;
            self.moved.notify_waiters();
            if until[Timer::Alarm as usize] <= now + step {
                self.settled().await;
                tokio::time::sleep(HAND_OUT_TIME).await;
            }
        }
        self.settled().await;
        self.is_moving.store(false, Ordering::SeqCst);
        self.broker.now()
    }

    /// Has every loop look anew for which instant it waits.
    async fn look_again(&self) {
        for until in &self.until {
            until.store(WORKS, Ordering::SeqCst);
        }
        self.moved.notify_waiters();
        self.settled().await;
    }

    /// Waits until every loop waits for an instant that is yet to come, or for none.
    async fn settled(&self) -> [Millis; TIMERS] {
        loop {
            let until = self.until.each_ref().map(|until| until.load(Ordering::SeqCst));
            let now = self.broker.now();
            if until.iter().all(|&until| until > now) {
                return until;
            }
            self.changed.notified().await;
        }
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.store(WORKS, Ordering::SeqCst);
    }
}
