//! One queue's waiting jobs: scheduled ones in a wheel, ready ones in order.
//!
//! Nothing moves a job from scheduled to ready when its time comes: the next look does, in bounded steps.

use crate::clock::Millis;
use crate::id::JobId;
use crate::wheel::{Handle, Wheel};
use std::collections::BTreeSet;

/// The order among ready jobs: priority, then `due_at`, then id.
pub(super) type Rank = (u32, Millis, JobId);

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) wheel: Wheel<JobId>,
    /// Due by the wheel, but not by the clock, which was set back.
    pub(super) held_back: BTreeSet<(Millis, JobId)>,
    pub(super) ready: BTreeSet<Rank>,
    pub(super) running: BTreeSet<JobId>,
    pub(super) paused: bool,
    /// Before this instant nobody needs to be told of a job: somebody will look by then.
    pub(super) look_at: Option<Millis>,
}

/// Where a waiting job went.
pub(super) enum Entered {
    Scheduled(Handle),
    HeldBack,
    Ready,
}

impl Queue {
    pub(super) fn new(now: Millis) -> Self {
        Self {
            wheel: Wheel::new(now),
            held_back: BTreeSet::new(),
            ready: BTreeSet::new(),
            running: BTreeSet::new(),
            paused: false,
            look_at: None,
        }
    }

    /// Files a waiting job.
    pub(super) fn enter(&mut self, rank: Rank, now: Millis) -> Entered {
        let (_, due_at, id) = rank;
        if due_at <= now {
            self.ready.insert(rank);
            Entered::Ready
        } else if due_at <= self.wheel.now() {
            self.held_back.insert((due_at, id));
            Entered::HeldBack
        } else {
            Entered::Scheduled(self.wheel.insert(due_at, id))
        }
    }

    /// Hands at most `limit` jobs that have become due to `became_ready`; answers whether there are more.
    pub(super) fn advance(&mut self, now: Millis, limit: usize, mut became_ready: impl FnMut(JobId)) -> bool {
        let mut left = limit;
        while left > 0
            && let Some(&(due_at, id)) = self.held_back.first()
            && due_at <= now
        {
            self.held_back.pop_first();
            became_ready(id);
            left -= 1;
        }
        let more_held_back = self.held_back.first().is_some_and(|&(due_at, _)| due_at <= now);
        // The wheel counts an instant before its own as its own.
        let more_in_wheel = self.wheel.now() <= now && self.wheel.expire(now, left, became_ready);
        more_held_back || more_in_wheel
    }

    /// Before this instant nothing is due; `None` where nothing waits, or nothing is handed out.
    pub(super) fn next_at(&self) -> Option<Millis> {
        if self.paused {
            return None;
        }
        let ready = self.ready.first().map(|&(_, due_at, _)| due_at);
        let held_back = self.held_back.first().map(|&(due_at, _)| due_at);
        [ready, held_back, self.wheel.next_expiry()].into_iter().flatten().min()
    }

    /// Whether it can be forgotten.
    pub(super) fn is_idle(&self) -> bool {
        let waiting = self.wheel.len() + self.held_back.len() + self.ready.len();
        waiting + self.running.len() == 0 && !self.paused
    }

    /// Calls `visit` with the first ranks of each priority that are due from `from` to `to`, in order of priority,
    /// and within it in due order, until it answers false: that priority is done, and the next one begins.
    pub(super) fn ready_by_priority(&self, from: (Millis, JobId), to: Millis, mut visit: impl FnMut(Rank) -> bool) {
        let mut priority = self.ready.first().map(|&(priority, ..)| priority);
        while let Some(current) = priority {
            for &rank in self.ready.range((current, from.0, from.1)..) {
                if rank.0 != current || rank.1 > to || !visit(rank) {
                    break;
                }
            }
            priority = current
                .checked_add(1)
                .and_then(|next| self.ready.range((next, 0, JobId::MIN)..).next())
                .map(|&(priority, ..)| priority);
        }
    }
}
