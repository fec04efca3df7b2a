//! Reads jobs, and groups requests by partition.

use super::call::{CALL_BYTES_MAX, Text};
use super::codec::Record;
use super::parts::Parts;
use super::scripts;
use duetime_core::limits::STEP_JOBS_MAX;
use duetime_core::ports::Detail;
use duetime_core::{Error, JobId};
use std::collections::BTreeMap;

/// The partition of a job.
pub(super) fn place(parts: &Parts, id: JobId) -> u16 {
    id.partition() % parts.keys.partitions()
}

/// Positions by partition, in groups small enough for one script.
pub(super) fn groups(partitions: impl Iterator<Item = u16>) -> Vec<(u16, Vec<usize>)> {
    groups_of(partitions, STEP_JOBS_MAX)
}

/// Positions by partition, in groups of at most this size.
pub(super) fn groups_of(partitions: impl Iterator<Item = u16>, size: usize) -> Vec<(u16, Vec<usize>)> {
    let mut by_partition: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (position, partition) in partitions.enumerate() {
        by_partition.entry(partition).or_default().push(position);
    }
    let mut groups = Vec::new();
    for (partition, positions) in by_partition {
        groups.extend(positions.chunks(size).map(|chunk| (partition, chunk.to_vec())));
    }
    groups
}

/// Positions by partition, in groups small enough for one script, of jobs with these sizes.
pub(super) fn groups_by_size(jobs: impl Iterator<Item = (u16, usize)>) -> Vec<(u16, Vec<usize>)> {
    let (partitions, sizes): (Vec<u16>, Vec<usize>) = jobs.unzip();
    let mut parts = Vec::new();
    for (partition, positions) in groups(partitions.into_iter()) {
        let mut left = positions.as_slice();
        while !left.is_empty() {
            let (now, later) = left.split_at(fitting(left.iter().map(|&position| sizes[position])));
            parts.push((partition, now.to_vec()));
            left = later;
        }
    }
    parts
}

/// How many of the first jobs, with these sizes, fit in one call; at least one.
pub(super) fn fitting(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = |&(position, size): &(usize, usize)| {
        bytes += size;
        position == 0 || bytes <= CALL_BYTES_MAX
    };
    sizes.enumerate().take_while(fits).count()
}

/// The bytes of an id, as used for members and fields.
pub(super) fn bytes(id: JobId) -> [u8; 8] {
    id.get().to_be_bytes()
}

impl Parts {
    /// Reads the stored records of these jobs, live or finished.
    pub(super) async fn records(&self, ids: &[JobId], detail: Detail) -> Result<Vec<Option<Record>>, Error> {
        let mut found = Vec::new();
        found.resize_with(ids.len(), || None);
        for (partition, positions) in groups(ids.iter().map(|&id| place(self, id))) {
            let mut left = positions.as_slice();
            while !left.is_empty() {
                let arguments = |text: &mut Text| {
                    text.flag(detail == Detail::Whole);
                    left.iter().for_each(|&i| text.push(&bytes(ids[i])));
                };
                let mut reply = self.run(partition, &scripts::GET, &[], arguments).await?;
                let records = reply.list()?.records()?;
                let (read, rest) = left.split_at(records.len());
                for (position, (_, record)) in read.iter().zip(records) {
                    found[*position] = record;
                }
                left = rest;
            }
        }
        Ok(found)
    }
}
