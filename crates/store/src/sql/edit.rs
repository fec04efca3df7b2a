//! External changes of rows that no broker holds. Any lease in such a row is therefore over.

use super::call::Verb;
use super::changes::Changes;
use super::fault::Fault;
use super::keys::Keys;
use super::record::insert;
use super::row::{NewRow, check};
use super::session::Session;
use super::tally;
use crate::sums::Tallies;
use async_trait::async_trait;
use duetime_core::ports::{Change, Edit, Edited, bucket};
use duetime_core::{Job, JobId, Millis, Numbers, rules};
use std::collections::BTreeMap;

/// Makes changes, in order.
pub(super) struct EditRows {
    pub(super) edits: Vec<Edit>,
    pub(super) now: Millis,
    pub(super) watermark: Millis,
}

#[async_trait]
impl Verb for EditRows {
    type Answer = Vec<Edited>;
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<Vec<Edited>, Fault> {
        let mut ids: Vec<JobId> = self.edits.iter().map(|edit| edit.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let new = self.edits.iter().flat_map(|edit| edit.change.successors()).map(|job| job.id);
        let all: Vec<JobId> = ids.iter().copied().chain(new).collect();
        let mut heads = session.heads(&all).await?;
        let taken: Vec<JobId> = heads.extract_if(.., |head| !ids.contains(&head.id)).map(|head| head.id).collect();
        let jobs = session.jobs(&ids, true).await?;
        let mut rows: BTreeMap<JobId, Option<Job>> = jobs.into_iter().map(|job| (job.id, Some(job))).collect();
        let key = |job: &Job| job.key.as_ref().map(|key| (job.queue.clone(), key.clone()));
        let mut keys = Keys::read(session, rows.values().flatten().filter_map(key).collect()).await?;
        let edited: Vec<Edited> =
            self.edits.iter().map(|edit| one(&mut rows, &mut keys, &taken, edit, self.now)).collect();

        let mut tallies = Tallies::default();
        let mut changes = Changes::default();
        for stored in &heads {
            match rows.get(&stored.id) {
                Some(Some(job)) if job.version == stored.version => {}
                Some(Some(job)) => {
                    check(job)?;
                    let live_key = job.live_key().filter(|key| keys.holder(&job.queue, key) == Some(job.id));
                    let row = NewRow { job, bucket: bucket(job.due_at.0, self.watermark), live_key };
                    changes.change(stored, row, Some(job), &mut tallies);
                }
                _ => changes.remove(stored, stored.stage, &mut tallies),
            }
        }
        let made = self.edits.iter().zip(&edited).filter(|(_, edited)| matches!(edited, Edited::Changed(_)));
        let successors: Vec<&Job> = made.flat_map(|(edit, _)| edit.change.successors()).collect();
        successors.iter().try_for_each(|job| check(job))?;
        successors.iter().for_each(|job| tallies.inserted(&job.queue, job.stage, 1));
        let row = |job| NewRow { job, bucket: bucket(job.due_at.0, self.watermark), live_key: None };
        let new: Vec<NewRow<'_>> = successors.into_iter().map(row).collect();
        changes.write(session).await?;
        insert(session, &new).await?;
        tally::write(tallies, session).await?;
        Ok(edited)
    }

    /// A repeated edit would return another answer.
    fn unsure(&mut self) -> bool {
        false
    }
}

fn one(rows: &mut BTreeMap<JobId, Option<Job>>, keys: &mut Keys, taken: &[JobId], edit: &Edit, now: Millis) -> Edited {
    let Some(slot) = rows.get_mut(&edit.id) else { return Edited::Unknown };
    let Some(row) = slot.clone() else { return Edited::Unknown };
    let mut job = row.clone();
    job.lease_until = None;
    let edited = rules::edit(&mut job, edit.version, &edit.change, now, Numbers::Ledger);
    match (&edit.change, &edited) {
        (Change::Delete, Edited::Changed(_)) => {
            if let Some(key) = row.live_key() {
                keys.free(&row.queue, key, row.id);
            }
            *slot = None;
            return Edited::Changed(row);
        }
        (_, Edited::Mismatch(_)) => return Edited::Mismatch(row),
        (Change::Retry { .. }, Edited::Changed(_)) => {
            if let Some(key) = job.live_key() {
                if let Some(holder) = keys.holder(&job.queue, key).filter(|&holder| holder != job.id) {
                    return Edited::KeyHeld(holder, job.queue.clone(), key.clone());
                }
                keys.take(&job.queue, key, job.id);
            }
        }
        _ => {}
    }
    if matches!(edited, Edited::Changed(_)) {
        if edit.change.successors().iter().any(|job| taken.contains(&job.id)) {
            return Edited::Undecided(row);
        }
        if job.live_key().is_none()
            && let Some(key) = row.live_key()
        {
            keys.free(&row.queue, key, row.id);
        }
        *slot = Some(job);
    }
    edited
}
