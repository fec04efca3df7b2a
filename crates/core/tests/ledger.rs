//! The model ledger passes the ledger's conformance suite, so it can replace a real one.

use duetime_core::testing::ModelLedger;
use duetime_core::testing::ledger_suite::{NotingSubject, SharedSubject, Subject};
use std::sync::Arc;

async fn subject() -> Subject {
    let store = Arc::new(ModelLedger::default());
    Subject { ledger: store.clone(), registry: store.clone(), reports: store, keep: Box::new(()) }
}

duetime_core::ledger_suite!(subject);

async fn noting() -> NotingSubject {
    let store = Arc::new(ModelLedger::default());
    NotingSubject { ledger: store.clone(), leases: store, keep: Box::new(()) }
}

duetime_core::lease_ledger_suite!(noting);

mod shared {
    use super::{Arc, ModelLedger, SharedSubject};

    async fn subject() -> SharedSubject {
        let store = Arc::new(ModelLedger::default());
        let application = Box::new(ModelLedger::clone(&store));
        SharedSubject { ledger: store.clone(), inbox: store.clone(), registry: store, application }
    }

    duetime_core::shared_ledger_suite!(ledger_cases: subject);
}
