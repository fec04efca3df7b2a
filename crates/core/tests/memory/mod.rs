//! The memory broker: the conformance suite, and a plain model as its oracle.

mod random;
mod world;

use duetime_core::Memory;
use duetime_core::testing::ManualClock;
use duetime_core::testing::broker_suite::BrokerAndBus;
use std::sync::Arc;

async fn memory(clock: Arc<ManualClock>) -> BrokerAndBus {
    (Arc::new(Memory::new(clock)), None)
}

duetime_core::broker_suite!(memory);
duetime_core::stepped_clock_suite!(memory);
