//! Reports.

use super::ModelLedger;
use crate::error::Error;
use crate::ports::{DueTally, Reports};
use async_trait::async_trait;

#[async_trait]
impl Reports for ModelLedger {
    async fn due(&self, mut tally: DueTally, _after: Option<String>) -> Result<(DueTally, Option<String>), Error> {
        let rows = self.there()?;
        let pending = rows.jobs.values().map(|(_, job)| job).filter(|job| job.is_pending());
        pending.for_each(|job| tally.add(&job.queue, job.due_at, 1));
        Ok((tally, None))
    }
}
