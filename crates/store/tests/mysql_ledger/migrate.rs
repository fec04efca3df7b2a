//! Tables, and the rights to create them.

use super::server::{OPTIONS, client, database};
use duetime_core::ports::Ledger;
use duetime_core::testing::ledger_suite::fixture::{WATERMARK, job};
use duetime_store::sql::{self, Options, Schema};
use mysql_async::prelude::Queryable;

const KNOWN: usize = 1;

#[tokio::test(flavor = "multi_thread")]
async fn five_nodes_that_start_at_once_migrate_once() {
    let url = database().await;
    let nodes: Vec<_> = (0..5)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { sql::connect(&url, OPTIONS).await.unwrap() })
        })
        .collect();
    for (n, node) in (1..).zip(nodes) {
        node.await.unwrap().record(vec![job(n)], WATERMARK).await.unwrap();
    }
    let schema = "SELECT value FROM duetime_meta WHERE name = 'schema'";
    assert_eq!(client(&url).await.query::<usize, _>(schema).await.unwrap(), [KNOWN]);
    assert_eq!(sql::check(&url).await.unwrap(), Schema { found: KNOWN, known: KNOWN });
}

#[tokio::test]
async fn who_may_not_migrate_is_told_to() {
    let url = database().await;
    let careful = Options { migrates: false, ..OPTIONS };
    let error = sql::connect(&url, careful).await.unwrap_err();
    assert!(error.code() == "store_unusable" && error.to_string().contains("duetime migrate"), "{error}");
    assert_eq!(sql::migrate(&url).await.unwrap(), Schema { found: 0, known: KNOWN });
    sql::connect(&url, careful).await.unwrap();
}

/// The migration was interrupted before it was recorded.
#[tokio::test]
async fn a_migration_can_be_run_again() {
    let url = database().await;
    sql::migrate(&url).await.unwrap();
    let mut client = client(&url).await;
    for found in 0..=KNOWN {
        client.query_drop(format!("REPLACE INTO duetime_meta (name, value) VALUES ('schema', {found})")).await.unwrap();
        assert_eq!(sql::migrate(&url).await.unwrap(), Schema { found, known: KNOWN });
    }
    let store = sql::connect(&url, OPTIONS).await.unwrap();
    store.record(vec![job(1)], WATERMARK).await.unwrap();
}

#[tokio::test]
async fn newer_tables_are_refused_and_left_alone() {
    let url = database().await;
    sql::migrate(&url).await.unwrap();
    let mut client = client(&url).await;
    client.query_drop("UPDATE duetime_meta SET value = 99 WHERE name = 'schema'").await.unwrap();
    let error = sql::connect(&url, OPTIONS).await.unwrap_err();
    assert!(error.code() == "store_unusable" && error.to_string().contains("newer"), "{error}");
}

#[tokio::test]
async fn a_database_that_is_not_there_or_not_fit_is_told() {
    let url = database().await;
    let error = sql::connect(&format!("{url}missing"), OPTIONS).await.unwrap_err();
    assert!(error.code() == "store_unusable" && error.to_string().contains("create it"), "{error}");
    // Without permission, a server that does not wait for its disk is refused.
    let error = sql::connect(&url, Options::default()).await.unwrap_err();
    assert!(error.code() == "store_unusable" && error.to_string().contains("flush_log"), "{error}");
}

#[tokio::test]
async fn the_view_reads_for_people() {
    let url = database().await;
    let store = sql::connect(&url, OPTIONS).await.unwrap();
    store.record(vec![job(1)], WATERMARK).await.unwrap();
    let sql = "SELECT kind, state, payload, YEAR(due_at) FROM duetime_readable";
    let rows: Vec<(String, String, String, u32)> = client(&url).await.query(sql).await.unwrap();
    assert_eq!(rows, [("default".into(), "scheduled".into(), "payload 1".into(), 2027)]);
}
