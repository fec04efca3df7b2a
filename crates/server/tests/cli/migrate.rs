//! The tables of a ledger: who makes them, and who may only use them.

use crate::cli::ledger::{Beside, Node, Sql, USER};
use crate::cli::support::{Place, Ran, finish};
use duetime::Client;
use duetime_core::api::Span;
use duetime_core::engine::{BulkAction, Query, ReserveRequest, Source};
use duetime_core::{Due, NewJob, State as JobState};
use duetime_store::testing::RedisServer;
use std::time::Duration;

const QUEUE: &str = "orders";

fn migrate(place: &Place, ledger: &str, more: &[&str]) -> Ran {
    finish(place.bare(&[&["migrate", "--ledger", ledger], more].concat()), b"")
}

async fn five_at_once_serve(sql: Sql) {
    let (place, redis) = (Place::new(), RedisServer::start());
    let url = sql.url();
    let mut nodes: Vec<Node> = (0..5).map(|_| Node::begin(&place, &redis, &url, &[])).collect();
    for node in &mut nodes {
        let client = node.client().await;
        client.push_raw("kind", *b"1").queue(QUEUE).after(Duration::from_secs(3_600)).await.unwrap();
        drop(client);
    }
    let ran = migrate(&place, &url, &["--check", "--json"]);
    assert!(ran.code == 0 && ran.out.contains("\"schema\":1"), "{ran:?}");
    let beside = Beside { redis, sql };
    let ran = beside.run(&place, &["list", "--queue", QUEUE, "--json"], b"");
    let listed: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 5, "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_servers_that_start_at_once_on_an_empty_postgres_serve() {
    five_at_once_serve(Sql::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_servers_that_start_at_once_on_an_empty_maria_db_serve() {
    five_at_once_serve(Sql::maria_db()).await;
}

/// A job that ended two days ago, as an export has it: the server is to prune it.
fn ended_long_ago(now: u64) -> String {
    let ago = duetime_core::api::Timestamp(now - 2 * 24 * 3_600_000);
    let id = duetime_core::JobId::from_sequence(duetime_core::model::id::sequence_at(now - 2 * 24 * 3_600_000));
    let head = r#"{"duetime_export":{"version":1,"by":"0.1.0","exported_at":"2026-11-21T00:00:00Z","jobs":1}}"#;
    let job = format!(
        r#"{{"job":{{"id":"{id}","queue":"{QUEUE}","kind":"k","payload":1,"state":"succeeded","due_at":"{ago}",
        "first_due_at":"{ago}","priority":1,"attempt":1,"crashes":0,"tags":["old"],"version":7,"epoch":7,
        "created_at":"{ago}","updated_at":"{ago}","started_at":"{ago}","finished_at":"{ago}"}}}}"#
    );
    format!("{head}\n{}\n{{\"end\":{{\"queues\":0,\"jobs\":1}}}}\n", job.replace('\n', " "))
}

/// All that a server does with tables: with a right too few it fails.
async fn life(client: &Client) {
    let job = |tag: &str| NewJob { queue: QUEUE.into(), tags: vec![tag.into()], ..NewJob::new(*b"1") };
    let later = NewJob { due: Due::After(Span(3_600_000)), key: Some("k".into()), ..job("later") };
    let pushed = client.push_many(vec![job("now"), later, job("gone")]).await.unwrap();
    let ids: Vec<_> = pushed.into_iter().map(|pushed| pushed.unwrap().id).collect();
    let from = Source::Jobs(vec![ids[0].into()]);
    let request = ReserveRequest::new(from).limit(1).wait(Span(10_000));
    let lease = client.leases().reserve(request).await.unwrap().leases.remove(0);
    client.leases().complete(lease.job.receipt(), Some((*b"2").into())).await.unwrap();
    client.queues().pause(QUEUE, duetime_core::engine::Pause::UntilResumed).await.unwrap();
    client.queues().resume(QUEUE).await.unwrap();
    let tagged = Query { tag: Some("later".into()), ..Query::default() };
    assert_eq!(client.jobs().bulk(&tagged, BulkAction::Cancel).await.unwrap().cancelled, 1);
    client.jobs().delete(ids[2]).await.unwrap();
    assert_eq!(client.jobs().get(ids[0]).await.unwrap().state(0), JobState::Succeeded);
}

async fn an_administrator_makes_what_a_server_uses(sql: Sql) {
    let place = Place::new();
    let rights = sql.rights();
    let (create, grants) = rights.split_at(1);
    sql.administer(create[0]);
    if let Sql::MariaDb(_) = sql {
        sql.administer(&format!("GRANT SELECT ON duetime.* TO '{USER}'"));
    }
    // The error for a user without the right to create tables says how an administrator can help.
    let ran = migrate(&place, &sql.url_of_user(), &[]);
    assert!(ran.code == 1 && ran.err.contains("`duetime migrate --print-sql`"), "{ran:?}");
    if let Sql::MariaDb(_) = sql {
        sql.administer(&format!("REVOKE SELECT ON duetime.* FROM '{USER}'"));
    }
    let ran = migrate(&place, &sql.url(), &["--check"]);
    assert!(ran.code == 78 && ran.out.contains("run `duetime migrate`"), "{ran:?}");

    let script = migrate(&place, sql.kind(), &["--print-sql"]);
    assert_eq!(script.code, 0, "{script:?}");
    sql.administer(&script.out);
    assert_eq!(migrate(&place, &sql.url(), &["--check"]).code, 0);
    assert!(migrate(&place, &sql.url(), &[]).out.contains("is current"));
    sql.administer(&grants.join("\n"));

    let redis = RedisServer::start();
    let mut node = Node::begin(&place, &redis, &sql.url_of_user(), &["--no-migrate"]);
    let client = node.client().await;
    life(&client).await;
    let now = client.jobs().get(client.push_raw("k", *b"1").queue(QUEUE).await.unwrap().id).await.unwrap().created_at;
    let arguments = ["import", "--json", "--server", &redis.url(), "--ledger", &sql.url_of_user()];
    let imported = finish(place.bare(&arguments), ended_long_ago(now.0).as_bytes());
    assert!(imported.code == 0 && imported.out.contains("\"imported\":1"), "{imported:?}");
    let old = Query { tag: Some("old".into()), ..Query::default() };
    let mut pause = tokio::time::interval(Duration::from_millis(250));
    while !client.jobs().page(&old, None, 10).await.unwrap().jobs.is_empty() {
        pause.tick().await;
    }
    assert!(client.health().await.unwrap().degraded.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_rights_to_migrate_serves_on_postgres() {
    an_administrator_makes_what_a_server_uses(Sql::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_rights_to_migrate_serves_on_maria_db() {
    an_administrator_makes_what_a_server_uses(Sql::maria_db()).await;
}
