//! Query plans, as they are made: no question reads a whole table or sorts.

use super::server::{OPTIONS, client, database};
use duetime_core::ports::Ledger;
use duetime_core::testing::ledger_suite::fixture::{WATERMARK, id, job_with, text};
use duetime_store::sql;
use mysql_async::prelude::Queryable;

#[tokio::test]
async fn every_question_has_its_index() {
    let url = database().await;
    let store = sql::connect(&url, OPTIONS).await.unwrap();
    let row = |n| {
        job_with(n, |job| {
            job.key = Some(text(&format!("k{n}")));
            job.tags = [text(&format!("t{}", n % 7))].into();
        })
    };
    for from in [1, 5_001] {
        store.record((from..from + 5_000).map(row).collect(), WATERMARK).await.unwrap();
    }
    let mut client = client(&url).await;
    // Many that were refused, few that wait.
    let digits = "(SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5)";
    let inbox = format!(
        "INSERT INTO duetime_inbox (payload, error) SELECT 'p', IF(RAND() < 0.999, 'no', NULL) \
         FROM {digits} a, {digits} b, {digits} c, {digits} d, {digits} e"
    );
    client.query_drop(inbox).await.unwrap();
    client.query_drop("ANALYZE TABLE duetime_jobs, duetime_tags, duetime_tallies, duetime_inbox").await.unwrap();
    for (_, sql, index) in sql::testing::questions(&url) {
        let index = if index.is_empty() { "PRIMARY" } else { index };
        let places = sql.split('?').take(sql.matches('?').count());
        let values = (1..).zip(places).map(|(n, before)| match before.rsplit(' ').nth(2) {
            Some("queue" | "j.queue") => "default".into(),
            Some("j.job_key") => "k1".into(),
            Some("j.id") if before.ends_with("> ") => 0.into(),
            Some("state" | "j.state") if sql.contains("state <> 1") => 20.into(),
            Some("state" | "j.state") => 1.into(),
            Some("tag") => "t1".into(),
            Some("error") => "no".into(),
            _ if before.ends_with("LIMIT ") => 10.into(),
            _ => id(n).get().into(),
        });
        let values = mysql_async::Params::Positional(values.collect());
        let steps: Vec<mysql_async::Row> = client.exec(format!("EXPLAIN {sql}"), values).await.unwrap();
        let mut used = Vec::new();
        for step in steps {
            let text = |name: &str| step.get::<Option<String>, _>(name).flatten().unwrap_or_default();
            let (table, how, key) = (text("table"), text("type"), text("key"));
            // Tables sent with the statement are read whole.
            let is_sent = table.starts_with('<') || table.is_empty() || table == "u";
            assert!(is_sent || how != "ALL" && !key.is_empty(), "{sql}: {table} {how} {key}");
            assert!(is_sent || !text("Extra").contains("filesort"), "{sql}: {table} {}", text("Extra"));
            used.push(key);
        }
        assert!(used.iter().any(|used| used == index), "{sql}: {used:?}");
    }
}
