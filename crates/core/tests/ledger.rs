//! The model ledger does as the ledger's conformance suite says, so it can stand for a real one.

use duetime_core::testing::ModelLedger;
use duetime_core::testing::ledger_suite::Subject;
use std::sync::Arc;

async fn subject() -> Subject {
    let store = Arc::new(ModelLedger::default());
    Subject { ledger: store.clone(), registry: store, keep: Box::new(()) }
}

duetime_core::ledger_suite!(subject);
