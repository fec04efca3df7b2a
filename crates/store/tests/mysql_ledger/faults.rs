//! A server that fails and recovers.

use super::server::{OPTIONS, client, database};
use duetime_core::Error;
use duetime_core::model::job::Stage;
use duetime_core::ports::Selector;
use duetime_core::ports::{Ledger, Queues, Recorded, Registry};
use duetime_core::testing::ledger_suite::fixture::{NOW, WATERMARK, all, apply, ended, found, id, job, keyed, record};
use duetime_store::sql::{self, Options};
use duetime_store::testing::MariaDbServer;
use mysql_async::prelude::Queryable;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Long enough for a server to be there again.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Asks until it is answered; every error on the way may be tried again.
async fn until_answered<T, F: Future<Output = Result<T, Error>>>(mut ask: impl FnMut() -> F) -> T {
    let answered = async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    tokio::time::timeout(WAIT_MAX, answered).await.expect("it works again")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_away_for_a_while_and_loses_nothing() {
    let mut server = tokio::task::spawn_blocking(|| MariaDbServer::with(true, &[])).await.unwrap();
    let store = sql::connect(&server.url(), Options::default()).await.unwrap();
    record(&store, &[job(1), keyed(2, "k")]).await;
    let mut server = tokio::task::spawn_blocking(move || {
        server.kill();
        server
    })
    .await
    .unwrap();
    for error in [
        store.record(vec![job(3)], WATERMARK).await.unwrap_err(),
        store.get(&[id(1)]).await.unwrap_err(),
        store.allot(1, NOW).await.unwrap_err(),
        store.document("queue", "q").await.unwrap_err(),
    ] {
        assert!(error.code() == "store_unavailable" && error.is_retryable(), "{error}");
    }
    let server = tokio::task::spawn_blocking(move || {
        server.start_again();
        server
    })
    .await
    .unwrap();
    assert_eq!(until_answered(|| store.record(vec![job(3)], WATERMARK)).await, [Recorded::Created]);
    assert_eq!(found(&store, all(Selector::All)).await, [1, 2, 3]);
    assert_eq!(store.record(vec![keyed(4, "k")], WATERMARK).await.unwrap(), [Recorded::KeyHeld(id(2))]);
    store.close().await.unwrap();
    drop(server);
}

/// Connections of many callers are lost; each job is stored once, and was reported as created.
#[tokio::test(flavor = "multi_thread")]
async fn lost_connections_are_replaced() {
    let url = database().await;
    let store = Arc::new(sql::connect(&url, OPTIONS).await.unwrap());
    let mut admin = client(&url).await;
    let pushes = tokio::spawn({
        let store = store.clone();
        async move {
            for n in 1..=300 {
                let recorded = until_answered(|| store.record(vec![job(n)], WATERMARK)).await;
                assert!(matches!(recorded[..], [Recorded::Created | Recorded::Repeat]), "{recorded:?}");
            }
        }
    });
    let others = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    while !pushes.is_finished() {
        for id in admin.query::<u64, _>(others).await.unwrap() {
            // It may have ended by itself.
            let _ = admin.query_drop(format!("KILL {id}")).await;
        }
        store.get(&[id(1)]).await.map(drop).unwrap_or_else(|error| assert!(error.is_retryable(), "{error}"));
    }
    pushes.await.unwrap();
    assert_eq!(found(&*store, all(Selector::All)).await, (1..=300).collect::<Vec<_>>());
    assert_eq!(store.tallies(Queues::first()).await.unwrap()[0].1.pending, 300);
}

#[tokio::test]
async fn a_wrong_address_is_told_soon() {
    let error = sql::connect("mysql://nobody@127.0.0.1:9/none", Options::default()).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable");
}

/// Two stores on one database, as of two nodes.
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_share_a_database() {
    let url = database().await;
    let nodes = [0, 1].map(|_| sql::connect(&url, OPTIONS));
    let [first, second] = nodes;
    let (first, second) = (Arc::new(first.await.unwrap()), Arc::new(second.await.unwrap()));
    let pushes: Vec<_> = (1..=200)
        .map(|n| {
            let node = if n % 2 == 0 { first.clone() } else { second.clone() };
            // Keys in both orders, so that transactions meet.
            let batch: Vec<_> =
                (0..10).map(|m| keyed(n * 10 + m, &format!("k{}", if n % 2 == 0 { m } else { 9 - m }))).collect();
            tokio::spawn(async move { node.record(batch, WATERMARK).await.unwrap() })
        })
        .collect();
    let mut created = 0;
    for push in pushes {
        let recorded = push.await.unwrap();
        created += recorded.iter().filter(|&&recorded| recorded == Recorded::Created).count();
    }
    assert_eq!(created, 10);
    let held = found(&*first, all(Selector::All)).await;
    assert_eq!(held.len(), 10);
    let rows = second.get(&held.iter().map(|&n| id(n)).collect::<Vec<_>>()).await.unwrap();
    let rows: Vec<_> = rows.into_iter().flatten().map(|job| ended(&job, Stage::Succeeded)).collect();
    tokio::join!(apply(&*first, &rows), apply(&*second, &rows));
    assert_eq!(first.tallies(Queues::first()).await.unwrap()[0].1.succeeded, 10);
}

/// The error of a call, whose client learns of it in time.
async fn error_of<T>(call: impl Future<Output = Result<T, Error>>) -> Error {
    let answer = tokio::time::timeout(Duration::from_secs(11), call).await;
    answer.expect("a call ends within 10 s").map(drop).unwrap_err()
}

/// It is not waited for without end, and its connections are not used again.
#[tokio::test]
async fn a_frozen_server_is_given_up_and_works_again() {
    let mut server = tokio::task::spawn_blocking(|| MariaDbServer::with(true, &[])).await.unwrap();
    let store = sql::connect(&server.url(), Options::default()).await.unwrap();
    record(&store, &[job(1)]).await;
    server.freeze();
    // From here time passes whenever nothing else is to be done.
    tokio::time::pause();
    for error in [
        error_of(store.record(vec![job(2)], WATERMARK)).await,
        error_of(store.get(&[id(1)])).await,
        error_of(store.find(all(Selector::All))).await,
        error_of(store.allot(1, NOW)).await,
    ] {
        assert!(error.code() == "store_unavailable" && error.is_retryable(), "{error}");
    }
    tokio::time::resume();
    server.thaw();
    let recorded = until_answered(|| store.record(vec![job(2)], WATERMARK)).await;
    assert!(matches!(recorded[..], [Recorded::Created | Recorded::Repeat]), "{recorded:?}");
    assert_eq!(found(&store, all(Selector::All)).await, [1, 2]);
}
