//! Reading without changes, in steps.

use super::job_table::JobTable;
use super::queue::{FIRST, Rank, Walk};
use crate::clock::Millis;
use crate::json::Timestamp;
use crate::limits::STEP_JOBS_MAX;
use crate::model::id::JobId;
use crate::model::job::{Job, State};
use crate::ports::{Counts, Listing, OLDEST_HEADS, OLDEST_LATE_MS, OutboxEntry};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// Entries of a wheel that are read in one step of a listing.
const SCAN_STEP: usize = 8_192;

/// The position of a listing. Parts are in the order of a job's life, so that a job which moves on meanwhile is not missed. Running jobs are read first
/// and last, because a worker may give one back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    First(JobId),
    Scheduled(usize),
    HeldBack,
    Ready(Rank),
    Overdue((Millis, JobId)),
    Running(JobId),
}

impl Part {
    pub(super) const FIRST: Self = Self::First(JobId::MIN);
}

/// The first places of a listing, in due order.
#[derive(Debug, Default)]
pub(super) struct First {
    places: BTreeSet<(Millis, JobId)>,
}

impl First {
    /// Keeps the place if it is among the first `limit`; returns whether it is.
    fn offer(&mut self, place: (Millis, JobId), limit: usize) -> bool {
        // A job that was given back meanwhile comes twice.
        if self.places.contains(&place) {
            return true;
        }
        if self.places.len() >= limit {
            if self.places.last().is_none_or(|&last| last <= place) {
                return false;
            }
            self.places.pop_last();
        }
        self.places.insert(place)
    }
}

impl JobTable {
    /// One step of a listing; returns which comes next.
    pub(super) fn list(&self, listing: &Listing, part: Part, first: &mut First) -> Option<Part> {
        let queue = self.queues.get(&listing.queue)?;
        let wants = |state| listing.states.contains(&state);
        let after = listing.after.and_then(|(due_at, id)| Some((due_at, JobId::new(id.get() + 1)?)));
        let start = after.unwrap_or((0, JobId::MIN)).max((listing.window.from, JobId::MIN));
        let (to, limit) = (listing.window.to, listing.limit);
        let mut offer = |place: (Millis, JobId)| place >= start && place.0 <= to && first.offer(place, limit);
        let mut offer_running = |from| {
            let mut more = queue.running.range(from..);
            for &id in more.by_ref().take(STEP_JOBS_MAX) {
                offer((self.due_at(id), id));
            }
            more.next().copied()
        };
        match part {
            Part::First(from) if wants(State::Running) && listing.states.len() > 1 => {
                Some(offer_running(from).map_or(Part::Scheduled(0), Part::First))
            }
            Part::First(_) => Some(Part::Scheduled(0)),
            Part::Scheduled(from) if wants(State::Scheduled) => {
                let next = queue.wheel.scan(from, SCAN_STEP, |due_at, id| {
                    offer((due_at, id));
                });
                Some(next.map_or(Part::HeldBack, Part::Scheduled))
            }
            Part::Scheduled(_) => Some(Part::Ready(FIRST)),
            Part::HeldBack => {
                queue.held_back.range(start..).take_while(|&&place| offer(place)).for_each(drop);
                Some(Part::Ready(FIRST))
            }
            Part::Ready(from) if wants(State::Ready) => {
                let next =
                    queue.walk(
                        from,
                        (start, to),
                        |(_, due_at, id)| {
                            if offer((due_at, id)) { Walk::On } else { Walk::NextPriority }
                        },
                    );
                Some(next.map_or(Part::Overdue((0, JobId::MIN)), Part::Ready))
            }
            Part::Overdue(from) if wants(State::Ready) => {
                let mut more = queue.overdue.range(from..);
                for &(_, id) in more.by_ref().take(STEP_JOBS_MAX) {
                    offer((self.due_at(id), id));
                }
                Some(more.next().map_or(Part::Running(JobId::MIN), |&next| Part::Overdue(next)))
            }
            Part::Ready(_) | Part::Overdue(_) => Some(Part::Running(JobId::MIN)),
            Part::Running(from) if wants(State::Running) => offer_running(from).map(Part::Running),
            Part::Running(_) => None,
        }
    }

    fn due_at(&self, id: JobId) -> Millis {
        self.live.get(id).expect("what a queue holds is live").due_at
    }

    /// The jobs of a listing that still match it.
    pub(super) fn listed(&self, listing: &Listing, first: First, now: Millis) -> Vec<Job> {
        let places = first.places.into_iter();
        let jobs = places.filter_map(|(due_at, id)| {
            let live = self.live.get(id).filter(|live| live.due_at == due_at && *live.queue() == listing.queue)?;
            Some(live.unpack(id)).filter(|job| listing.states.contains(&job.state(now)))
        });
        jobs.collect()
    }

    pub(super) fn get(&self, id: JobId) -> Option<Job> {
        if let Some(live) = self.live.get(id) {
            return Some(live.unpack(id));
        }
        match self.outbox.get(id)? {
            OutboxEntry::Removed(_) => None,
            entry => Some(entry.job().clone()),
        }
    }

    /// Counts of a queue whose due jobs have all been moved to ready, looking for the oldest from the rank `from` on;
    /// returns where to continue.
    pub(super) fn count(&self, name: &Arc<str>, from: Rank, counts: &mut Counts) -> Option<Rank> {
        let queue = self.queues.get(name)?;
        counts.scheduled = (queue.wheel.len() + queue.held_back.len()) as u64;
        counts.ready = (queue.ready.len() + queue.overdue.len()) as u64;
        counts.running = queue.running.len() as u64;
        counts.paused = queue.limits.paused;
        let mut examined = (u32::MAX, 0);
        queue.walk(from, ((0, JobId::MIN), Millis::MAX), |(priority, due_at, id)| {
            let made_at = self.live.get(id).map_or(0, |live| live.made_at());
            let since = Timestamp(due_at.max(made_at));
            counts.oldest_due = Some(counts.oldest_due.map_or(since, |oldest| oldest.min(since)));
            examined = if examined.0 == priority { (priority, examined.1 + 1) } else { (priority, 1) };
            // Those behind it are due later.
            let is_found = made_at <= due_at + OLDEST_LATE_MS || examined.1 >= OLDEST_HEADS;
            if is_found { Walk::NextPriority } else { Walk::On }
        })
    }

    /// At most `limit` names of queues from this one on, in order.
    pub(super) fn queue_names(&self, from: &str, limit: usize) -> Vec<Arc<str>> {
        let names =
            self.queues.range::<str, _>((Bound::Included(from), Bound::Unbounded)).map(|(name, _)| name.clone());
        names.take(limit).collect()
    }
}
