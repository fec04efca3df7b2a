//! Putting jobs into Redis.

use super::call::Text;
use super::codec::Record;
use super::jobs::{Jobs, bytes, groups_by_size};
use super::reply::id;
use super::scripts;
use super::usage::{Free, JOB_BYTES};
use duetime_core::json::Timestamp;
use duetime_core::ports::{Put, Reading, Room};
use duetime_core::{Error, Job, JobId};

/// The result for a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PutAnswer {
    /// It is new.
    New,
    /// It is not new.
    Put(Put),
    /// The job with this id already has its origin.
    Known(JobId),
}

/// A job, packed.
struct JobBytes {
    body: Vec<u8>,
    meta: Vec<u8>,
}

impl Jobs {
    /// Puts jobs; if Redis is its own ledger, this records them.
    pub(super) async fn put_jobs(&self, jobs: Vec<Job>, reading: Reading, room: Room) -> Result<Vec<PutAnswer>, Error> {
        let mut answers = vec![PutAnswer::New; jobs.len()];
        let now = self.partitions.clock.now();
        let restored = |job: Job| {
            let mut record = Record::new(job);
            record.job.lease_until = record.job.restored_until(now).map(Timestamp);
            if record.job.lease_until.is_some() {
                // From now on it does not count as given by a clock that was ahead.
                record.job.updated_at = record.job.updated_at.min(Timestamp(now));
            }
            record
        };
        let records: Vec<Record> = jobs.into_iter().map(restored).collect();
        for (partition, positions) in
            groups_by_size(records.iter().map(|record| (self.partitions.of(record.job.id), record.bytes())))
        {
            let pack = |&position: &usize| {
                let record = &records[position];
                JobBytes { body: record.body(self.partitions.is_ledger()), meta: record.meta() }
            };
            let packed: Vec<JobBytes> = positions.iter().map(pack).collect();
            let size: usize = packed.iter().map(|job| job.body.len() + job.meta.len()).sum();
            let free = self.usage.free(room);
            let put = self.put_some(partition, &records, &positions, &packed, (reading, free), &mut answers).await;
            if self.partitions.is_ledger() && matches!(put, Err(Error::Full(_))) {
                // Between two looks at the memory of Redis its use was underestimated.
                self.usage.ask(&self.partitions.link).await?;
                self.make_room().await?;
                self.put_some(partition, &records, &positions, &packed, (reading, free), &mut answers).await?;
            } else {
                put?;
            }
            let new = positions.iter().filter(|&&position| answers[position] == PutAnswer::New).count();
            self.usage.add(new as u64 * (JOB_BYTES + (size / packed.len()) as u64));
        }
        Ok(answers)
    }

    async fn put_some(
        &self,
        partition: u16,
        records: &[Record],
        positions: &[usize],
        packed: &[JobBytes],
        (reading, free): (Reading, Option<Free>),
        answers: &mut [PutAnswer],
    ) -> Result<(), Error> {
        self.uses(partition);
        let mut queues: Vec<&str> = Vec::new();
        // An estimate, from this batch, of how many bytes a job of each queue takes.
        let mut sizes: Vec<(u64, u64)> = Vec::new();
        let mut numbers = Vec::with_capacity(positions.len());
        for (&position, packed) in positions.iter().zip(packed) {
            let queue: &str = &records[position].job.queue;
            let known = queues.iter().rposition(|known| *known == queue);
            let number = known.unwrap_or_else(|| {
                queues.push(queue);
                sizes.push((0, 0));
                queues.len() - 1
            });
            sizes[number].0 += 1;
            sizes[number].1 += JOB_BYTES + (packed.body.len() + packed.meta.len()) as u64;
            numbers.push(number);
        }
        let arguments = |text: &mut Text| {
            // Jobs that were read before the partition's memory was known are treated as read at the earliest possible time.
            text.number(if self.partitions.was_known(partition, reading) { reading.at } else { 0 });
            match free {
                Some(Free { bytes: [due, soon, later], least }) => {
                    text.push(format!("{due},{soon},{later},{least}").as_bytes());
                }
                None => text.push(b""),
            }
            text.number(queues.len() as u64);
            queues.iter().for_each(|queue| text.push(queue.as_bytes()));
            sizes.iter().for_each(|(jobs, bytes)| text.number(bytes / jobs));
            for ((&position, packed), number) in positions.iter().zip(packed).zip(&numbers) {
                let job = &records[position].job;
                text.number(*number as u64 + 1);
                text.push(&bytes(job.id));
                text.number(job.version);
                text.number(job.due_at.0);
                text.number(u64::from(job.priority));
                text.number(job.lease_until.map_or(0, |at| at.0));
                text.number(job.start_by().unwrap_or(0));
                text.push(&packed.body);
                text.push(&packed.meta);
            }
        };
        let mut reply = self.partitions.run(partition, &scripts::PUT, &queues, arguments).await?.list()?;
        for &position in positions {
            answers[position] = match reply.number_or_bytes()? {
                Ok(0) => PutAnswer::Put(Put::Held),
                Ok(1) => PutAnswer::Put(Put::Tombstone),
                Ok(2) => PutAnswer::Put(Put::Stale),
                Ok(4) => PutAnswer::Put(Put::Full),
                Ok(_) => PutAnswer::New,
                Err(named) => match named.strip_prefix(b"=") {
                    Some(first) => PutAnswer::Known(id(first)?),
                    None => PutAnswer::Put(Put::KeyHeld(id(&named)?)),
                },
            };
        }
        Ok(())
    }
}
