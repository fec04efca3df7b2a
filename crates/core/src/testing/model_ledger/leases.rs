//! Noted leases.

use super::ModelLedger;
use crate::error::Error;
use crate::model::job::Job;
use crate::ports::{LeaseRecord, Leases};
use async_trait::async_trait;

#[async_trait]
impl Leases for ModelLedger {
    async fn lease(&self, leases: Vec<LeaseRecord>) -> Result<(), Error> {
        // Like a journal beside the rows: it can be written when they cannot.
        let mut rows = self.rows();
        leases.iter().for_each(|entry| rows.lease(entry));
        Ok(())
    }

    async fn leased(&self) -> Result<Vec<Job>, Error> {
        drop(self.there()?);
        Ok(self.jobs().into_iter().filter(|job| job.is_pending() && job.lease_until.is_some()).collect())
    }
}
