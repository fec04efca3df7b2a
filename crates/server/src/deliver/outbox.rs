//! Outcomes on their way to the engine, in groups: what ends while a group is on its way makes the next one.

use duetime::Outcome;
use duetime_core::Receipt;
use std::time::Duration;
use tokio::time::Instant;

/// Most outcomes in a group.
const GROUP_JOBS_MAX: usize = 1_000;
/// Groups on their way at a time: while one is being made durable, the next is taken up.
const GROUPS_MAX: usize = 2;
/// With so many outcomes unsettled nothing more is reserved.
const UNSETTLED_MAX: usize = 10_000;
/// Pause after the engine could not take a group.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) type Group = Vec<(Receipt, Outcome)>;

#[derive(Default)]
pub(super) struct Outbox {
    waiting: Group,
    groups: usize,
    not_before: Option<Instant>,
}

impl Outbox {
    pub(super) fn push(&mut self, receipt: Receipt, outcome: Outcome) {
        self.waiting.push((receipt, outcome));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.groups == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= UNSETTLED_MAX
    }

    /// When to look again, where that is later than now.
    pub(super) fn not_before(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|&at| at > now && !self.waiting.is_empty())
    }

    /// The next group, where one may go.
    pub(super) fn next(&mut self, now: Instant) -> Option<Group> {
        if self.waiting.is_empty() || self.groups >= GROUPS_MAX || self.not_before.is_some_and(|at| now < at) {
            return None;
        }
        self.groups += 1;
        let count = self.waiting.len().min(GROUP_JOBS_MAX);
        Some(self.waiting.drain(..count).collect())
    }

    /// A group has come back.
    pub(super) fn answered(&mut self) {
        self.groups -= 1;
        self.not_before = None;
    }

    /// Some of a group that has come back could not be taken, and wait again.
    pub(super) fn pause(&mut self, now: Instant) {
        self.not_before = Some(now + PAUSE);
    }
}
