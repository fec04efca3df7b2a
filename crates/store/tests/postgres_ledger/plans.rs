//! Query plans, as they are made for parameters that are not known: no question reads a whole table or sorts.

use super::server::{OPTIONS, client, database};
use duetime_core::ports::Ledger;
use duetime_core::testing::ledger_suite::fixture::{WATERMARK, job_with, text};
use duetime_store::sql;

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
    let client = client(&url).await;
    // Many that were refused, few that wait.
    let inbox = "INSERT INTO duetime_inbox (payload, error) \
                 SELECT 'p', CASE WHEN n % 1000 > 0 THEN 'no' END FROM generate_series(1, 20000) n";
    client.batch_execute(inbox).await.unwrap();
    client.batch_execute("ANALYZE; SET plan_cache_mode = force_generic_plan").await.unwrap();
    for (name, sql, index) in sql::testing::questions(&url) {
        let index = match name {
            // Either will do.
            "lock_inbox" => "duetime_inbox_",
            _ if index.is_empty() => "_pkey",
            _ => index,
        };
        client.batch_execute(&format!("PREPARE {name} AS {sql}")).await.unwrap();
        let count = (1..=29).rev().find(|n| sql.contains(&format!("${n}"))).unwrap_or(0);
        let nulls = vec!["NULL"; count].join(", ");
        let execute = if count == 0 { name.to_owned() } else { format!("{name}({nulls})") };
        let rows = client.query(&format!("EXPLAIN EXECUTE {execute}"), &[]).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(index), "{name}:\n{plan}");
        assert!(!plan.contains("Seq Scan"), "{name}:\n{plan}");
    }
}
