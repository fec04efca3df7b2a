//! What the ledger does not know yet: of each job the latest note.

use crate::clock::Millis;
use crate::id::JobId;
use crate::ports::Note;
use std::collections::{HashMap, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Outbox {
    notes: HashMap<JobId, Note>,
    /// By age: when, of which job, in which version. An entry whose note is gone or newer is passed over.
    order: VecDeque<(Millis, JobId, u64)>,
}

impl Outbox {
    /// Adds a note. One that is not of the job's full content is absorbed by an earlier one that is.
    pub(super) fn add(&mut self, note: Note, mono: Millis) {
        let (id, version) = (note.job().id, note.job().version);
        let note = match (self.notes.remove(&id), note) {
            (Some(Note::Rewritten(_)), Note::Changed(job)) => Note::Rewritten(job),
            (_, note) => note,
        };
        self.notes.insert(id, note);
        self.order.push_back((mono, id, version));
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Note> {
        self.notes.get(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.notes.len()
    }

    /// The oldest notes written until `until`.
    pub(super) fn oldest(&self, limit: usize, until: Millis) -> Vec<Note> {
        let old = self.order.iter().take_while(|&&(at, ..)| at <= until);
        let current =
            old.filter_map(|(_, id, version)| self.notes.get(id).filter(|note| note.job().version == *version));
        current.take(limit).cloned().collect()
    }

    /// Drops the note of a job up to a version.
    pub(super) fn forget(&mut self, id: JobId, version: u64) {
        if self.notes.get(&id).is_some_and(|note| note.job().version <= version) {
            self.notes.remove(&id);
        }
        while let Some((_, id, version)) = self.order.front()
            && self.notes.get(id).is_none_or(|note| note.job().version != *version)
        {
            self.order.pop_front();
        }
    }
}
