//! Changes from outside.

use super::held::{Held, Now};
use super::tombs::Tomb;
use crate::clock::Millis;
use crate::id::JobId;
use crate::job::State;
use crate::ports::{Change, Edit, Edited, Note};
use crate::rules;

impl Held {
    pub(super) fn edit(&mut self, edit: &Edit, now: Now, notes: &mut Vec<Note>) -> Edited {
        let Some(live) = self.live.get(&edit.id) else { return self.absent(edit.id, now) };
        let mut job = live.unpack(edit.id);
        let edited = rules::edit(&mut job, edit.version, &edit.change, now.wall);
        if !matches!(edited, Edited::Changed(_) | Edited::CancelAsked(_)) {
            return edited;
        }
        if matches!(edit.change, Change::Delete) {
            rules::touch(&mut job, now.wall);
        }
        self.remove(edit.id);
        let note = match edit.change {
            Change::Delete => Note::Removed(job),
            Change::Update(_) => Note::Rewritten(job),
            _ => Note::Changed(job),
        };
        notes.push(note.clone());
        if note.job().is_pending() && !matches!(note, Note::Removed(_)) {
            self.insert(note.job().clone(), now);
            self.outbox.add(note, now.mono);
        } else {
            self.end(note, now);
        }
        edited
    }

    /// The answer for a job that is not live here: it has ended, or is unknown and gets a tombstone until the ledger
    /// has answered.
    fn absent(&mut self, id: JobId, now: Now) -> Edited {
        if let Some(state) = self.ended(id, now.wall) {
            return Edited::Unfit { id, state };
        }
        if self.tombs.get(id).is_none() {
            self.tombs.add(id, Tomb { version: u64::MAX, end: None }, now.mono);
        }
        Edited::Unknown
    }

    /// How a job has ended, as far as that is not recorded yet.
    pub(super) fn ended(&self, id: JobId, now: Millis) -> Option<State> {
        match self.outbox.get(id)? {
            Note::Removed(_) => None,
            note => Some(note.job().state(now)),
        }
    }
}
