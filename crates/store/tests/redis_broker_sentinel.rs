//! The conformance suite on a master that Sentinel watches.

use duetime_core::testing::ManualClock;
use duetime_core::testing::broker_suite::BrokerAndBus;
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::RedisSentinel;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

async fn broker(clock: Arc<ManualClock>) -> BrokerAndBus {
    static SERVERS: OnceLock<RedisSentinel> = OnceLock::new();
    static LAST: AtomicU32 = AtomicU32::new(0);
    let servers = SERVERS.get_or_init(RedisSentinel::patient);
    let url = format!("{}?namespace=case{}", servers.url(), LAST.fetch_add(1, Ordering::Relaxed));
    let options = Options { beside: Some("test".into()), clock: Some(clock), ..Options::default() };
    let redis = Arc::new(Redis::connect(&url, options).await.expect("connected"));
    (redis.clone(), Some(redis))
}

duetime_core::broker_suite!(broker_cases_in_one: broker);
