//! Jobs that a killed server left in Redis, beside a ledger.

use duetime_core::engine::{Export, Options as EngineOptions, Outcome, ReserveRequest, Source, Stores};
use duetime_core::model::follow_up::FollowUp;
use duetime_core::model::job::{NewJob, Stage};
use duetime_core::testing::ModelLedger;
use duetime_core::{Engine, JobOptions};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::shared_redis;
use std::sync::Arc;

async fn stores(ledger: ModelLedger) -> Stores {
    let url = format!("{}?namespace=left", shared_redis().url());
    let redis = Redis::connect(&url, Options { beside: Some("model".to_owned()), ..Options::default() }).await;
    redis.expect("connected").stores().beside(Arc::new(ledger))
}

#[tokio::test]
async fn an_export_has_ends_and_new_jobs_that_the_ledger_lacks() {
    let ledger = ModelLedger::default();
    let engine = Engine::start(stores(ledger.clone()).await, EngineOptions::default()).await.unwrap();
    let then = Some(Arc::from([FollowUp::from(&NewJob::new(*b"2"))]));
    let first = NewJob { options: JobOptions { then, ..JobOptions::default() }, ..NewJob::new(*b"1") };
    let queue = first.queue.clone();
    engine.push(vec![first]).await.unwrap().remove(0).unwrap();
    let lease = engine.reserve(ReserveRequest::new(Source::Queues(vec![queue]))).await.unwrap().leases.remove(0);
    ledger.set_away(true);
    let then = Some(Arc::from([FollowUp::from(&NewJob::new(*b"3"))]));
    let settled = engine.settle(vec![(lease.job.receipt(), Outcome::Complete { result: None, then })]).await.remove(0);
    assert!(settled.is_ok_and(|settled| !settled.recorded));
    // The server dies, and the ledger is back.
    let mut export = Export::begin(stores(ledger.copied()).await).await.unwrap();
    let mut exported = Vec::new();
    while let Some(page) = export.page().await.unwrap() {
        exported.extend(page.into_iter().map(|job| (job.payload[0], job.stage)));
    }
    assert_eq!(exported, [(b'1', Stage::Succeeded), (b'2', Stage::Pending), (b'3', Stage::Pending)]);
}
