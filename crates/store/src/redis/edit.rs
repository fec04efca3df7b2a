//! External changes of jobs.

use super::call::Text;
use super::change::{ChangeResult, Step};
use super::codec::Record;
use super::jobs::{Jobs, bytes, groups};
use super::scripts;
use super::settle::noted;
use duetime_core::ports::{Change, Edit, Edited, OutboxEntry};
use duetime_core::{Error, JobId, rules};

impl Jobs {
    /// Changes jobs; finished jobs only if requested.
    pub(super) async fn edit_jobs(
        &self,
        edits: &[Edit],
        also_ended: bool,
    ) -> Result<(Vec<Edited>, Vec<OutboxEntry>), Error> {
        let ids: Vec<JobId> = edits.iter().map(|edit| edit.id).collect();
        let now = self.partitions.clock.now();
        let decide = |i: usize, record: Option<&Record>| match record {
            None => Step::Answer((Edited::Unknown, None)),
            Some(record) if !record.is_live() && !also_ended => {
                let Edit { version, change, .. } = &edits[i];
                Step::Answer((rules::edit_ended(&record.job, *version, change), None))
            }
            Some(record) if record.takes => Step::Answer((Edited::Running(record.job.clone()), None)),
            Some(record) => {
                let Edit { version, change, .. } = &edits[i];
                let mut changed = record.clone();
                let made = rules::edit(&mut changed.job, *version, change, now, self.partitions.numbers(edits[i].id));
                if !matches!(made, Edited::Changed(_) | Edited::CancelAsked(_)) {
                    return Step::Answer((made, None));
                }
                changed.rewritten |= change.rewrites();
                changed.removed = matches!(change, Change::Delete);
                let successors = if changed.is_live() { &[] } else { change.successors() };
                let noted = noted(&changed, successors, self.partitions.is_ledger());
                Step::Write(Box::new(changed), successors.to_vec(), (made, noted))
            }
        };
        let (mut edited, mut entries) = (Vec::with_capacity(edits.len()), Vec::new());
        for came in self.change(&ids, vec![None; ids.len()], decide).await? {
            edited.push(match came {
                ChangeResult::Of((made, noted)) => {
                    entries.extend(noted);
                    made
                }
                ChangeResult::KeyHeld(holder, record) => {
                    let key = record.job.key.clone().unwrap_or_default();
                    Edited::KeyHeld(holder, record.job.queue.clone(), key)
                }
            });
        }
        Ok((edited, entries))
    }

    /// Leaves tombstones for jobs that the ledger is about to edit in these versions. Returns the jobs that exist here, which
    /// get none.
    pub(super) async fn add_tombstones(&self, rows: &[(JobId, u64)]) -> Result<Vec<JobId>, Error> {
        let mut known = Vec::new();
        for (partition, chosen) in groups(rows.iter().map(|&(id, _)| self.partitions.of(id))) {
            let arguments = |text: &mut Text| {
                for &i in &chosen {
                    let (id, version) = rows[i];
                    text.push(&bytes(id));
                    text.number(version);
                }
            };
            let mut reply = self.partitions.run(partition, &scripts::TOMBSTONE, &[], arguments).await?.list()?;
            while reply.len() > 0 {
                known.push(reply.id()?);
            }
        }
        Ok(known)
    }
}
