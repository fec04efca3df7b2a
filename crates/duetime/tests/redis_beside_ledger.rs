//! Some cases on a private Redis beside a private PostgreSQL: what a client shows and changes needs both stores.

use super::cases::calls;
use duetime::{Client, ConnectOptions};
use duetime_store::testing::{PostgresServer, RedisServer};

#[tokio::test(flavor = "multi_thread")]
async fn jobs_and_workers_are_shown_and_changed() {
    let start = || (RedisServer::start(), PostgresServer::with(true, &[]));
    let (redis, postgres) = tokio::task::spawn_blocking(start).await.unwrap();
    let options = ConnectOptions::default().ledger(postgres.url());
    let client = Client::connect_with(&redis.url(), options).await.unwrap();
    calls::a_job_says_why_it_does_not_run(client.clone()).await;
    calls::named_workers_are_listed(client.clone()).await;
    calls::jobs_are_changed_on_their_condition(client.clone()).await;
    calls::jobs_are_found_and_cancelled_by_tag(client.clone()).await;
    calls::found_jobs_are_rescheduled(client.clone()).await;
    calls::queues_are_managed(client).await;
}
