//! Imports finished jobs.

use super::call::Text;
use super::codec::Record;
use super::jobs::{bytes, groups, place};
use super::parts::Parts;
use super::scripts;
use duetime_core::ports::Recorded;
use duetime_core::{Error, Job};

/// Maximum bytes of jobs in one call: larger calls would delay others.
const CALL_BYTES_MAX: usize = 4 << 20;

impl Parts {
    /// Records finished jobs, if Redis is its own ledger.
    pub(super) async fn keep_jobs(&self, jobs: Vec<Job>) -> Result<Vec<Recorded>, Error> {
        let mut answers = vec![Recorded::Repeat; jobs.len()];
        let records: Vec<Record> = jobs.into_iter().map(Record::new).collect();
        for (partition, positions) in groups(records.iter().map(|record| place(self, record.job.id))) {
            self.uses(partition);
            let mut left = positions.as_slice();
            while !left.is_empty() {
                let (now, later) = left.split_at(fitting(&records, left));
                let arguments = |text: &mut Text| {
                    text.number(self.options.ended_max as u64);
                    text.number(self.options.dead_max as u64);
                    now.iter().for_each(|&position| push(text, &records[position]));
                };
                let mut reply = self.run(partition, &scripts::KEEP, &[], arguments).await?.list()?;
                for &position in now {
                    match reply.number_or_id()? {
                        Ok(0) => {}
                        Ok(_) => answers[position] = Recorded::Created,
                        Err(first) => answers[position] = Recorded::Known(first),
                    }
                }
                left = later;
            }
        }
        Ok(answers)
    }
}

fn push(text: &mut Text, record: &Record) {
    let job = &record.job;
    text.push(&bytes(job.id));
    text.number(job.finished_at.unwrap_or(job.updated_at));
    text.push(&record.body(true));
    text.push(&record.full_meta());
    match &job.result {
        Some(result) => text.push(&[b"=", &**result].concat()),
        None => text.push(b""),
    }
}

/// How many of the first jobs fit in one call.
fn fitting(records: &[Record], positions: &[usize]) -> usize {
    let mut size = 0;
    let fits = |&&position: &&usize| {
        let is_first = size == 0;
        let job = &records[position].job;
        size += job.held_bytes();
        is_first || size <= CALL_BYTES_MAX
    };
    positions.iter().take_while(fits).count()
}
