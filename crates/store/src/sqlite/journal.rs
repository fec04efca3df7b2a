//! The journal of leases: what a process that is killed must not forget of the leases that it has answered and not yet written
//! into the store.
//!
//! Most jobs end before their leases are written, which saves a row for each. Until then the journal has them: a lease is
//! appended before it is answered, by one write that is not synced. So it outlives the process, but not a power failure, as the
//! rows of leases do. The next process writes them into the store before it begins.
//!
//! The file has two halves. Once one is full, the leases that are still not written are copied to the other, and it goes on
//! there. No record is ever removed: a lease whose job has changed since is below the stored version, and changes nothing.

use super::file::beside;
use crate::private;
use duetime_core::ports::LeaseRecord;
use duetime_core::{Error, JobId};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a record: seven numbers and their checksum.
const RECORD_BYTES: usize = 64;
/// Most records of a half: 8 MiB.
const HALF_RECORDS: usize = 128 << 10;
/// Records after which the other half is used, unless many are not written: 1 MiB.
const RECORDS_WANTED: usize = 16 << 10;
/// Records for which a half has room on the disk at first, and by which it grows: 16 KiB. A full disk does not stop those.
const RECORDS_PER_GROWTH: usize = 1 << 8;

/// The open journal.
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    /// The half that is used.
    half: usize,
    /// Its next record.
    at: usize,
    /// The record at which it is full.
    end: usize,
    /// The records of each half for which the disk has room.
    room: [usize; 2],
}

impl Journal {
    /// Opens the journal of a store, and returns the leases in it, the latest one of each job. They must be in the store before
    /// it [begins](Self::begin).
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it cannot be opened or read.
    pub(super) fn open(store: &Path) -> Result<(Self, Vec<LeaseRecord>), Error> {
        let path = beside(store, "-leases");
        let explain = |error: io::Error| explain(&path, &error);
        let file = private::open_lock(&path).map_err(explain)?;
        let length = usize::try_from(file.metadata().map_err(explain)?.len()).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(2 * HALF_RECORDS * RECORD_BYTES)];
        file.read_exact_at(&mut bytes, 0).map_err(explain)?;
        let mut latest: BTreeMap<JobId, LeaseRecord> = BTreeMap::new();
        for record in bytes.as_chunks().0.iter().filter_map(read) {
            let known = latest.entry(record.id).or_insert(record);
            if known.version < record.version {
                *known = record;
            }
        }
        let journal = Self { file, path, half: 0, at: 0, end: RECORDS_WANTED, room: [0; 2] };
        Ok((journal, latest.into_values().collect()))
    }

    /// Begins anew. The leases that it had are in the store.
    ///
    /// # Errors
    /// [`Error::Full`] if the disk has no room for it.
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        (0..2).try_for_each(|half| self.make_room(half, RECORDS_PER_GROWTH))
    }

    /// Appends leases. `unwritten` returns those that are not in the store yet.
    ///
    /// # Errors
    /// [`Error::Full`], or [`Error::Unavailable`] if it cannot be written. Nothing is appended then.
    pub(super) fn append(
        &mut self,
        leases: &[LeaseRecord],
        unwritten: impl FnOnce() -> Vec<LeaseRecord>,
    ) -> Result<(), Error> {
        let end = self.at + leases.len();
        if end <= self.end && self.make_room(self.half, end).is_ok() {
            self.write(self.half, self.at, leases)?;
            self.at = end;
            return Ok(());
        }
        let (half, mut kept) = (1 - self.half, unwritten());
        kept.extend(leases);
        if kept.len() > HALF_RECORDS {
            return Err(Error::Unavailable(format!(
                "{HALF_RECORDS} leases wait to be written, so no jobs are handed out"
            )));
        }
        self.make_room(half, kept.len())?;
        self.write(half, 0, &kept)?;
        (self.half, self.at) = (half, kept.len());
        self.end = (4 * kept.len()).clamp(RECORDS_WANTED, HALF_RECORDS);
        Ok(())
    }

    /// Forgets all leases. They are in the store.
    pub(super) fn empty(&self) {
        if let Err(error) = self.file.set_len(0) {
            tracing::debug!(%error, "the journal of leases could not be emptied");
        }
    }

    /// Makes sure that writing this many records of a half needs no more room on the disk.
    fn make_room(&mut self, half: usize, records: usize) -> Result<(), Error> {
        const ZEROS: [u8; RECORDS_PER_GROWTH * RECORD_BYTES] = [0; RECORDS_PER_GROWTH * RECORD_BYTES];
        while self.room[half] < records {
            self.write_bytes(half, self.room[half], &ZEROS)?;
            self.room[half] += RECORDS_PER_GROWTH;
        }
        Ok(())
    }

    fn write(&self, half: usize, at: usize, leases: &[LeaseRecord]) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(leases.len() * RECORD_BYTES);
        leases.iter().for_each(|lease| bytes.extend_from_slice(&write(lease)));
        self.write_bytes(half, at, &bytes)
    }

    fn write_bytes(&self, half: usize, at: usize, bytes: &[u8]) -> Result<(), Error> {
        let offset = (half * HALF_RECORDS + at) * RECORD_BYTES;
        self.file.write_all_at(bytes, offset as u64).map_err(|error| explain(&self.path, &error))
    }
}

fn explain(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Error::Full(format!("the disk of {} is full", path.display()))
        }
        _ => Error::Unavailable(format!(
            "writing or reading {path:?} failed ({error}); give this user write access to it"
        )),
    }
}

fn write(lease: &LeaseRecord) -> [u8; RECORD_BYTES] {
    let LeaseRecord { id, version, epoch, attempt, lease_until, started_at, updated_at, frees_key } = *lease;
    let counts = u64::from(attempt) << 1 | u64::from(frees_key);
    let numbers = [id.get(), version, epoch, counts, lease_until, started_at, updated_at];
    let mut bytes = [0; RECORD_BYTES];
    for (place, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers.into_iter().chain([checksum(&numbers)])) {
        *place = number.to_le_bytes();
    }
    bytes
}

/// The record, unless it is only partly written, or never was.
fn read(bytes: &[u8; RECORD_BYTES]) -> Option<LeaseRecord> {
    let mut numbers = [0; 7];
    let (places, _) = bytes.as_chunks::<8>();
    for (number, place) in numbers.iter_mut().zip(places) {
        *number = u64::from_le_bytes(*place);
    }
    let [id, version, epoch, counts, lease_until, started_at, updated_at] = numbers;
    if checksum(&numbers) != u64::from_le_bytes(places[7]) {
        return None;
    }
    let (attempt, frees_key) = (u32::try_from(counts >> 1).ok()?, counts & 1 == 1);
    Some(LeaseRecord { id: JobId::new(id)?, version, epoch, attempt, lease_until, started_at, updated_at, frees_key })
}

/// FNV-1a over whole numbers, with the high bits mixed in.
fn checksum(numbers: &[u64; 7]) -> u64 {
    numbers.iter().fold(0xcbf2_9ce4_8422_2325, |sum, number| {
        let sum = (sum ^ number).wrapping_mul(0x100_0000_01b3);
        sum ^ sum >> 32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(n: u64, version: u64) -> LeaseRecord {
        LeaseRecord {
            id: JobId::from_sequence(n),
            version,
            epoch: 7,
            attempt: 3,
            lease_until: 1_000 + n,
            started_at: 5,
            updated_at: 6,
            frees_key: n.is_multiple_of(2),
        }
    }

    #[test]
    fn leases_are_found_again_whichever_half_they_are_in() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store.db");
        let (mut journal, found) = Journal::open(&store).unwrap();
        assert_eq!(found, []);
        journal.begin().unwrap();
        let kept: Vec<LeaseRecord> = (1..100).map(|n| lease(n, 1)).collect();
        journal.append(&kept, Vec::new).unwrap();
        for round in 0..100 {
            let others: Vec<LeaseRecord> = (1_000..2_000).map(|n| lease(n, round + 1)).collect();
            journal.append(&others, || kept.clone()).unwrap();
        }
        assert!(journal.file.metadata().unwrap().len() < 16 << 20, "it stays in its halves");
        drop(journal);
        let (_, found) = Journal::open(&store).unwrap();
        assert_eq!(found[..99], kept);
        assert_eq!(found[99..], (1_000..2_000).map(|n| lease(n, 100)).collect::<Vec<_>>());
    }

    #[test]
    fn a_record_that_is_cut_off_is_none() {
        let bytes = write(&lease(1, 1));
        assert_eq!(read(&bytes), Some(lease(1, 1)));
        for cut in 0..RECORD_BYTES {
            let mut partly = bytes;
            if partly[cut..].iter().any(|&byte| byte != 0) {
                partly[cut..].fill(0);
                assert_eq!(read(&partly), None, "{cut}");
            }
        }
    }
}
