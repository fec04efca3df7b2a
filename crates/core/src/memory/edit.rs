//! Changes from outside.

use super::job_table::{JobTable, Now};
use super::live::{Live, Whereabouts};
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::ports::{Change, Edit, Edited, OutboxEntry};
use crate::rules;

impl JobTable {
    pub(super) fn edit(&mut self, edit: &Edit, now: Now, entries: &mut Vec<OutboxEntry>) -> Edited {
        let Some(live) = self.live.get(edit.id) else {
            let Some(noted) = self.outbox.get(edit.id) else { return Edited::Unknown };
            entries.push(noted.clone());
            return rules::edit_ended(noted.job(), edit.version, &edit.change);
        };
        let mut job = live.unpack(edit.id);
        if live.run().is_some_and(|run| run.takes) {
            return Edited::Running(job);
        }
        let edited = rules::edit(&mut job, edit.version, &edit.change, now.wall, self.numbers());
        match &edited {
            Edited::Changed(_) => drop(self.remove(edit.id)),
            Edited::CancelAsked(_) => self.repack(job.clone()),
            _ => return edited,
        }
        if matches!(edited, Edited::Changed(_)) && job.is_pending() && !matches!(edit.change, Change::Delete) {
            self.insert(job.clone(), now);
        }
        let entry = match &edit.change {
            Change::Delete => OutboxEntry::Removed(job),
            change if change.rewrites() => OutboxEntry::Rewritten(job),
            _ => OutboxEntry::Changed(job),
        };
        let successors = if entry.job().is_pending() { &[] } else { edit.change.successors() };
        entries.push(self.outbox.add(entry.followed_by(successors.to_vec()), now.mono));
        edited
    }

    /// The ledger is about to edit the job, unless it is here.
    pub(super) fn bar(&mut self, id: JobId, version: u64, now: Now) -> bool {
        let is_here = self.live.get(id).is_some() || self.outbox.get(id).is_some();
        if !is_here {
            self.tombstones.bar(id, version, now.mono);
        }
        is_here
    }

    /// Changes a running job without changing its lease.
    fn repack(&mut self, job: Job) {
        let id = job.id;
        let live = self.live.get_mut(id).expect("the caller found it");
        let before = live.bytes();
        if let Whereabouts::Running(run) = &mut live.place {
            (run.updated_at, run.lease_until) =
                (job.updated_at.0, job.lease_until.map_or(run.lease_until, |until| until.0));
        }
        let place = std::mem::replace(&mut live.place, Whereabouts::Ready);
        **live = Live::pack(job, place, &mut self.names);
        self.reweigh(id, before);
    }

    /// The answer for a job that has ended here, if that is not recorded yet.
    pub(super) fn ended(&self, id: JobId) -> Option<Edited> {
        self.outbox.get(id).map(|noted| rules::ended(noted.job()))
    }
}
