//! External changes of jobs.

use super::call::Text;
use super::change::{Came, Step};
use super::codec::Record;
use super::jobs::{bytes, groups, place};
use super::parts::Parts;
use super::reserve::ended;
use super::scripts;
use super::settle::entry;
use duetime_core::ports::{Change, Edit, Edited, OutboxEntry};
use duetime_core::{Error, JobId, rules};

impl Parts {
    /// Edits jobs in a broker beside a ledger. Leaves a tombstone for each unknown job before it answers.
    pub(super) async fn edit_held(&self, edits: &[Edit]) -> Result<(Vec<Edited>, Vec<OutboxEntry>), Error> {
        let (mut edited, mut entries) = self.edit_jobs(edits, false).await?;
        let mut left: Vec<usize> = (0..edits.len()).collect();
        loop {
            left.retain(|&i| edited[i] == Edited::Unknown);
            // A job may have been put since it was looked up.
            let known = self.add_tombstones(&left.iter().map(|&i| edits[i].id).collect::<Vec<_>>()).await?;
            left.retain(|&i| known.contains(&edits[i].id));
            if left.is_empty() {
                return Ok((edited, entries));
            }
            let again: Vec<Edit> = left.iter().map(|&i| edits[i].clone()).collect();
            let (answers, noted) = self.edit_jobs(&again, false).await?;
            left.iter().zip(answers).for_each(|(&i, answer)| edited[i] = answer);
            entries.extend(noted);
        }
    }

    /// Changes jobs; finished jobs only if requested.
    pub(super) async fn edit_jobs(
        &self,
        edits: &[Edit],
        also_ended: bool,
    ) -> Result<(Vec<Edited>, Vec<OutboxEntry>), Error> {
        let ids: Vec<JobId> = edits.iter().map(|edit| edit.id).collect();
        let now = self.clock.now();
        let decide = |i: usize, record: Option<&Record>| match record {
            None => Step::Answer((Edited::Unknown, None)),
            Some(record) if !record.is_live() && !also_ended => Step::Answer((ended(&record.job), None)),
            Some(record) if record.takes => Step::Answer((Edited::Running(record.job.clone()), None)),
            Some(record) => {
                let Edit { version, change, .. } = &edits[i];
                let mut changed = record.clone();
                let made = rules::edit(&mut changed.job, *version, change, now, self.numbers(edits[i].id));
                if !matches!(made, Edited::Changed(_) | Edited::CancelAsked(_)) {
                    return Step::Answer((made, None));
                }
                changed.rewritten |= matches!(change, Change::Update(_) | Change::Kick { .. });
                changed.removed = matches!(change, Change::Delete);
                let noted = (!self.options.is_ledger()).then(|| entry(changed.clone()));
                Step::Write(Box::new(changed), None, (made, noted))
            }
        };
        let (mut edited, mut entries) = (Vec::with_capacity(edits.len()), Vec::new());
        for came in self.change(&ids, vec![None; ids.len()], decide).await? {
            edited.push(match came {
                Came::Of((made, noted)) => {
                    entries.extend(noted);
                    made
                }
                Came::KeyHeld(holder, record) => {
                    let key = record.job.key.clone().unwrap_or_default();
                    Edited::KeyHeld(holder, record.job.queue.clone(), key)
                }
            });
        }
        Ok((edited, entries))
    }

    /// Leaves tombstones, so that no earlier reading of these jobs is put until the ledger has answered. Returns the jobs
    /// that exist here, which get none.
    async fn add_tombstones(&self, ids: &[JobId]) -> Result<Vec<JobId>, Error> {
        let mut known = Vec::new();
        for (partition, chosen) in groups(ids.iter().map(|&id| place(self, id))) {
            let arguments = |text: &mut Text| chosen.iter().for_each(|&i| text.push(&bytes(ids[i])));
            let mut reply = self.run(partition, &scripts::TOMBSTONE, &[], arguments).await?.list()?;
            while reply.len() > 0 {
                known.push(reply.id()?);
            }
        }
        Ok(known)
    }
}
