//! The model ledger does as the ledger's conformance suite says, so it can stand for a real one.

use duetime_core::testing::ModelLedger;
use duetime_core::testing::ledger_suite::{SharedSubject, Subject};
use std::sync::Arc;

async fn subject() -> Subject {
    let store = Arc::new(ModelLedger::default());
    Subject { ledger: store.clone(), registry: store, keep: Box::new(()) }
}

duetime_core::ledger_suite!(subject);

mod shared {
    use super::{Arc, ModelLedger, SharedSubject};

    async fn subject() -> SharedSubject {
        let store = ModelLedger::default();
        let (ledger, registry) = (Arc::new(store.clone()), Arc::new(store.clone()));
        SharedSubject { ledger, registry, inbox: Box::new(store) }
    }

    duetime_core::shared_ledger_suite!(subject);
}
