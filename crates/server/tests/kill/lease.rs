//! Leases that outlive a kill.

use crate::common::Site;
use duetime::{Client, Error, Failure, Outcome, ReserveRequest, Settlement, Source};
use duetime_core::{Error as CoreError, Receipt, State};
use std::time::Duration;

/// How long a lease takes to be recorded at most, unless the writer is busy; see `Site`.
const RECORDED_MS: u64 = 100;

fn one() -> ReserveRequest {
    let from = Source::Queues(vec!["default".into()]);
    ReserveRequest { from, limit: 1, lease_ms: None, wait_ms: 20_000, request_id: None }
}

async fn lease(client: &Client) -> Receipt {
    client.reserve(one()).await.unwrap().leases[0].job.receipt()
}

/// Has something else written until all leases are.
async fn let_leases_be_recorded(site: &Site, client: &Client) {
    let begin = site.now();
    while site.now() <= begin + RECORDED_MS {
        client.push_raw("other", *b"1").queue("other").await.unwrap();
    }
    client.push_raw("other", *b"1").queue("other").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_outlives_a_kill_where_the_job_was_given_back_just_before() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(&folder.path().join("duetime.db"));
    let client = site.client();
    client.push_raw("job", *b"1").await.unwrap();
    let mut receipt = lease(&client).await;
    // Given back by one and leased by another, who waits, so that the one is not recorded yet when the other begins.
    for _ in 0..20 {
        let release = client.settle(vec![(receipt, Outcome::Release { delay_ms: 0 })]);
        let (released, next) = tokio::join!(release, lease(&client));
        released.unwrap().remove(0).unwrap();
        receipt = next;
    }
    let_leases_be_recorded(&site, &client).await;
    site.kill();
    site.start_again();
    let client = site.client();
    let again = client.reserve(ReserveRequest { wait_ms: 0, ..one() }).await.unwrap();
    assert!(again.leases.is_empty(), "{receipt} was forgotten: {:?}", again.leases);
    assert_eq!(client.complete(receipt, None).await.unwrap().state, State::Succeeded);
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
    client.release(stale, Duration::ZERO).await.unwrap();
    let (completed, failed) = (lease(&client).await, lease(&client).await);
    let failure = || Failure { is_final: true, ..Failure::default() };
    client.complete(completed, None).await.unwrap();
    client.fail(failed, failure()).await.unwrap();
    site.kill();
    site.start_again();

    let client = site.client();
    assert_eq!(client.complete(completed, None).await.unwrap().state, State::Succeeded);
    assert_eq!(client.fail(failed, failure()).await.unwrap().state, State::Failed);
    let is_lost = |result: Result<Settlement, Error>| matches!(result, Err(Error::Core(CoreError::LeaseLost(_))));
    assert!(is_lost(client.complete(failed, None).await));
    assert!(is_lost(client.fail(completed, failure()).await));
    assert!(is_lost(client.release(completed, Duration::ZERO).await));
    assert!(is_lost(client.complete(stale, None).await));
}
