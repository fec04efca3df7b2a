//! Takes: at most once, and answered once that is recorded.

use super::fixture::{Bench, job, pass};
use duetime_core::engine::{Source, TakeRequest};
use duetime_core::{Error, Job, JobId, NewJob, State};
use std::time::Duration;

/// A take of at most `limit` jobs from the queue `default`.
pub(crate) fn take(limit: usize, request_id: Option<&str>) -> TakeRequest {
    let from = Source::Queues(vec!["default".into()]);
    TakeRequest { from, limit, due_from: None, due_to: None, request_id: request_id.map(Into::into) }
}

impl Bench {
    async fn take(&self, request_id: Option<&str>) -> Result<Vec<JobId>, Error> {
        let taken = self.engine.take(take(10, request_id)).await?;
        Ok(taken.leases.iter().map(|lease| lease.job.id).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn a_take_that_cannot_be_recorded_hands_nothing_out() {
    let bench = Bench::new().await;
    let Job { id, .. } = bench.push(job()).await;
    bench.ledger.set_away(true);
    assert_eq!(bench.take(Some("a")).await.unwrap_err().code(), "store_unavailable");
    assert_eq!(bench.state(id).await, State::Ready);
    bench.ledger.set_away(false);
    assert_eq!(bench.lease().await.job.attempt, 1, "the attempt of the take does not count");
}

/// A take that was given back is not remembered as the answer.
#[tokio::test(start_paused = true)]
async fn a_take_that_was_given_back_may_be_repeated() {
    let bench = Bench::new().await;
    let Job { id, .. } = bench.push(job()).await;
    bench.ledger.set_away(true);
    for _ in 0..3 {
        bench.take(Some("a")).await.unwrap_err();
    }
    bench.ledger.set_away(false);
    for _ in 0..3 {
        assert_eq!(bench.take(Some("a")).await.unwrap(), [id]);
    }
    assert_eq!(bench.take(Some("b")).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_taken_leaves_its_key() {
    let bench = Bench::new().await;
    let keyed = || NewJob { key: Some("k".into()), ..job() };
    let first = bench.push(keyed()).await;
    assert_eq!(bench.take(None).await.unwrap(), [first.id]);
    let second = bench.push(keyed()).await;
    assert_ne!(second.id, first.id);
    assert_eq!(bench.take(None).await.unwrap(), [second.id]);
}

/// The lease of a take is not known to the ledger, and that of no worker.
#[tokio::test(start_paused = true)]
async fn what_was_to_be_taken_waits_after_a_restart() {
    let bench = Bench::new().await;
    let Job { id, .. } = bench.push(job()).await;
    bench.ledger.set_away(true);
    bench.take(None).await.unwrap_err();
    bench.ledger.set_away(false);
    let after = Bench::over(bench.ledger.clone(), bench.clock.clone()).await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(after.take(None).await.unwrap(), [id]);
    let last = Bench::over(bench.ledger.clone(), bench.clock.clone()).await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(last.take(None).await.unwrap(), []);
}
