//! What the ledger does not know yet: of each job the latest note.

use super::by_id::ById;
use crate::clock::Millis;
use crate::id::JobId;
use crate::ports::Note;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
#[cfg_attr(any(test, feature = "testing"), derive(Clone))]
pub(super) struct Outbox {
    notes: ById<Box<Noted>>,
    /// By age: when it was written, and of which job. A queue with gaps would grow for as long as one note stays.
    order: BTreeMap<u64, (Millis, JobId)>,
    last: u64,
}

#[derive(Debug)]
#[cfg_attr(any(test, feature = "testing"), derive(Clone))]
struct Noted {
    number: u64,
    note: Note,
}

impl Outbox {
    /// Adds a note in place of an earlier one of the job, and answers it as it is to be recorded: one that is not of
    /// the job's full content is absorbed by an earlier one that is.
    pub(super) fn add(&mut self, note: Note, mono: Millis) -> Note {
        let id = note.job().id;
        self.last += 1;
        self.order.insert(self.last, (mono, id));
        let Some(noted) = self.notes.get_mut(id) else {
            self.notes.insert(id, Box::new(Noted { number: self.last, note: note.clone() }));
            return note;
        };
        self.order.remove(&noted.number);
        let note = match (&noted.note, note) {
            (Note::Rewritten(_), Note::Changed(job)) => Note::Rewritten(job),
            (_, note) => note,
        };
        **noted = Noted { number: self.last, note: note.clone() };
        note
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Note> {
        self.notes.get(id).map(|noted| &noted.note)
    }

    pub(super) fn len(&self) -> usize {
        self.notes.len()
    }

    /// The oldest notes written until `until`.
    pub(super) fn oldest(&self, limit: usize, until: Millis) -> Vec<Note> {
        let old = self.order.values().take_while(|&&(at, _)| at <= until).take(limit);
        old.filter_map(|&(_, id)| self.get(id).cloned()).collect()
    }

    /// Drops the note of a job up to a version, and answers it.
    pub(super) fn forget(&mut self, id: JobId, version: u64) -> Option<Note> {
        self.get(id).filter(|note| note.job().version <= version)?;
        let Noted { number, note } = *self.notes.remove(id)?;
        self.order.remove(&number);
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::{id, job};

    /// A note that the ledger never takes is no reason to keep track of those after it.
    #[test]
    fn one_note_that_stays_does_not_make_the_order_grow() {
        let mut outbox = Outbox::default();
        outbox.add(Note::Changed(job(1)), 0);
        for n in 2..100 {
            outbox.add(Note::Changed(job(n)), n);
            outbox.add(Note::Changed(job(n)), n);
            assert!(outbox.forget(id(n), u64::MAX).is_some());
        }
        assert_eq!((outbox.len(), outbox.order.len()), (1, 1));
        assert_eq!(outbox.oldest(10, 1_000).len(), 1);
    }
}
