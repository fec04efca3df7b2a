//! The conformance suite on Redis beside a ledger.

use duetime_core::ports::{Broker, BrokerClock, Edit, Outbox, Outcomes, Room};
use duetime_core::testing::ManualClock;
use duetime_core::testing::broker_suite::BrokerAndBus;
use duetime_core::testing::fixtures::{FixedHost, cancel, job};
use duetime_core::{Job, JobId};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::shared_redis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

async fn broker(clock: Arc<ManualClock>) -> BrokerAndBus {
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
    gone.begin(Arc::new(FixedHost::default())).await.unwrap();
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

/// Also when nothing is recorded any more: after a drain there may be as many as there were jobs.
#[tokio::test]
async fn lapsed_tombstones_are_dropped_while_nothing_happens() {
    let url = format!("{}?namespace=lapsed", shared_redis().url());
    let clock = Arc::new(ManualClock::new());
    let options = Options { beside: Some("test".into()), clock: Some(clock.clone()), ..Options::default() };
    let redis = Redis::connect(&url, options).await.unwrap();
    redis.begin(Arc::new(FixedHost::default())).await.unwrap();
    let jobs: Vec<Job> = (1..=2_500).map(job).collect();
    for some in jobs.chunks(500) {
        redis.put(some.to_vec(), redis.reading(), Room::Any).await.unwrap();
        let edits = some.iter().map(|job| Edit { id: job.id, version: None, change: cancel() }).collect();
        let (_, entries) = redis.edit(edits).await.unwrap();
        let noted: Vec<(JobId, u64)> = entries.iter().map(|entry| (entry.job().id, entry.job().version)).collect();
        redis.forget(&noted, u64::MAX).await.unwrap();
    }
    let left = |key: &str| shared_redis().command(&[key, "{duetime:lapsed:0}:tombstones"]);
    assert!(left("HLEN").contains("2500"), "{}", left("HLEN"));
    clock.advance(<dyn Broker>::TOMBSTONE_MS);
    // One of them is bounded.
    for most in ["1500", "500", "0"] {
        redis.expired(10).await.unwrap();
        assert_eq!(left("HLEN").trim().trim_start_matches(':'), most);
    }
}
