//! Outcomes in the outbox that the ledger has not recorded yet: ended jobs, removals, and copies that a rule has moved to another queue.
//! A search of the broker by id does not find removals and copies.

use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::ports::{Broker, Ledger, OutboxEntry, Outcomes};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The entries of an outbox, read at one moment.
#[derive(Debug, Default)]
pub(in crate::engine) struct Unrecorded {
    /// The jobs that have entries.
    pub(in crate::engine) ids: Vec<JobId>,
    /// Those of them that are gone.
    pub(in crate::engine) removed: HashSet<JobId>,
    /// Copies that the ledger does not have, whole, as they were made.
    pub(in crate::engine) copies: BTreeMap<JobId, Job>,
}

impl Unrecorded {
    /// Reads at most `limit` entries.
    pub(in crate::engine) async fn read(broker: &dyn Broker, ledger: &dyn Ledger, limit: usize) -> Result<Self, Error> {
        let (mut unrecorded, mut moved) = (Self::default(), Vec::new());
        for entry in broker.outcomes(Outcomes::Oldest { limit, age_ms: 0 }).await? {
            unrecorded.ids.push(entry.job().id);
            match entry {
                OutboxEntry::Changed(_) | OutboxEntry::Rewritten(_) => {}
                OutboxEntry::Removed(job) => drop(unrecorded.removed.insert(job.id)),
                OutboxEntry::Moved(job, copy) => moved.push((job, copy)),
            }
        }
        if !moved.is_empty() {
            let ids: Vec<JobId> = moved.iter().map(|(job, _)| job.id).collect();
            let rows = ledger.get(&ids).await?;
            // If the ledger has the entry, it has had the copy: as it is now, or no more.
            let is_new = |job: &Job, row: &Job| OutboxEntry::replaces(job, row.version, row.epoch, row.stage);
            let new =
                moved.into_iter().zip(rows).filter(|((job, _), row)| row.as_ref().is_some_and(|row| is_new(job, row)));
            unrecorded.copies.extend(new.map(|((_, copy), _)| (copy.id, *copy)));
        }
        Ok(unrecorded)
    }
}

/// By queue, the jobs that have ended or are gone, of which the ledger still has a pending row. Of at most `limit` entries, only those of
/// queues in question. A job that is recorded meanwhile may be missing; none is counted that was not pending before the call.
pub(in crate::engine) async fn unrecorded_ends(
    broker: &dyn Broker,
    ledger: &dyn Ledger,
    limit: usize,
    is_in_question: impl Fn(&str) -> bool + Send,
) -> Result<HashMap<Arc<str>, u64>, Error> {
    let entries = broker.outcomes(Outcomes::Oldest { limit, age_ms: 0 }).await?;
    let has_ended = |entry: &&OutboxEntry| matches!(entry, OutboxEntry::Removed(_)) || !entry.job().is_pending();
    let ended = entries.iter().filter(has_ended).map(OutboxEntry::job).filter(|job| is_in_question(&job.queue));
    let ids: Vec<JobId> = ended.map(|job| job.id).collect();
    let mut ends = HashMap::new();
    if !ids.is_empty() {
        for row in ledger.get(&ids).await?.into_iter().flatten().filter(Job::is_pending) {
            *ends.entry(row.queue).or_default() += 1;
        }
    }
    Ok(ends)
}
