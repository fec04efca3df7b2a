//! Reports over many jobs, if Redis is its own ledger.

use super::broker::Scored;
use super::call::Text;
use super::handle::Redis;
use super::scripts;
use async_trait::async_trait;
use duetime_core::ports::{Detail, DueTally, FailedJob, Reports, Window, after};
use duetime_core::{Error, JobId, Millis, Stage};

/// Queues that a step counts: with a hundred bounds, about a millisecond of Redis.
const QUEUES_AT_ONCE: usize = 4;

/// Parses a cursor, `partition;name`: the partition, and the queue name to continue from.
fn stop(text: Option<&str>) -> Result<(u16, &str), Error> {
    let Some(text) = text else { return Ok((0, "")) };
    let read = || text.split_once(';').and_then(|(partition, from)| Some((partition.parse().ok()?, from)));
    read().ok_or_else(|| Error::invalid("after", "where a step ended", text))
}

#[async_trait]
impl Reports for Redis {
    async fn due(&self, mut tally: DueTally, place: Option<String>) -> Result<(DueTally, Option<String>), Error> {
        let (partition, from) = stop(place.as_deref())?;
        let queues = self.jobs.queues_of(partition, from, QUEUES_AT_ONCE).await?;
        if !queues.is_empty() {
            let names: Vec<&str> = queues.iter().map(AsRef::as_ref).collect();
            let arguments = |text: &mut Text| {
                text.number(tally.bounds().len() as u64);
                tally.bounds().iter().for_each(|&bound| text.number(bound));
                names.iter().for_each(|name| text.push(name.as_bytes()));
            };
            let mut answers = self.partitions.run(partition, &scripts::DUE, &names, arguments).await?.list()?;
            for name in names {
                let mut answer = answers.list()?;
                let mut number = || answer.number().map(|number| u64::try_from(number).unwrap_or(0));
                tally.add(name, 0, number()?);
                tally.add(name, Millis::MAX, number()?);
                let bounds: Vec<Millis> = tally.bounds().to_vec();
                for bound in bounds {
                    if answer.len() == 0 {
                        break;
                    }
                    tally.add(name, bound, u64::try_from(answer.number()?).unwrap_or(0));
                }
            }
        }
        let next = match queues.last().filter(|_| queues.len() == QUEUES_AT_ONCE) {
            Some(last) => Some(format!("{partition};{}", after(last))),
            None => (partition + 1 < self.partitions.keys.partitions()).then(|| format!("{};", partition + 1)),
        };
        Ok((tally, next))
    }

    async fn failed(&self, limit: usize) -> Result<Vec<FailedJob>, Error> {
        let mut places = Vec::new();
        for partition in 0..self.partitions.keys.partitions() {
            places.extend(self.jobs.page(partition, "latest_dead", "", Window::ALL, None, limit).await?);
            places.sort_unstable_by(|one: &Scored, other| other.cmp(one));
            places.truncate(limit);
        }
        let ids: Vec<JobId> = places.into_iter().map(|(_, id)| id).collect();
        let records = self.jobs.records(&ids, Detail::Head).await?.into_iter().flatten();
        let failed = records.filter(|record| record.job.stage == Stage::Failed);
        Ok(failed.map(|record| FailedJob::from(&record.job)).collect())
    }
}
