//! The conformance suite of locks, on those of one process with SQLite as their record.

use duetime_core::memory;
use duetime_core::ports::Locks;
use duetime_core::testing::ManualClock;
use duetime_store::sqlite::Sqlite;
use std::sync::Arc;

async fn recorded(clock: Arc<ManualClock>) -> Arc<dyn Locks> {
    Arc::new(memory::Locks::new(clock, Arc::new(Sqlite::memory().expect("memory opens"))))
}

duetime_core::locks_suite!(recorded);
