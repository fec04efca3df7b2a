//! Jobs that a caller reserves ahead, beyond those that it can start at once (`free`). If it is killed, their leases expire, and
//! each counts as a crash although nobody began the job. A job that this would end is given back before the answer: its attempt
//! does not count, and the next reserve gets it.
//!
//! Work for nothing is bounded. Nothing is leased ahead from a queue with a rule of one attempt or one crash, nor from one with
//! a rate, because a rate counts what is given back. If most jobs of an answer are given back, nothing is leased ahead from their
//! queues for a moment.
//!
//! A repeat of a request decides as the first did, from the same leases in the same order.

use crate::engine::handout::Handout;
use crate::model::id::JobId;
use crate::ports::{Lease, Reserve, Reserved};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// How long nothing is leased ahead from queues of which most jobs were given back.
const REST: Duration = Duration::from_secs(1);
/// Most queues that are remembered. Beyond them all are forgotten.
const QUEUES_MAX: usize = 10_000;

/// Until when nothing is leased ahead from which queues.
#[derive(Debug, Default)]
pub(super) struct Rests(Mutex<HashMap<Arc<str>, Instant>>);

impl Rests {
    fn add<'a>(&self, queues: impl Iterator<Item = &'a Arc<str>>) {
        let (mut resting, until) = (self.0.lock().expect("no panic under this lock"), Instant::now() + REST);
        for queue in queues {
            if let Some(known) = resting.get_mut(queue) {
                *known = until;
                continue;
            }
            if resting.len() >= QUEUES_MAX {
                resting.clear();
            }
            resting.insert(queue.clone(), until);
        }
    }

    fn has(&self, queue: &str) -> bool {
        let resting = self.0.lock().expect("no panic under this lock");
        resting.get(queue).is_some_and(|&until| Instant::now() < until)
    }
}

impl Handout {
    /// How many jobs to lease for a caller that can start `free` of them at once.
    pub(super) fn limit_of(&self, reserve: &Reserve, free: usize) -> usize {
        let mut queues = reserve.pick.queues().unwrap_or_default().iter();
        if free < reserve.limit && queues.any(|queue| !self.leases_ahead(queue)) { free } else { reserve.limit }
    }

    fn leases_ahead(&self, queue: &str) -> bool {
        let settings = self.settings.of(queue);
        let rule = settings.rule();
        let is_single = rule.attempts() == Some(1) || rule.crashes() <= 1;
        !is_single && settings.rate.is_none() && !self.resting.has(queue)
    }

    /// Gives back the jobs beyond the first `free` that a crash of the caller would end.
    pub(super) async fn keep_startable(&self, reserved: &mut Reserved, free: usize) {
        if reserved.leases.len() <= free {
            return;
        }
        let ahead = reserved.leases.split_off(free);
        let (last, others): (Vec<Lease>, Vec<Lease>) =
            ahead.into_iter().partition(|lease| self.settler.ends_by_crash(&lease.job));
        reserved.leases.extend(others);
        if last.is_empty() {
            return;
        }
        if last.len() > reserved.leases.len() {
            self.resting.add(last.iter().map(|lease| &lease.job.queue));
        }
        let ids: HashSet<JobId> = last.iter().map(|lease| lease.job.id).collect();
        // The end of the lease has a later entry.
        reserved.entries.retain(|entry| !ids.contains(&entry.job().id));
        self.release_all_of(last).await;
        reserved.next_at = Some(self.broker.now());
    }
}
