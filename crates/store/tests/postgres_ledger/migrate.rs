//! Tables, and the rights to create them.

use super::server::{OPTIONS, client, database};
use duetime_core::ports::Ledger;
use duetime_core::testing::ledger_suite::fixture::{WATERMARK, job};
use duetime_store::sql::{self, Options, Schema};

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
    let schemas = client(&url).await.query("SELECT value FROM duetime_meta WHERE name = 'schema'", &[]).await.unwrap();
    assert_eq!(schemas.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [KNOWN as i64]);
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

#[tokio::test]
async fn newer_tables_are_refused_and_left_alone() {
    let url = database().await;
    sql::migrate(&url).await.unwrap();
    let client = client(&url).await;
    client.batch_execute("UPDATE duetime_meta SET value = 99 WHERE name = 'schema'").await.unwrap();
    let error = sql::connect(&url, OPTIONS).await.unwrap_err();
    assert!(error.code() == "store_unusable" && error.to_string().contains("newer"), "{error}");
}

#[tokio::test]
async fn a_database_that_is_not_there_or_not_fit_is_told() {
    let url = database().await;
    let error = sql::connect(&format!("{url}missing"), OPTIONS).await.unwrap_err();
    assert!(error.code() == "store_unusable" && error.to_string().contains("create it"), "{error}");
    let other = "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'";
    client(&url).await.batch_execute(other).await.unwrap();
    let (server, _) = url.rsplit_once('/').unwrap();
    let error = sql::connect(&format!("{server}/latin"), OPTIONS).await.unwrap_err();
    assert!(error.code() == "store_unusable" && error.to_string().contains("UTF8"), "{error}");
}

#[tokio::test]
async fn the_view_reads_for_people() {
    let url = database().await;
    let store = sql::connect(&url, OPTIONS).await.unwrap();
    let binary = duetime_core::Job { payload: [0, 255].as_slice().into(), ..job(2) };
    store.record(vec![job(1), binary], WATERMARK).await.unwrap();
    let sql =
        "SELECT kind, state, payload, to_char(due_at AT TIME ZONE 'UTC', 'YYYY') FROM duetime_readable ORDER BY id";
    let rows = client(&url).await.query(sql, &[]).await.unwrap();
    let rows: Vec<[String; 4]> = rows.iter().map(|row| [0, 1, 2, 3].map(|column| row.get(column))).collect();
    assert_eq!(rows[0], ["default", "scheduled", "payload 1", "2027"].map(String::from));
    assert_eq!(rows[1][2], r"\000\377");
}
