//! Names compare byte by byte, independent of a database's collation.

use crate::cli::ledger::{Node, Sql};
use crate::cli::support::Place;
use duetime_core::api::Span;
use duetime_core::engine::{BulkAction, PushOutcome, Query};
use duetime_core::{Due, NewJob};
use duetime_store::testing::RedisServer;

async fn names_are_bytes(sql: Sql) {
    let (place, redis) = (Place::new(), RedisServer::start());
    let mut node = Node::begin(&place, &redis, &sql.url(), &[]);
    let client = node.client().await;
    let names = ["Order-1", "order-1 ", "order-1", "Ördér-1", "Order-1"];
    let job = |name: &str| NewJob {
        key: Some(name.into()),
        tags: vec![name.into()],
        due: Due::After(Span(3_600_000)),
        ..NewJob::new(*b"1")
    };
    // One after the other, so that the rows are there.
    let mut ids = Vec::new();
    for name in names {
        let pushed = client.push_many(vec![job(name)]).await.unwrap().remove(0).unwrap();
        let is_new = pushed.outcome == PushOutcome::Created;
        assert_eq!(is_new, !ids.contains(&pushed.id), "{name:?}");
        ids.push(pushed.id);
    }
    assert_eq!(ids[4], ids[0]);
    ids.dedup();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    for name in &names[..4] {
        let by_key = Query { queue: Some("default".into()), key: Some((*name).into()), ..Query::default() };
        assert_eq!(client.jobs().page(&by_key, None, 10).await.unwrap().jobs.len(), 1, "{name:?}");
        let by_tag = Query { tag: Some((*name).into()), ..Query::default() };
        assert_eq!(client.jobs().bulk(&by_tag, BulkAction::Cancel).await.unwrap().cancelled, 1, "{name:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_bytes_on_postgres() {
    names_are_bytes(Sql::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_bytes_on_maria_db() {
    names_are_bytes(Sql::maria_db()).await;
}
