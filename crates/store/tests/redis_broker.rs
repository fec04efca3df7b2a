//! The conformance suite on Redis beside a ledger.

use duetime_core::ports::{Broker, BrokerClock, Edit, Outbox, Outcomes, Room};
use duetime_core::testing::ManualClock;
use duetime_core::testing::broker_suite::Made;
use duetime_core::testing::fixtures::{Given, cancel, job};
use duetime_core::{Job, JobId};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::shared_redis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

async fn broker(clock: Arc<ManualClock>) -> Made {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let url = format!("{}?namespace=case{}", shared_redis().url(), LAST.fetch_add(1, Ordering::Relaxed));
    let options = Options { beside: Some("test".into()), clock: Some(clock), ..Options::default() };
    let redis = Arc::new(Redis::connect(&url, options).await.expect("connected"));
    (redis.clone(), Some(redis))
}

duetime_core::broker_suite!(broker);

/// The leader cleans up after processes that are gone, in any partition.
#[tokio::test]
async fn a_leader_finds_what_others_left_in_any_partition() {
    let url = format!("{}?namespace=leader&partitions=4", shared_redis().url());
    let clock = Arc::new(ManualClock::new());
    let options = || Options { beside: Some("test".into()), clock: Some(clock.clone()), ..Options::default() };
    let gone = Redis::connect(&url, options()).await.unwrap();
    gone.begin(Arc::new(Given::default())).await.unwrap();
    let mut ids = Vec::new();
    for queue in ["images", "orders", "reminders", "reports"] {
        let id = JobId::in_partition(1, gone.partition(queue));
        gone.put(vec![Job { id, queue: queue.into(), ..job(1) }], gone.reading(), Room::Any).await.unwrap();
        gone.edit(vec![Edit { id, version: None, change: cancel() }]).await.unwrap();
        ids.push(id);
    }
    drop(gone);
    let leader = Redis::connect(&url, options()).await.unwrap();
    leader.set_watermark(leader.now()).await.unwrap();
    let entries = leader.outcomes(Outcomes::Oldest { limit: 10, age_ms: 0 }).await.unwrap();
    let mut found: Vec<JobId> = entries.iter().map(|entry| entry.job().id).collect();
    found.sort_unstable();
    ids.sort_unstable();
    assert_eq!(found, ids);
}
