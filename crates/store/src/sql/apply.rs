//! Records outcomes. Rows are locked, their changes are computed one after the other, and the results are written.

use super::changes::Changes;
use super::fault::Fault;
use super::keys::Keys;
use super::record::insert;
use super::row::{Head, NewRow};
use super::session::{Key, Session};
use crate::sums::Tallies;
use duetime_core::ports::{OutboxEntry, bucket};
use duetime_core::{Job, JobId, Millis, Stage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row and its new state.
#[derive(Default)]
struct Slot {
    /// In the state that was read.
    stored: Option<Head>,
    /// Its current version; `None` if there is no row.
    version: Option<u64>,
    /// The epoch of its last lease.
    epoch: u64,
    /// Its new row, if there was none.
    new: Option<Job>,
    /// Its new state.
    state: Option<Job>,
    /// The source of its new payload and tags.
    body: Option<Job>,
    live_key: Option<Arc<str>>,
    watermark: Millis,
    /// The last stage of its job, if the row is removed.
    last: Option<Stage>,
}

impl Slot {
    /// The current stage of the job.
    fn stage(&self) -> Option<Stage> {
        let changed = self.new.as_ref().or(self.state.as_ref()).map(|job| job.stage);
        changed.or(self.stored.as_ref().map(|stored| stored.stage))
    }

    /// Whether an entry about this job changes it.
    fn is_replaced_by(&self, job: &Job) -> bool {
        let (Some(version), Some(stage)) = (self.version, self.stage()) else { return false };
        OutboxEntry::replaces(job, version, self.epoch, stage)
    }
}

/// Records outcomes of jobs; returns the ids of successors that other jobs have.
pub(super) async fn apply(
    session: &mut Session,
    entries: &[(&OutboxEntry, Millis)],
    tallies: &mut Tallies,
) -> Result<Vec<JobId>, Fault> {
    let Some(mut slots) = read(session, entries).await? else { return Ok(Vec::new()) };
    let mut taken = Vec::new();
    let mut keys = Keys::read(session, claims(entries, &slots)).await?;
    for &(entry, watermark) in entries {
        apply_entry(&mut slots, &mut keys, entry, watermark, &mut taken);
    }
    write(session, slots, tallies).await?;
    Ok(taken)
}

fn apply_entry(
    slots: &mut BTreeMap<JobId, Slot>,
    keys: &mut Keys,
    entry: &OutboxEntry,
    watermark: Millis,
    taken: &mut Vec<JobId>,
) {
    match entry {
        OutboxEntry::Changed(job) => drop(change(slots, keys, job, false, watermark)),
        OutboxEntry::Rewritten(job) => drop(change(slots, keys, job, true, watermark)),
        OutboxEntry::Removed(job) => remove(slots, keys, job),
        // Only together with the change itself, so that a repeat does not restore a job that was pruned since.
        OutboxEntry::Followed(change, successors) => {
            let is_known = |id| slots.get(&id).is_some_and(|slot| slot.version.is_some());
            let known: Vec<JobId> = successors.iter().map(|job| job.id).filter(|&id| is_known(id)).collect();
            let job = change.job();
            let slot = slots.get(&job.id);
            let before = slot.filter(|slot| slot.is_replaced_by(job)).and_then(Slot::stage);
            if before.is_some() && !known.is_empty() {
                return taken.extend(known);
            }
            apply_entry(slots, keys, change, watermark, taken);
            if before.is_some_and(|before| !before.leads_like(job.stage)) {
                successors.iter().for_each(|job| add(slots, keys, job, watermark));
            }
        }
    }
}

async fn read(
    session: &mut Session,
    entries: &[(&OutboxEntry, Millis)],
) -> Result<Option<BTreeMap<JobId, Slot>>, Fault> {
    let mut ids: Vec<JobId> = jobs(entries).map(|job| job.id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(None);
    }
    let heads = session.heads(&ids).await?;
    let mut slots: BTreeMap<JobId, Slot> = ids.iter().map(|id| (*id, Slot::default())).collect();
    for head in heads {
        if let Some(slot) = slots.get_mut(&head.id) {
            (slot.version, slot.epoch) = (Some(head.version), head.epoch);
            slot.live_key.clone_from(&head.live_key);
            slot.stored = Some(head);
        }
    }
    Ok(Some(slots))
}

/// All jobs of these entries.
fn jobs<'a>(entries: &'a [(&OutboxEntry, Millis)]) -> impl Iterator<Item = &'a Job> {
    entries.iter().flat_map(|(entry, _)| std::iter::once(entry.job()).chain(entry.successors()))
}

/// Keys that jobs of these entries hold but their rows do not.
fn claims(entries: &[(&OutboxEntry, Millis)], slots: &BTreeMap<JobId, Slot>) -> Vec<Key> {
    let claims = jobs(entries).filter_map(|job| {
        let key = job.live_key()?;
        let has = slots.get(&job.id).is_some_and(|slot| slot.live_key.as_ref() == Some(key));
        (!has).then(|| (job.queue.clone(), key.clone()))
    });
    let frees = slots.values().filter_map(|slot| {
        let head = slot.stored.as_ref()?;
        Some((head.queue.clone(), head.live_key.clone()?))
    });
    let claims: Vec<Key> = claims.collect();
    if claims.is_empty() { claims } else { claims.into_iter().chain(frees).collect() }
}

/// Changes a row if the entry replaces it. Returns whether it did.
fn change(slots: &mut BTreeMap<JobId, Slot>, keys: &mut Keys, job: &Job, body: bool, watermark: Millis) -> bool {
    let Some(slot) = slots.get_mut(&job.id).filter(|slot| slot.is_replaced_by(job)) else { return false };
    (slot.version, slot.epoch) = (Some(job.version), job.epoch);
    slot.watermark = watermark;
    claim(slot, keys, job);
    match &mut slot.new {
        Some(new) if !body => {
            *new = Job { payload: new.payload.clone(), tags: new.tags.clone(), ..job.clone() };
        }
        Some(new) => *new = job.clone(),
        None => {
            slot.state = Some(job.clone());
            if body {
                slot.body = slot.state.clone();
            }
        }
    }
    true
}

fn add(slots: &mut BTreeMap<JobId, Slot>, keys: &mut Keys, job: &Job, watermark: Millis) {
    let Some(slot) = slots.get_mut(&job.id) else { return };
    (slot.version, slot.epoch) = (Some(job.version), job.epoch);
    slot.watermark = watermark;
    slot.new = Some(job.clone());
    claim(slot, keys, job);
}

fn remove(slots: &mut BTreeMap<JobId, Slot>, keys: &mut Keys, job: &Job) {
    let Some(slot) = slots.get_mut(&job.id) else { return };
    if slot.version.is_none_or(|version| version > job.version) {
        return;
    }
    if let Some(key) = slot.live_key.take() {
        keys.free(&job.queue, &key, job.id);
    }
    (slot.version, slot.new, slot.state, slot.body) = (None, None, None, None);
    slot.last = Some(job.stage);
}

/// Gives the row the key that the job holds, unless another job has it. That cannot happen while the broker and this store
/// agree. If they disagree, a job without its key is better than a lost job.
fn claim(slot: &mut Slot, keys: &mut Keys, job: &Job) {
    let wanted = job.live_key();
    if wanted == slot.live_key.as_ref() {
        return;
    }
    if let Some(old) = slot.live_key.take() {
        keys.free(&job.queue, &old, job.id);
    }
    let Some(key) = wanted else { return };
    match keys.holder(&job.queue, key) {
        Some(holder) if holder != job.id => {
            tracing::warn!(id = %job.id, %holder, queue = &*job.queue, key = &**key, "a key is held by another job");
        }
        _ => {
            keys.take(&job.queue, key, job.id);
            slot.live_key = Some(key.clone());
        }
    }
}

async fn write(session: &mut Session, slots: BTreeMap<JobId, Slot>, tallies: &mut Tallies) -> Result<(), Fault> {
    let (mut changes, mut new) = (Changes::default(), Vec::new());
    for slot in slots.values() {
        let row = |job| NewRow { job, bucket: bucket(job.due_at.0, slot.watermark), live_key: slot.live_key.as_ref() };
        if let Some(job) = &slot.new {
            tallies.inserted(&job.queue, job.stage, 1);
            new.push(row(job));
        }
        match (&slot.stored, &slot.state) {
            (Some(stored), _) if slot.version.is_none() => {
                changes.remove(stored, slot.last.unwrap_or(stored.stage), tallies);
            }
            (Some(stored), Some(job)) => changes.change(stored, row(job), slot.body.as_ref(), tallies),
            _ => {}
        }
    }
    changes.write(session).await?;
    insert(session, &new).await
}
