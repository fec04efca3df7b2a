//! The conformance suite on Redis beside a ledger.

#![cfg(feature = "redis")]

use duetime_core::ports::Broker;
use duetime_core::testing::ManualClock;
use duetime_store::redis::{Options, Redis};
use std::sync::Arc;

async fn broker(clock: Arc<ManualClock>) -> Arc<dyn Broker> {
    let url = format!("{}?namespace=t{}", std::env::var("TEST_REDIS").unwrap(), std::process::id());
    let options = Options { is_ledger: false, clock: Some(clock), ..Options::default() };
    Arc::new(Redis::connect(&url, options).await.expect("connected"))
}

duetime_core::broker_suite!(broker);
