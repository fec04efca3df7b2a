//! The locks of one process: the conformance suite, and cases for them alone.

mod restarts;

use duetime_core::memory;
use duetime_core::ports::Locks;
use duetime_core::testing::{ManualClock, ModelLedger};
use std::sync::Arc;

async fn memory_locks(clock: Arc<ManualClock>) -> Arc<dyn Locks> {
    Arc::new(memory::Locks::new(clock, Arc::new(ModelLedger::default())))
}

duetime_core::locks_suite!(memory_locks);
