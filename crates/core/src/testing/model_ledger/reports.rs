//! Reports.

use super::ModelLedger;
use crate::error::Error;
use crate::model::job::Stage;
use crate::ports::{DueTally, FailedJob, Reports};
use async_trait::async_trait;
use std::cmp::Reverse;

#[async_trait]
impl Reports for ModelLedger {
    async fn due(&self, mut tally: DueTally, _after: Option<String>) -> Result<(DueTally, Option<String>), Error> {
        let rows = self.there()?;
        let pending = rows.jobs.values().map(|(_, job)| job).filter(|job| job.is_pending());
        pending.for_each(|job| tally.add(&job.queue, job.due_at.0, 1));
        Ok((tally, None))
    }

    async fn failed(&self, limit: usize) -> Result<Vec<FailedJob>, Error> {
        let rows = self.there()?;
        let failed = rows.jobs.values().map(|(_, job)| job).filter(|job| job.stage == Stage::Failed);
        let mut failed: Vec<FailedJob> = failed.map(FailedJob::from).collect();
        failed.sort_by_key(|job| Reverse(job.finished_at));
        failed.truncate(limit);
        Ok(failed)
    }
}
