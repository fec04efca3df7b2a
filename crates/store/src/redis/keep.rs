//! Imports finished jobs.

use super::call::Text;
use super::codec::Record;
use super::jobs::{Jobs, bytes, groups_by_size};
use super::scripts;
use duetime_core::ports::Recorded;
use duetime_core::{Error, Job};

impl Jobs {
    /// Records finished jobs, if Redis is its own ledger.
    pub(super) async fn keep_jobs(&self, jobs: Vec<Job>) -> Result<Vec<Recorded>, Error> {
        let mut answers = vec![Recorded::Repeat; jobs.len()];
        let records: Vec<Record> = jobs.into_iter().map(Record::new).collect();
        for (partition, chosen) in
            groups_by_size(records.iter().map(|record| (self.partitions.of(record.job.id), record.bytes())))
        {
            self.uses(partition);
            let arguments = |text: &mut Text| {
                text.number(self.partitions.options.ended_max as u64);
                text.number(self.partitions.options.dead_max as u64);
                chosen.iter().for_each(|&position| push(text, &records[position]));
            };
            let mut reply = self.partitions.run(partition, &scripts::KEEP, &[], arguments).await?.list()?;
            for &position in &chosen {
                match reply.number_or_id()? {
                    Ok(0) => {}
                    Ok(_) => answers[position] = Recorded::Created,
                    Err(first) => answers[position] = Recorded::Known(first),
                }
            }
        }
        Ok(answers)
    }
}

fn push(text: &mut Text, record: &Record) {
    let job = &record.job;
    text.push(&bytes(job.id));
    text.number(job.finished_at.unwrap_or(job.updated_at).0);
    text.push(&record.body(true));
    text.push(&record.full_meta());
    match &job.result {
        Some(result) => text.push(&[b"=", &**result].concat()),
        None => text.push(b""),
    }
}
