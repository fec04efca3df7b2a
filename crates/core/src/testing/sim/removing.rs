//! Queues that are deleted, and pushes that a full queue refuses: what is gone, and why.

use super::history::RESCHEDULED;
use crate::clock::Millis;
use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::{Job, NewJob, Payload, Stage};
use crate::request::{PushOutcome, Pushed};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was asked for.
#[derive(Debug, Default)]
pub(super) struct Removing {
    /// Queues whose deletion was asked for; if it was forced, jobs made up to this instant may be cancelled.
    queues: BTreeMap<Arc<str>, Option<Millis>>,
    /// Jobs whose cancel was asked for one by one.
    cancelled: BTreeSet<JobId>,
    /// What was pushed.
    pushed: BTreeSet<Payload>,
    /// Of that, what each push so far was refused or dropped.
    refused: BTreeSet<Payload>,
    /// Of that, what a push may have made: a job that it has replaced does not have its origin, so a repeat may be refused.
    made: BTreeSet<Payload>,
}

impl Removing {
    /// A queue is about to be deleted; by force, jobs that were made up to this instant.
    pub(super) fn begin(&mut self, queue: &Arc<str>, forced: Option<Millis>) {
        let until = self.queues.entry(queue.clone()).or_default();
        *until = (*until).max(forced);
    }

    /// Whether the deletion of a queue was asked for.
    pub(super) fn is_asked(&self, queue: &str) -> bool {
        self.queues.contains_key(queue)
    }

    /// A job is about to be cancelled.
    pub(super) fn cancelling(&mut self, id: JobId) {
        self.cancelled.insert(id);
    }

    /// A job that waited is cancelled only if that was asked for: alone, by its tag, or by force with its queue.
    pub(super) fn wrong(&self, pushed: &Job, row: Option<&Job>) -> Option<String> {
        let row = row.filter(|row| row.stage == Stage::Cancelled)?;
        let has_tag = pushed.tags.iter().chain(row.tags.iter()).any(|tag| **tag != *RESCHEDULED);
        let forced = self.queues.get(&pushed.queue).copied().flatten();
        let is_asked = self.cancelled.contains(&pushed.id) || forced.is_some_and(|until| row.created_at.0 <= until);
        (!has_tag && !is_asked).then(|| format!("is cancelled, though nobody asked for that: {row:?}"))
    }

    /// A push is about to be made, perhaps once more.
    pub(super) fn pushing(&mut self, new: &NewJob) {
        let (is_first, was_refused) = (self.pushed.insert(new.payload.clone()), self.refused.remove(&new.payload));
        if !is_first && !was_refused {
            self.made.insert(new.payload.clone());
        }
    }

    /// A push was answered.
    pub(super) fn answered(&mut self, new: &NewJob, answer: &Result<Pushed, Error>) {
        let is_refused = match answer {
            Ok(pushed) => pushed.outcome == PushOutcome::Dropped,
            Err(error) => matches!(error, Error::QueueFull { .. }),
        };
        if is_refused && !self.made.contains(&new.payload) {
            self.refused.insert(new.payload.clone());
        }
    }

    /// A job that was refused does not run.
    pub(super) fn handed_out(&self, job: &Job) -> Option<String> {
        self.refused.contains(&job.payload).then(|| "though its push was refused".to_owned())
    }
}
