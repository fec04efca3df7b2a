//! The conformance suite on Redis beside a ledger.

use duetime_core::ports::Broker;
use duetime_core::testing::ManualClock;
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::shared_redis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

async fn broker(clock: Arc<ManualClock>) -> Arc<dyn Broker> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let url = format!("{}?namespace=case{}", shared_redis().url(), LAST.fetch_add(1, Ordering::Relaxed));
    let options = Options { beside: Some("test".into()), clock: Some(clock), ..Options::default() };
    Arc::new(Redis::connect(&url, options).await.expect("connected"))
}

duetime_core::broker_suite!(broker);
