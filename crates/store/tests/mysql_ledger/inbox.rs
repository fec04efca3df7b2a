//! The inbox as applications meet it: by the SQL of the README.

use super::server::{OPTIONS, client, database};
use async_trait::async_trait;
use duetime_core::ports::{Inbox as _, InboxRow};
use duetime_core::testing::ledger_suite::inbox;
use duetime_store::sql;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Value};
use tokio::sync::Mutex;

/// A connection of an application.
pub(super) struct Application(pub(super) Mutex<Conn>);

#[async_trait]
impl inbox::Application for Application {
    async fn insert(&self, row: InboxRow) {
        let all: [(&str, Option<Value>); 9] = [
            ("queue", (row.queue != "default").then(|| row.queue.into())),
            ("kind", (row.kind != "default").then(|| row.kind.into())),
            ("payload", Some(row.payload.to_vec().into())),
            ("due_at", row.due_at.map(Value::from)),
            ("delay_ms", row.delay_ms.map(Value::from)),
            ("job_key", row.key.map(Value::from)),
            ("tags", row.tags.map(Value::from)),
            ("priority", row.priority.map(Value::from)),
            ("options", row.options.map(Value::from)),
        ];
        let given: Vec<_> = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let names: Vec<&str> = given.iter().map(|(name, _)| *name).collect();
        let places = vec!["?"; given.len()].join(", ");
        let sql = format!("INSERT INTO duetime_inbox ({}) VALUES ({places})", names.join(", "));
        let values = given.into_iter().map(|(_, value)| value).collect();
        self.0.lock().await.exec_drop(sql, Params::Positional(values)).await.unwrap();
    }

    async fn rows(&self) -> Vec<(Vec<u8>, Option<String>)> {
        self.0.lock().await.query("SELECT payload, error FROM duetime_inbox ORDER BY id").await.unwrap()
    }
}

#[tokio::test]
async fn to_insert_is_all_that_an_application_needs() {
    let url = database().await;
    let store = sql::connect(&url, OPTIONS).await.unwrap();
    let mut all = client(&url).await;
    let name = url.rsplit('/').next().unwrap();
    all.query_drop(format!("CREATE USER shop_{name}@'%'")).await.unwrap();
    let columns = "queue, kind, payload, due_at, delay_ms, job_key, tags, priority, options";
    all.query_drop(format!("GRANT INSERT ({columns}) ON duetime_inbox TO shop_{name}@'%'")).await.unwrap();
    let mut shop = client(&url.replace("root@", &format!("shop_{name}@"))).await;
    let insert = "INSERT INTO duetime_inbox (payload) VALUES ('hello')";
    for statement in ["START TRANSACTION", insert, "COMMIT", "START TRANSACTION", insert, "ROLLBACK"] {
        shop.query_drop(statement).await.unwrap();
    }
    let others = "INSERT INTO duetime_inbox (id, payload) VALUES (9223372036854775807, 'hello')";
    for forbidden in
        [others, "SELECT id FROM duetime_inbox", "DELETE FROM duetime_inbox", "SELECT id FROM duetime_jobs"]
    {
        let error = shop.query_drop(forbidden).await.unwrap_err().to_string();
        assert!(error.contains("denied"), "{forbidden}: {error}");
    }
    let rows = store.waiting(i64::MIN, 10).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((&*rows[0].payload, &*rows[0].queue, &*rows[0].kind), (b"hello".as_slice(), "default", "default"));
}

/// The age is never below 0, whatever the clock or the time zone of the inserting client.
#[tokio::test]
async fn age_is_by_the_clock_of_the_database() {
    let url = database().await;
    let store = sql::connect(&url, OPTIONS).await.unwrap();
    let mut client = client(&url).await;
    client.query_drop("SET time_zone = '+09:00'").await.unwrap();
    let now = "UNIX_TIMESTAMP() * 1000";
    let sql = format!(
        "INSERT INTO duetime_inbox (payload, created_at) VALUES ('old', {now} - 60000), ('early', {now} + 60000), \
         ('now', DEFAULT)"
    );
    client.query_drop(sql).await.unwrap();
    let ages: Vec<u64> = store.waiting(i64::MIN, 10).await.unwrap().iter().map(|row| row.age_ms).collect();
    assert!((60_000..90_000).contains(&ages[0]) && ages[1] == 0 && ages[2] < 30_000, "{ages:?}");
}
