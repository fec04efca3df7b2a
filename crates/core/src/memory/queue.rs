//! One queue's waiting jobs: scheduled ones in a wheel, ready ones in order.
//!
//! Nothing moves a job from scheduled to ready when its time comes: the next look does, in bounded steps, and moves it back
//! if the clock was set back. Invariant: after a complete look, a job is in `ready` or `overdue` exactly when it is due.

use super::wheel::{Handle, Wheel};
use crate::clock::Millis;
use crate::limits::STEP_JOBS_MAX;
use crate::model::id::JobId;
use crate::ports::{GcraLimiter, Limits};
use std::collections::BTreeSet;

/// The order among ready jobs: priority, then `due_at`, then id.
pub(super) type Rank = (u32, Millis, JobId);

/// Places that one walk reads: enough for all that a reserve may hand out, and for others that it skips.
const WALK_PLACES_MAX: usize = 4 * STEP_JOBS_MAX;

/// The start of every walk over ready jobs.
pub(super) const FIRST: Rank = (0, 0, JobId::MIN);

#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) wheel: Wheel<JobId>,
    /// Due by the wheel, but not by the clock, which was set back.
    pub(super) held_back: BTreeSet<(Millis, JobId)>,
    pub(super) ready: BTreeSet<Rank>,
    /// Due, but not started in time, by the instant from which they may not start.
    pub(super) overdue: BTreeSet<(Millis, JobId)>,
    pub(super) running: BTreeSet<JobId>,
    /// The memory of its live jobs.
    pub(super) bytes: u64,
    pub(super) limits: Limits,
    /// The version of the settings that they come from; 0 if there are none.
    pub(super) limits_version: u64,
    limiter: GcraLimiter,
    /// Until this instant no wake is needed for a job: a caller looks before that anyway.
    pub(super) look_at: Option<Millis>,
    /// No ready job is due later than this.
    ready_to: Millis,
    /// Set if the clock was set back: since when by that clock, and from which priority on ready jobs are still to be held
    /// back.
    set_back: Option<(Millis, u32)>,
}

/// The new place of a waiting job.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entered {
    Scheduled(Handle),
    HeldBack,
    Ready,
}

/// The state of a walk over ready jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    On,
    NextPriority,
    Stop,
}

impl Queue {
    pub(super) fn new(now: Millis) -> Self {
        Self { wheel: Wheel::new(now), ..Self::default() }
    }

    /// Starts with these limits, as if its burst had just been used up.
    pub(super) fn begin(&mut self, limits: Limits, version: u64, now: Millis) {
        (self.limits, self.limits_version, self.limiter) = (limits, version, GcraLimiter::default());
        if let Some(rate) = &limits.rate {
            self.limiter.pass(rate.burst() as usize, rate, now);
        }
    }

    /// Files a waiting job.
    pub(super) fn enter(&mut self, rank: Rank, now: Millis) -> Entered {
        let (_, due_at, id) = rank;
        if due_at <= now {
            self.make_ready(rank);
            Entered::Ready
        } else if due_at <= self.wheel.now() {
            self.held_back.insert((due_at, id));
            Entered::HeldBack
        } else {
            Entered::Scheduled(self.wheel.insert(due_at, id))
        }
    }

    fn make_ready(&mut self, rank: Rank) {
        self.ready_to = self.ready_to.max(rank.1);
        let is_new = self.ready.insert(rank);
        debug_assert!(is_new, "a job is ready once");
    }

    /// Hands at most `limit` jobs that may be due now, and are not in `ready`, to `is_due`, to be entered again, and those
    /// that are in `ready` and not due to `held_back`; returns whether to call again.
    pub(super) fn advance(
        &mut self,
        now: Millis,
        limit: usize,
        mut is_due: impl FnMut(JobId),
        held_back: impl FnMut(JobId),
    ) -> bool {
        if self.ready_to > now && !self.hold_back(now, limit, held_back) {
            return true;
        }
        let mut left = limit;
        while left > 0
            && let Some(&(start_by, id)) = self.overdue.last()
            && start_by > now
        {
            self.overdue.pop_last();
            is_due(id);
            left -= 1;
        }
        while left > 0
            && let Some(&(due_at, id)) = self.held_back.first()
            && due_at <= now
        {
            self.held_back.pop_first();
            is_due(id);
            left -= 1;
        }
        // The wheel counts an instant before its own as its own.
        let more_in_wheel = self.wheel.now() <= now && self.wheel.expire(now, left, is_due);
        left == 0 || more_in_wheel
    }

    /// Removes jobs that are not due from `ready`, reading no more than `limit` places; returns whether it is through.
    fn hold_back(&mut self, now: Millis, limit: usize, mut held_back: impl FnMut(JobId)) -> bool {
        let (since, mut priority) = self.set_back.filter(|&(since, _)| since <= now).unwrap_or((now, 0));
        for _ in 0..limit {
            let Some(&rank) = self.ready.range((priority, now + 1, JobId::MIN)..).next() else {
                (self.ready_to, self.set_back) = (now, None);
                return true;
            };
            if rank.0 == priority {
                self.ready.remove(&rank);
                self.held_back.insert((rank.1, rank.2));
                held_back(rank.2);
            }
            priority = rank.0;
        }
        self.set_back = Some((since, priority));
        false
    }

    /// Nothing is due before this instant; `None` if nothing waits, or nothing is handed out.
    pub(super) fn next_at(&self, now: Millis) -> Option<Millis> {
        if self.limits.paused {
            return None;
        }
        let ready = self.ready.first().map(|&(_, due_at, _)| due_at.min(now));
        let held_back = self.held_back.first().map(|&(due_at, _)| due_at);
        [ready, held_back, self.wheel.next_expiry()].into_iter().flatten().min()
    }

    /// The number of jobs that its limits allow now. If none, the time of the next one, or `None` if that does not depend on
    /// time.
    pub(super) fn room(&mut self, takes: bool, now: Millis) -> Result<usize, Option<Millis>> {
        let unlimited = (usize::MAX, now);
        let (by_rate, next_at) = self.limits.rate.map_or(unlimited, |rate| self.limiter.room(&rate, now));
        // Taken jobs do not run.
        let max_running = self.limits.max_running.filter(|_| !takes).map_or(usize::MAX, |max| max as usize);
        match (max_running.saturating_sub(self.running.len()), by_rate) {
            _ if self.limits.paused => Err(None),
            (0, _) => Err(None),
            (_, 0) => Err(Some(next_at)),
            (runs, by_rate) => Ok(runs.min(by_rate)),
        }
    }

    /// Counts a job that was handed out.
    pub(super) fn pass(&mut self, now: Millis) {
        if let Some(rate) = self.limits.rate {
            self.limiter.pass(1, &rate, now);
        }
    }

    /// Whether `max_running` is reached.
    pub(super) fn is_full(&self) -> bool {
        self.limits.max_running.is_some_and(|max| self.running.len() >= max as usize)
    }

    /// Nothing can be handed out before this instant; `None` if that does not depend on time.
    pub(super) fn free_at(&mut self, takes: bool, now: Millis) -> Option<Millis> {
        let next_at = self.next_at(now)?;
        match self.room(takes, now) {
            Ok(_) => Some(next_at),
            Err(free_at) => free_at.map(|free_at| free_at.max(next_at)),
        }
    }

    /// The number of its jobs that are not leased.
    pub(super) fn waiting(&self) -> usize {
        self.wheel.len() + self.held_back.len() + self.ready.len() + self.overdue.len()
    }

    /// Whether it can be dropped.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting() + self.running.len() == 0 && self.limits_version == 0
    }

    /// Visits ready jobs that are due from `from` to `to`, in order, from the rank `start` on. Reads no more than
    /// [`WALK_PLACES_MAX`] places, and returns where to continue.
    pub(super) fn walk(
        &self,
        start: Rank,
        (from, to): ((Millis, JobId), Millis),
        mut visit: impl FnMut(Rank) -> Walk,
    ) -> Option<Rank> {
        let mut at = start.max((start.0, from.0, from.1));
        let mut left = WALK_PLACES_MAX;
        loop {
            let mut next = None;
            for &rank in self.ready.range(at..) {
                if left == 0 {
                    return Some(rank.max(at));
                }
                left -= 1;
                let walk = match rank {
                    (priority, ..) if priority != at.0 => {
                        next = Some((priority, from.0, from.1));
                        break;
                    }
                    (_, due_at, _) if due_at > to => Walk::NextPriority,
                    _ => visit(rank),
                };
                match walk {
                    Walk::On => {}
                    Walk::NextPriority => {
                        next = Some((at.0.checked_add(1)?, from.0, from.1));
                        break;
                    }
                    Walk::Stop => return None,
                }
            }
            at = next?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::id;

    fn walked(queue: &Queue, window: (Millis, Millis)) -> (Vec<u64>, usize) {
        let (mut seen, mut steps, mut at) = (Vec::new(), 0, Some(FIRST));
        while let Some(start) = at {
            at = queue.walk(start, ((window.0, JobId::MIN), window.1), |(.., id)| {
                seen.push(id.sequence());
                Walk::On
            });
            steps += 1;
        }
        (seen, steps)
    }

    #[test]
    fn a_walk_is_made_of_bounded_steps_and_misses_nothing() {
        let mut queue = Queue::new(1_000);
        for n in 1..=20_000 {
            queue.make_ready((n as u32 / 3 * 2, 10 + n % 7, id(n)));
        }
        queue.make_ready((u32::MAX, 12, id(20_001)));
        let (seen, steps) = walked(&queue, (0, 1_000));
        assert_eq!(seen.len(), 20_001);
        assert!((6..20).contains(&steps), "{steps}");
        let (mut seen, _) = walked(&queue, (12, 13));
        seen.sort();
        let expected: Vec<u64> = (1..=20_000).filter(|n| [2, 3].contains(&(n % 7))).chain([20_001]).collect();
        assert_eq!(seen, expected);
        let (seen, steps) = walked(&queue, (999, 999));
        assert!(seen.is_empty() && steps > 1, "{steps}");
    }

    #[test]
    fn holding_back_is_made_of_bounded_steps() {
        let mut queue = Queue::new(1_000);
        for n in 1..=3_000 {
            queue.make_ready((n as u32, 500 + n % 2 * 100, id(n)));
        }
        let (mut steps, mut held) = (1, 0);
        while queue.advance(550, 1_000, |_| panic!("nothing becomes due"), |_| held += 1) {
            steps += 1;
        }
        assert!(steps >= 3, "{steps}");
        assert_eq!((held, queue.held_back.len(), queue.ready.len()), (1_500, 1_500, 1_500));
    }
}
