//! The state that a process keeps about the jobs in Redis. Reads jobs, and groups requests by partition.

use super::bus::Bus;
use super::call::{CALL_BYTES_MAX, Text};
use super::codec::Record;
use super::partitions::Partitions;
use super::scripts;
use super::usage::Usage;
use duetime_core::limits::STEP_JOBS_MAX;
use duetime_core::ports::Detail;
use duetime_core::{Error, JobId, Millis};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

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

/// The watermark that a partition was given, and in which memory.
pub(super) type Watermarks = BTreeMap<u16, (Arc<[u8]>, Millis)>;

/// The jobs of all partitions.
pub(super) struct Jobs {
    pub(super) partitions: Arc<Partitions>,
    pub(super) bus: Arc<Bus>,
    pub(super) usage: Arc<Usage>,
    /// Partitions that this process has used.
    used: Mutex<BTreeSet<u16>>,
    /// How often expired jobs and leases were looked for.
    pub(super) looks: AtomicU64,
    watermarks: Mutex<Watermarks>,
    /// The number of outbox entries by partition, as last seen.
    pub(super) backlog: Mutex<BTreeMap<u16, u64>>,
}

impl Jobs {
    pub(super) fn new(partitions: Arc<Partitions>, bus: Arc<Bus>, usage: Arc<Usage>) -> Self {
        Self {
            partitions,
            bus,
            usage,
            used: Mutex::default(),
            looks: AtomicU64::new(0),
            watermarks: Mutex::default(),
            backlog: Mutex::default(),
        }
    }

    pub(super) fn watermarks(&self) -> MutexGuard<'_, Watermarks> {
        self.watermarks.lock().expect("no panic under this lock")
    }

    /// Marks the partition as used by this process, which then looks there for expired jobs and leases.
    pub(super) fn uses(&self, partition: u16) {
        self.used.lock().expect("no panic under this lock").insert(partition);
    }

    pub(super) fn used(&self) -> Vec<u16> {
        self.used.lock().expect("no panic under this lock").iter().copied().collect()
    }

    /// Reads the stored records of these jobs, live or finished.
    pub(super) async fn records(&self, ids: &[JobId], detail: Detail) -> Result<Vec<Option<Record>>, Error> {
        let mut found = Vec::new();
        found.resize_with(ids.len(), || None);
        for (partition, positions) in groups(ids.iter().map(|&id| self.partitions.of(id))) {
            let mut left = positions.as_slice();
            while !left.is_empty() {
                let arguments = |text: &mut Text| {
                    text.flag(detail == Detail::Whole);
                    left.iter().for_each(|&i| text.push(&bytes(ids[i])));
                };
                let mut reply = self.partitions.run(partition, &scripts::GET, &[], arguments).await?;
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
