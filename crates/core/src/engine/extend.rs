//! Extensions of leases, and the progress of their jobs.

use super::settle::check_count;
use super::{Answers, Engine, Extension};
use crate::error::Error;
use crate::model::id::Receipt;
use crate::model::job::check_lease;
use crate::model::progress::Progress;
use crate::ports::{Extend, Extended, LeaseRecord};
use std::sync::Arc;

impl Engine {
    /// Extends leases to this many milliseconds from now (`None`: their original length).
    pub async fn extend(&self, leases: Vec<(Receipt, Option<u64>)>) -> Answers<Extension> {
        let extend = |(receipt, lease_ms)| Extend::new(receipt, lease_ms);
        self.extend_leases(leases.into_iter().map(extend).collect()).await
    }

    /// Records the progress of a leased job, 0 to 100 percent, with a note of at most 1 KiB. That also extends its lease, by
    /// its original length, since the worker is evidently alive.
    ///
    /// # Errors
    /// [`Error::Invalid`] beyond a limit; [`Error::LeaseLost`] if the lease has ended.
    pub async fn progress(&self, receipt: Receipt, percent: u8, note: Option<Arc<str>>) -> Result<Extension, Error> {
        let progress = Progress { percent, note, at: self.now() };
        progress.check()?;
        let extend = Extend { progress: Some(Arc::new(progress)), ..Extend::new(receipt, None) };
        self.extend_leases(vec![extend]).await.pop().expect("one lease has one answer")
    }

    async fn extend_leases(&self, leases: Vec<Extend>) -> Answers<Extension> {
        let count = leases.len();
        let check = |lease: &Extend| lease.lease_ms.map_or(Ok(()), check_lease);
        if let Err(error) = check_count(count).and_then(|()| Ok(leases.iter().try_for_each(check)?)) {
            return vec![Err(error); count];
        }
        let receipts: Vec<Receipt> = leases.iter().map(|lease| lease.receipt).collect();
        let extended = match self.metrics.stores.extend.time(self.broker.extend(leases)).await {
            Ok(extended) => extended,
            Err(error) => return vec![Err(error); count],
        };
        let noted = extended.iter().filter_map(|extended| match extended {
            Extended::Until { lease, .. } => *lease,
            Extended::Lost => None,
        });
        let noted: Vec<LeaseRecord> = noted.collect();
        if let Some(leases) = self.leases.as_ref().filter(|_| !noted.is_empty())
            && let Err(error) = leases.lease(noted).await
        {
            return vec![Err(error); count];
        }
        let answer = |(receipt, extended)| match extended {
            Extended::Until { lease_until, cancel_asked, .. } => Ok(Extension { receipt, lease_until, cancel_asked }),
            Extended::Lost => Err(Error::LeaseLost(receipt)),
        };
        let answers: Answers<Extension> = receipts.into_iter().zip(extended).map(answer).collect();
        self.workers.extended(answers.iter().flatten(), self.now());
        answers
    }
}
