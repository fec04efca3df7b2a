//! The ledger's conformance suite, on a file and in memory.

mod file {
    use duetime_core::testing::ledger_suite::{NotingSubject, Subject};
    use duetime_store::sqlite::{Options, Sqlite};
    use std::sync::Arc;

    async fn subject() -> Subject {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Sqlite::open(&folder.path().join("duetime.db"), Options::default()).expect("a new file opens");
        let store = Arc::new(store);
        Subject { ledger: store.clone(), registry: store.clone(), reports: store, keep: Box::new(folder) }
    }

    async fn noting() -> NotingSubject {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Sqlite::open(&folder.path().join("duetime.db"), Options::default()).expect("a new file opens");
        let store = Arc::new(store);
        NotingSubject { ledger: store.clone(), leases: store, keep: Box::new(folder) }
    }

    duetime_core::ledger_suite!(subject);
    duetime_core::lease_ledger_suite!(noting);
}

mod memory {
    use duetime_core::testing::ledger_suite::{NotingSubject, Subject};
    use duetime_store::sqlite::Sqlite;
    use std::sync::Arc;

    async fn subject() -> Subject {
        let store = Arc::new(Sqlite::memory().expect("memory opens"));
        Subject { ledger: store.clone(), registry: store.clone(), reports: store, keep: Box::new(()) }
    }

    async fn noting() -> NotingSubject {
        let store = Arc::new(Sqlite::memory().expect("memory opens"));
        NotingSubject { ledger: store.clone(), leases: store, keep: Box::new(()) }
    }

    duetime_core::ledger_suite!(subject);
    duetime_core::lease_ledger_suite!(noting);
}
