//! Extensions of leases, and the progress of their jobs.

use crate::engine::handout::Handout;
use crate::engine::settler::check_count;
use crate::error::Error;
use crate::json::{Span, Timestamp};
use crate::model::id::Receipt;
use crate::model::job::check_lease;
use crate::model::progress::Progress;
use crate::ports::{Extend, Extended, LeaseRecord};
use crate::request::{Answers, Extension};
use std::sync::Arc;

impl Handout {
    pub(in crate::engine) async fn extend(&self, leases: Vec<(Receipt, Option<u64>)>) -> Answers<Extension> {
        let extend = |(receipt, lease_ms)| Extend::new(receipt, lease_ms);
        self.extend_leases(leases.into_iter().map(extend).collect()).await
    }

    pub(in crate::engine) async fn progress(
        &self,
        receipt: Receipt,
        percent: u8,
        note: Option<Arc<str>>,
    ) -> Result<Extension, Error> {
        let progress = Progress { percent, note, at: Timestamp(self.broker.now()) };
        progress.check()?;
        let extend = Extend { progress: Some(Arc::new(progress)), ..Extend::new(receipt, None) };
        self.extend_leases(vec![extend]).await.pop().expect("one lease has one answer")
    }

    async fn extend_leases(&self, leases: Vec<Extend>) -> Answers<Extension> {
        let count = leases.len();
        let check = |lease: &Extend| lease.lease_ms.map(Span).map_or(Ok(()), check_lease);
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
            Extended::Until { lease_until, cancel_asked, .. } => {
                Ok(Extension { receipt, lease_until: Timestamp(lease_until), cancel_asked })
            }
            Extended::Lost => Err(Error::LeaseLost(receipt)),
        };
        let answers: Answers<Extension> = receipts.into_iter().zip(extended).map(answer).collect();
        self.consumers.workers.extended(answers.iter().flatten(), self.broker.now());
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, job};
    use crate::model::job::NewJob;

    #[tokio::test(start_paused = true)]
    async fn an_extension_is_noted_and_a_lost_lease_is_told_apart() {
        let fixture = Fixture::new().await;
        let (held, lost) = (fixture.running(job()).await, fixture.running(job()).await);
        let lost = Receipt { epoch: lost.epoch - 1, ..lost.receipt() };
        let answers = fixture.services.handout.extend(vec![(held.receipt(), Some(90_000)), (lost, None)]).await;
        assert_eq!(answers[1], Err(Error::LeaseLost(lost)));
        let until = answers[0].as_ref().unwrap().lease_until;
        assert_eq!(until, Timestamp(fixture.now() + 90_000));
        assert_eq!(fixture.row(held.id).unwrap().lease_until, Some(until), "the next process restores it");
    }

    #[tokio::test(start_paused = true)]
    async fn one_lease_that_is_too_long_extends_none() {
        let fixture = Fixture::new().await;
        let held = fixture.running(NewJob { lease: Some(Span(5_000)), ..job() }).await;
        let answers = fixture.services.handout.extend(vec![(held.receipt(), None), (held.receipt(), Some(1))]).await;
        assert!(answers.iter().all(|answer| matches!(answer, Err(Error::Invalid { .. }))), "{answers:?}");
        assert_eq!(fixture.held(held.id).await.unwrap().lease_until, held.lease_until);
    }
}
