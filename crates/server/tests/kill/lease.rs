//! Leases that outlive a kill.

use crate::common::Site;
use duetime::{Client, Error, JobError, Worker};
use duetime_core::api::Span;
use duetime_core::engine::{Outcome, ReserveRequest, Settlement, Source};
use duetime_core::json::Timestamp;
use duetime_core::rules::Failure;
use duetime_core::{JobId, Millis, Receipt, State};
use std::time::Duration;
use tokio::sync::oneshot;

fn one() -> ReserveRequest {
    let from = Source::Queues(vec!["default".into()]);
    ReserveRequest::new(from).limit(1).wait(Span(20_000))
}

async fn lease(client: &Client) -> Receipt {
    client.leases().reserve(one()).await.unwrap().leases[0].job.receipt()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_outlives_a_kill_where_the_job_was_given_back_just_before() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(&folder.path().join("duetime.db"));
    let client = site.client();
    client.push_raw("job", *b"1").await.unwrap();
    let mut receipt = lease(&client).await;
    // Given back by one worker and leased by another, which waits, so that the first end is not recorded yet when the second
    // lease begins.
    for _ in 0..20 {
        let release = client.leases().settle(vec![(receipt, Outcome::release(Span(0)))]);
        let (released, next) = tokio::join!(release, lease(&client));
        released.unwrap().remove(0).unwrap();
        receipt = next;
    }
    site.kill();
    site.start_again();
    let client = site.client();
    let again = client.leases().reserve(ReserveRequest { wait: Span(0), ..one() }).await.unwrap();
    assert!(again.leases.is_empty(), "{receipt} was forgotten: {:?}", again.leases);
    assert_eq!(client.leases().complete(receipt, None).await.unwrap().state, State::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_is_told_again_after_a_kill_is_answered_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(&folder.path().join("duetime.db"));
    let client = site.client();
    for _ in 0..2 {
        client.push_raw("job", *b"1").await.unwrap();
    }
    let stale = lease(&client).await;
    client.leases().release(stale, Duration::ZERO).await.unwrap();
    let (completed, failed) = (lease(&client).await, lease(&client).await);
    let failure = || Failure { is_final: true, ..Failure::default() };
    client.leases().complete(completed, None).await.unwrap();
    client.leases().fail(failed, failure()).await.unwrap();
    site.kill();
    site.start_again();

    let client = site.client();
    assert_eq!(client.leases().complete(completed, None).await.unwrap().state, State::Succeeded);
    assert_eq!(client.leases().fail(failed, failure()).await.unwrap().state, State::Failed);
    let is_lost = |result: Result<Settlement, Error>| result.is_err_and(|error| error.code() == "lease_lost");
    assert!(is_lost(client.leases().complete(failed, None).await));
    assert!(is_lost(client.leases().fail(completed, failure()).await));
    assert!(is_lost(client.leases().release(completed, Duration::ZERO).await));
    assert!(is_lost(client.leases().complete(stale, None).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_extends_by_the_length_that_the_lease_began_with_after_a_kill_too() {
    const LEASE_MS: u64 = 1_500;
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start_on_a_fixed_port(&folder.path().join("duetime.db"));
    let client = site.client();
    let id = client.push_raw("job", *b"1").await.unwrap().id;
    let worker = Worker::new(&client).lease(Duration::from_millis(LEASE_MS));
    let worker = worker.fallback(|context: duetime::Context| async move {
        context.cancellation().cancelled().await;
        duetime::worker::Handled::Err(JobError::fatal("stopped"))
    });
    let (stop, told) = oneshot::channel::<()>();
    let running = tokio::spawn(worker.stop_limit(Duration::ZERO).run_until(async { drop(told.await) }));

    let started_at = lease_end(&site, id, 0).await - LEASE_MS;
    let long_after = lease_end(&site, id, started_at + 2 * LEASE_MS).await;
    site.kill();
    site.start_again();
    let end = lease_end(&site, id, long_after).await;
    assert!(end <= site.now() + LEASE_MS, "the lease ends in {} ms", end - site.now());
    drop(stop);
    running.await.unwrap().unwrap();
}

/// Waits until a job's lease ends later than this.
async fn lease_end(site: &Site, id: JobId, after: Millis) -> Millis {
    loop {
        let job = site.client().jobs().get(id).await.unwrap();
        if let Some(end) = job.lease_until.filter(|&end| end > Timestamp(after)) {
            return end.0;
        }
        assert!(job.is_pending(), "it lost its lease: {job:?}");
        let nothing = ReserveRequest { from: Source::Queues(vec!["other".into()]), wait: Span(50), ..one() };
        site.client().leases().reserve(nothing).await.unwrap();
    }
}
