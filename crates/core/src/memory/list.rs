//! Looking without touching.

use super::held::Held;
use crate::clock::Millis;
use crate::id::JobId;
use crate::job::{Job, State};
use crate::ports::{Counts, Listing, Note};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Entries of a wheel that are looked at in one step of a listing.
const SCAN_STEP: usize = 8_192;

/// The first places of a listing, in due order.
#[derive(Debug, Default)]
pub(super) struct First {
    places: BTreeSet<(Millis, JobId)>,
}

impl First {
    /// Keeps the place where it is among the first `limit`; answers whether it is.
    fn offer(&mut self, place: (Millis, JobId), limit: usize) -> bool {
        if self.places.len() >= limit {
            if self.places.last().is_some_and(|&last| last <= place) {
                return false;
            }
            self.places.pop_last();
        }
        self.places.insert(place)
    }
}

impl Held {
    /// What the listing finds among jobs that are not scheduled.
    pub(super) fn list_due(&self, listing: &Listing, first: &mut First) {
        let Some(queue) = self.queues.get(&listing.queue) else { return };
        let wants = |state| listing.states.contains(&state);
        let after = listing.after.and_then(|(due_at, id)| Some((due_at, JobId::new(id.get() + 1)?)));
        let start = after.unwrap_or((0, JobId::MIN)).max((listing.window.from, JobId::MIN));
        let to = listing.window.to;
        if wants(State::Ready) {
            queue.ready_by_priority(start, to, |(_, due_at, id)| first.offer((due_at, id), listing.limit));
        }
        if wants(State::Scheduled) {
            let held_back = queue.held_back.range(start..).take_while(|place| place.0 <= to);
            held_back.take_while(|&&place| first.offer(place, listing.limit)).for_each(drop);
        }
        if wants(State::Running) {
            for id in &queue.running {
                let place = (self.live[id].due_at, *id);
                if place >= start && place.0 <= to {
                    first.offer(place, listing.limit);
                }
            }
        }
    }

    /// The same for a part of the scheduled jobs; answers where the next part begins.
    pub(super) fn list_scheduled(&self, listing: &Listing, from: usize, first: &mut First) -> Option<usize> {
        let queue = self.queues.get(&listing.queue)?;
        queue.wheel.scan(from, SCAN_STEP, |due_at, id| {
            let is_after = listing.after.is_none_or(|after| after < (due_at, id));
            if is_after && (listing.window.from..=listing.window.to).contains(&due_at) {
                first.offer((due_at, id), listing.limit);
            }
        })
    }

    pub(super) fn get(&self, id: JobId) -> Option<Job> {
        if let Some(live) = self.live.get(&id) {
            return Some(live.unpack(id));
        }
        match self.outbox.get(id)? {
            Note::Removed(_) => None,
            note => Some(note.job().clone()),
        }
    }

    /// Counts of a queue whose due jobs have all been moved to ready.
    pub(super) fn count(&self, name: &Arc<str>) -> Counts {
        let Some(queue) = self.queues.get(name) else { return Counts::default() };
        let mut oldest_due = None;
        queue.ready_by_priority((0, JobId::MIN), Millis::MAX, |(_, due_at, _)| {
            oldest_due = Some(oldest_due.map_or(due_at, |oldest: Millis| oldest.min(due_at)));
            false
        });
        Counts {
            scheduled: (queue.wheel.len() + queue.held_back.len()) as u64,
            ready: queue.ready.len() as u64,
            running: queue.running.len() as u64,
            oldest_due,
            paused: queue.paused,
        }
    }

    /// The jobs of a listing, as far as they are still live.
    pub(super) fn listed(&self, first: First) -> Vec<Job> {
        let places = first.places.into_iter();
        places.filter_map(|(_, id)| self.live.get(&id).map(|live| live.unpack(id))).collect()
    }
}
