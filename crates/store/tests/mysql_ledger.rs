//! The ledger in MySQL and MariaDB: the conformance suite, and faults that only such a server has.

mod faults;
mod inbox;
mod migrate;
mod plans;
mod server;

mod suite {
    use super::server::{OPTIONS, database};
    use duetime_core::testing::ledger_suite::Subject;
    use duetime_store::sql;
    use std::sync::Arc;

    async fn subject() -> Subject {
        let url = database().await;
        let store = Arc::new(sql::connect(&url, OPTIONS).await.expect("a new database"));
        Subject { ledger: store.clone(), registry: store.clone(), reports: store, keep: Box::new(()) }
    }

    duetime_core::ledger_suite!(ledger_cases_in_one: subject);
}

mod shared {
    use super::inbox::Application;
    use super::server::{OPTIONS, client, database};
    use duetime_core::testing::ledger_suite::SharedSubject;
    use duetime_store::sql;
    use std::sync::Arc;

    async fn subject() -> SharedSubject {
        let url = database().await;
        let store = Arc::new(sql::connect(&url, OPTIONS).await.expect("an empty place"));
        let application = Box::new(Application(client(&url).await.into()));
        SharedSubject { ledger: store.clone(), inbox: store.clone(), registry: store, application }
    }

    duetime_core::shared_ledger_suite!(ledger_cases_in_one: subject);
}
