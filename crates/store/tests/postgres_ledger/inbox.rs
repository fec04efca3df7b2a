//! The inbox as applications meet it: by the SQL of the README.

use super::server::{OPTIONS, client, database};
use async_trait::async_trait;
use duetime_core::ports::{Inbox as _, InboxRow};
use duetime_core::testing::ledger_suite::inbox;
use duetime_store::sql;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// A connection of an application.
pub(super) struct Application(pub(super) Client);

#[async_trait]
impl inbox::Application for Application {
    async fn insert(&self, row: InboxRow) {
        let text = std::str::from_utf8(&row.payload).ok().filter(|text| !text.contains('\0')).map(str::to_owned);
        let bytes = if text.is_some() { None } else { Some(row.payload.to_vec()) };
        let all: [(&str, Option<Box<dyn ToSql + Sync + Send>>); 10] = [
            ("queue", (row.queue != "default").then(|| Box::new(row.queue) as _)),
            ("kind", (row.kind != "default").then(|| Box::new(row.kind) as _)),
            ("payload", text.map(|text| Box::new(text) as _)),
            ("payload_bytes", bytes.map(|bytes| Box::new(bytes) as _)),
            ("due_at", row.due_at.map(|at| Box::new(at) as _)),
            ("delay_ms", row.delay_ms.map(|ms| Box::new(ms) as _)),
            ("job_key", row.key.map(|key| Box::new(key) as _)),
            ("tags", row.tags.map(|tags| Box::new(tags) as _)),
            ("priority", row.priority.map(|priority| Box::new(priority) as _)),
            ("options", row.options.map(|options| Box::new(options) as _)),
        ];
        let given: Vec<_> = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let names: Vec<&str> = given.iter().map(|(name, _)| *name).collect();
        let places: Vec<String> = (1..=given.len()).map(|n| format!("${n}")).collect();
        let sql = format!("INSERT INTO duetime_inbox ({}) VALUES ({})", names.join(", "), places.join(", "));
        let values: Vec<&(dyn ToSql + Sync)> = given.iter().map(|(_, value)| &**value as _).collect();
        assert_eq!(self.0.execute(&sql, &values).await.unwrap(), 1);
    }

    async fn rows(&self) -> Vec<(Vec<u8>, Option<String>)> {
        let sql = "SELECT coalesce(payload_bytes, convert_to(payload, 'UTF8')), error FROM duetime_inbox ORDER BY id";
        self.0.query(sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

#[tokio::test]
async fn to_insert_is_all_that_an_application_needs() {
    let url = database().await;
    let store = sql::connect(&url, OPTIONS).await.unwrap();
    let all = client(&url).await;
    all.batch_execute("CREATE ROLE shop LOGIN").await.unwrap();
    let columns = "queue, kind, payload, due_at, delay_ms, job_key, tags, priority, options";
    all.batch_execute(&format!("GRANT INSERT ({columns}) ON duetime_inbox TO shop")).await.unwrap();
    let shop = client(&url.replace("duetime@", "shop@")).await;
    let insert = "INSERT INTO duetime_inbox (payload) VALUES ('hello')";
    shop.batch_execute(&format!("BEGIN; {insert}; COMMIT; BEGIN; {insert}; ROLLBACK")).await.unwrap();
    let others = "INSERT INTO duetime_inbox (payload, created_at) VALUES ('hello', 0)";
    for forbidden in
        [others, "SELECT id FROM duetime_inbox", "DELETE FROM duetime_inbox", "SELECT id FROM duetime_jobs"]
    {
        assert!(shop.batch_execute(forbidden).await.unwrap_err().to_string().contains("db error"), "{forbidden}");
    }
    let rows = store.waiting(i64::MIN, 10).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((&*rows[0].payload, &*rows[0].queue, &*rows[0].kind), (b"hello".as_slice(), "default", "default"));
}

#[tokio::test]
async fn there_is_one_payload() {
    let url = database().await;
    sql::migrate(&url).await.unwrap();
    let client = client(&url).await;
    for wrong in ["(queue) VALUES ('q')", "(payload, payload_bytes) VALUES ('a', 'b')"] {
        let error = client.batch_execute(&format!("INSERT INTO duetime_inbox {wrong}")).await.unwrap_err();
        assert!(error.as_db_error().unwrap().message().contains("duetime_inbox_payload"), "{error:?}");
    }
}

/// The age is never below 0, however the clock was set.
#[tokio::test]
async fn age_is_by_the_clock_of_the_database() {
    let url = database().await;
    let store = sql::connect(&url, OPTIONS).await.unwrap();
    let now = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let sql = format!(
        "INSERT INTO duetime_inbox (payload, created_at) VALUES ('old', {now} - 60000), ('early', {now} + 60000)"
    );
    client(&url).await.batch_execute(&sql).await.unwrap();
    let rows = store.waiting(i64::MIN, 10).await.unwrap();
    assert!((60_000..90_000).contains(&rows[0].age_ms), "{rows:?}");
    assert_eq!(rows[1].age_ms, 0);
}
