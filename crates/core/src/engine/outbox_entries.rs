//! Outcomes in the outbox that the ledger has not recorded yet: ended jobs, removals, and new jobs that begin with an end. A search
//! of the broker by id does not find removals and new jobs.

use crate::error::Error;
use crate::limits::STEP_JOBS_MAX;
use crate::model::id::JobId;
use crate::model::job::{Job, Stage};
use crate::ports::{Broker, Ledger, OutboxEntry, Outcomes};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The entries of an outbox, read at one moment.
#[derive(Debug, Default)]
pub(in crate::engine) struct OutboxEntries {
    /// The jobs that have entries.
    pub(in crate::engine) ids: Vec<JobId>,
    /// Those of them that are gone.
    pub(in crate::engine) removed: HashSet<JobId>,
    /// New jobs that the ledger does not have, whole, as they were made.
    pub(in crate::engine) successors: BTreeMap<JobId, Job>,
}

impl OutboxEntries {
    /// Reads at most `limit` entries.
    pub(in crate::engine) async fn read(broker: &dyn Broker, ledger: &dyn Ledger, limit: usize) -> Result<Self, Error> {
        let (mut unrecorded, mut followed) = (Self::default(), Vec::new());
        for entry in broker.outcomes(Outcomes::Oldest { limit, age_ms: 0 }).await? {
            unrecorded.ids.push(entry.job().id);
            if entry.removes() {
                unrecorded.removed.insert(entry.job().id);
            }
            if !entry.successors().is_empty() {
                followed.push(entry);
            }
        }
        if broker.is_ledger() {
            let new = followed.into_iter().flat_map(|entry| entry.parts().1);
            unrecorded.successors = missing(ledger, new.collect()).await?;
        } else if !followed.is_empty() {
            let ids: Vec<JobId> = followed.iter().map(|entry| entry.job().id).collect();
            let rows = ledger.get(&ids).await?;
            // If the ledger has the entry, it has had the new jobs: as they are now, or no more.
            let is_new = |job: &Job, row: &Job| OutboxEntry::replaces(job, row.version, row.epoch, row.stage);
            let new = followed.into_iter().zip(rows);
            let new = new.filter(|(entry, row)| row.as_ref().is_some_and(|row| is_new(entry.job(), row)));
            let successors = new.flat_map(|(entry, _)| entry.parts().1);
            unrecorded.successors.extend(successors.map(|job| (job.id, job)));
        }
        Ok(unrecorded)
    }
}

/// Those of these new jobs that the ledger does not have. Where the broker is the ledger, the end of the job before them is there
/// before they are: they may wait for room.
async fn missing(ledger: &dyn Ledger, new: Vec<Job>) -> Result<BTreeMap<JobId, Job>, Error> {
    let ids: Vec<JobId> = new.iter().map(|job| job.id).collect();
    let rows = if ids.is_empty() { Vec::new() } else { ledger.get(&ids).await? };
    Ok(new.into_iter().zip(rows).filter(|(_, row)| row.is_none()).map(|(job, _)| (job.id, job)).collect())
}

/// Pages of the outbox of a partition that are searched for ends, at most.
const ENDS_PAGES_MAX: usize = 20;

/// Jobs that have ended or are gone, and may still have a pending row: their ids, with the version in which they ended, and the queue.
#[derive(Debug, Default)]
pub(in crate::engine) struct OutboxEnds(BTreeMap<JobId, (u64, Arc<str>)>);

impl OutboxEnds {
    /// Those of these queues in the outbox: in its [`ENDS_PAGES_MAX`] oldest pages of each partition.
    pub(in crate::engine) async fn read(broker: &dyn Broker, queues: &BTreeSet<Arc<str>>) -> Result<Self, Error> {
        let mut ends = Self::default();
        let partitions: BTreeSet<u16> = queues.iter().map(|queue| broker.partition(queue)).collect();
        for partition in partitions {
            let mut skip = 0;
            for _ in 0..ENDS_PAGES_MAX {
                let page = Outcomes::In { partition, skip, limit: STEP_JOBS_MAX };
                let entries = broker.outcomes(page).await?;
                skip += entries.len();
                ends.add(&entries, queues);
                // This backlog is that of all partitions.
                if entries.is_empty() || skip >= broker.backlog() {
                    break;
                }
            }
        }
        Ok(ends)
    }

    fn add(&mut self, entries: &[OutboxEntry], queues: &BTreeSet<Arc<str>>) {
        let has_ended = |entry: &&OutboxEntry| entry.removes() || !entry.job().is_pending();
        let ended = entries.iter().filter(has_ended).map(OutboxEntry::job);
        let of_these = ended.filter(|job| queues.contains(&job.queue));
        self.0.extend(of_these.map(|job| (job.id, (job.version, job.queue.clone()))));
    }

    /// By queue, how many of them have a pending row that does not know of the end.
    pub(in crate::engine) async fn pending(&self, ledger: &dyn Ledger) -> Result<HashMap<Arc<str>, u64>, Error> {
        let mut pending = HashMap::new();
        let (ids, ends): (Vec<JobId>, Vec<&(u64, Arc<str>)>) = self.0.iter().unzip();
        for (ids, ends) in ids.chunks(STEP_JOBS_MAX).zip(ends.chunks(STEP_JOBS_MAX)) {
            for (row, (end, queue)) in ledger.versions(ids).await?.into_iter().zip(ends) {
                // A job that was retried by hand is pending in a later version.
                if let Some((version, Stage::Pending)) = row
                    && version < *end
                {
                    *pending.entry(queue.clone()).or_default() += 1;
                }
            }
        }
        Ok(pending)
    }
}
