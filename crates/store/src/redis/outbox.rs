//! Entries that a ledger has not recorded yet. If Redis is its own ledger, these are only ends that new jobs begin with.

use super::call::{CALL_BYTES_MAX, Text};
use super::codec::{Decoder, Record};
use super::jobs::{Jobs, bytes, groups};
use super::reply::Reply;
use super::scripts;
use super::settle::entry;
use duetime_core::ports::{Detail, OutboxEntry, Outcomes};
use duetime_core::{Error, Job, JobId, Millis};

impl Jobs {
    pub(super) async fn outcomes_which(&self, which: Outcomes) -> Result<Vec<OutboxEntry>, Error> {
        let (limit, age_ms) = match which {
            Outcomes::Of(id) => return self.outcomes_of(&[id]).await,
            Outcomes::In { partition, skip, limit } => return self.oldest_in(partition, 0, skip, limit).await,
            Outcomes::Oldest { limit, age_ms } => (limit, age_ms),
        };
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut partitions = self.used();
        if partitions.is_empty() {
            // A process that only reads the store, such as an export, has used none.
            partitions.extend(0..self.partitions.keys.partitions());
        }
        for partition in partitions {
            // The search for expired leases counts them every second.
            let is_known_empty = self.backlogs().get(&partition) == Some(&0);
            if is_known_empty && self.partitions.is_ledger() {
                continue;
            }
            let left = limit.saturating_sub(entries.len());
            if left == 0 || bytes > CALL_BYTES_MAX {
                break;
            }
            let some = self.oldest_in(partition, age_ms, 0, left).await?;
            bytes += some.iter().map(|entry| entry.job().held_bytes()).sum::<usize>();
            entries.extend(some);
        }
        Ok(entries)
    }

    async fn oldest_in(
        &self,
        partition: u16,
        age_ms: u64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<OutboxEntry>, Error> {
        let arguments = |text: &mut Text| {
            text.number(limit as u64);
            text.number(age_ms);
            text.number(skip as u64);
        };
        let mut reply = self.partitions.run(partition, &scripts::OUTCOMES, &[], arguments).await?;
        let entries = read(reply.list()?, self.partitions.is_ledger())?;
        self.entry_backlog(partition, reply.number()? as u64);
        Ok(entries)
    }

    pub(super) async fn outcomes_of(&self, ids: &[JobId]) -> Result<Vec<OutboxEntry>, Error> {
        let mut entries = Vec::new();
        for (partition, chosen) in groups(ids.iter().map(|&id| self.partitions.of(id))) {
            let mut left = chosen.as_slice();
            while !left.is_empty() {
                let arguments = |text: &mut Text| {
                    (0..3).for_each(|_| text.number(0));
                    left.iter().for_each(|&i| text.push(&bytes(ids[i])));
                };
                let mut reply = self.partitions.run(partition, &scripts::OUTCOMES, &[], arguments).await?;
                entries.extend(read(reply.list()?, self.partitions.is_ledger())?);
                self.entry_backlog(partition, reply.number()? as u64);
                left = &left[reply.number()? as usize..];
            }
        }
        Ok(entries)
    }

    /// Sets the watermark: from now on, jobs due before this instant stay in Redis. It is set again if a memory may have
    /// lost it. The caller acts for all processes: it serves every partition, including leases and outcomes that others left
    /// there.
    pub(super) async fn set_watermarks(&self, watermark: Millis) -> Result<(), Error> {
        for partition in 0..self.partitions.keys.partitions() {
            self.uses(partition);
            let incarnation = self.partitions.incarnation(partition).await?;
            if self.watermarks().get(&partition) == Some(&(incarnation.clone(), watermark)) {
                continue;
            }
            self.partitions.run(partition, &scripts::WATERMARK, &[], |text: &mut Text| text.number(watermark)).await?;
            self.watermarks().insert(partition, (incarnation, watermark));
        }
        Ok(())
    }

    pub(super) async fn forget_entries(&self, noted: &[(JobId, u64)], watermark: Millis) -> Result<Vec<JobId>, Error> {
        let names_queues = watermark != Millis::MAX && !self.partitions.is_ledger();
        let outdated = self.forget_some(noted, watermark, names_queues).await?;
        if outdated.is_empty() {
            return Ok(outdated);
        }
        // Dropping jobs removes them from their queues, so the queues must be known. One may have come in since they were read.
        let noted: Vec<(JobId, u64)> = noted.iter().filter(|(id, _)| outdated.contains(id)).copied().collect();
        let dropped = self.forget_some(&noted, watermark, true).await?;
        Ok(if names_queues { outdated } else { dropped })
    }

    async fn forget_some(
        &self,
        noted: &[(JobId, u64)],
        watermark: Millis,
        names_queues: bool,
    ) -> Result<Vec<JobId>, Error> {
        let queues = if names_queues {
            let records = self.records(&noted.iter().map(|&(id, _)| id).collect::<Vec<_>>(), Detail::Head).await?;
            records.into_iter().map(|record| record.map(|record| record.job.queue)).collect()
        } else {
            vec![None; noted.len()]
        };
        let mut outdated = Vec::new();
        for (partition, chosen) in groups(noted.iter().map(|&(id, _)| self.partitions.of(id))) {
            let mut names: Vec<&str> = chosen.iter().filter_map(|&i| queues[i].as_deref()).collect();
            names.sort_unstable();
            names.dedup();
            let mut left = &chosen[..];
            while !left.is_empty() {
                let arguments = |text: &mut Text| {
                    text.number(watermark);
                    text.number(names.len() as u64);
                    for &i in left {
                        let (id, version) = noted[i];
                        text.push(&bytes(id));
                        text.number(version);
                        let number = queues[i].as_deref().and_then(|queue| names.binary_search(&queue).ok());
                        text.number(number.map_or(0, |number| number as u64 + 1));
                    }
                };
                let mut reply = self.partitions.run(partition, &scripts::FORGET, &names, arguments).await?;
                self.entry_backlog(partition, reply.number()? as u64);
                left = &left[reply.number()? as usize..];
                let mut ids = reply.list()?;
                while ids.len() > 0 {
                    outdated.push(ids.id()?);
                }
            }
        }
        Ok(outdated)
    }

    pub(super) fn entry_backlog(&self, partition: u16, count: u64) {
        self.backlogs().insert(partition, count);
    }

    pub(super) fn backlogs(&self) -> std::sync::MutexGuard<'_, std::collections::BTreeMap<u16, u64>> {
        self.backlog.lock().expect("no panic under this lock")
    }
}

fn read(mut reply: Reply, is_ledger: bool) -> Result<Vec<OutboxEntry>, Error> {
    let mut decoder = Decoder::default();
    let mut entries = Vec::new();
    while reply.len() > 0 {
        let (id, body, meta, result, packed) =
            (reply.id()?, reply.bytes()?, reply.bytes()?, reply.bytes()?, reply.bytes()?);
        let mut successors = Vec::new();
        let mut rest = &packed[..];
        while !rest.is_empty() {
            let (successor, left) = Record::unpacked(rest)
                .ok_or_else(|| Error::Damaged(format!("what follows the job {id} cannot be read")))?;
            (rest, _) = (left, successors.push(successor.job));
        }
        if !body.is_empty() {
            let record = decoder.record(id, &body, &meta, &result)?;
            entries.push(entry(record).followed_by(successors));
        } else if let Some(first) = successors.first().filter(|_| is_ledger) {
            // The record of the job was deleted, or dropped to make room. What follows it is not lost with it.
            entries.push(OutboxEntry::Removed(Job { id, ..first.clone() }).followed_by(successors));
        }
    }
    Ok(entries)
}
