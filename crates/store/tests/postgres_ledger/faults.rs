//! A server that fails and recovers.

use super::server::{OPTIONS, client, database};
use duetime_core::Error;
use duetime_core::model::job::Stage;
use duetime_core::ports::Selector;
use duetime_core::ports::{Ledger, PutIf, Queues, Recorded, Registry};
use duetime_core::testing::ledger_suite::fixture::{NOW, WATERMARK, all, apply, ended, found, id, job, keyed, record};
use duetime_store::sql::{self, Options};
use duetime_store::testing::PostgresServer;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

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
    let mut server = tokio::task::spawn_blocking(|| PostgresServer::with(true, &[])).await.unwrap();
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
    let admin = client(&url).await;
    let pushes = tokio::spawn({
        let store = store.clone();
        async move {
            for n in 1..=300 {
                let recorded = until_answered(|| store.record(vec![job(n)], WATERMARK)).await;
                assert!(matches!(recorded[..], [Recorded::Created | Recorded::Repeat]), "{recorded:?}");
            }
        }
    });
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while !pushes.is_finished() {
        admin.query(end, &[]).await.unwrap();
        store.get(&[id(1)]).await.map(drop).unwrap_or_else(|error| assert!(error.is_retryable(), "{error}"));
    }
    pushes.await.unwrap();
    assert_eq!(found(&*store, all(Selector::All)).await, (1..=300).collect::<Vec<_>>());
    assert_eq!(store.tallies(Queues::first()).await.unwrap()[0].1.pending, 300);
}

/// What becomes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Commit,
    Reply,
}

/// The port of a proxy that loses one commit, or the reply to it, once `meanwhile` is set, which it does before its client knows.
async fn losing<F: Future<Output = ()> + Send + 'static>(
    server: u16,
    lost: Lost,
    meanwhile: Arc<Mutex<Option<F>>>,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move |mut client: TcpStream| {
        let meanwhile = meanwhile.clone();
        async move {
            let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
            let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
            loop {
                tokio::select! {
                    Ok(count @ 1..) = client.read(&mut asked) => {
                        let call = &asked[..count];
                        let is_commit = call.windows(6).any(|word| word == b"COMMIT");
                        let meanwhile = is_commit.then(|| meanwhile.lock().unwrap().take()).flatten();
                        if let Some(meanwhile) = meanwhile {
                            if lost == Lost::Reply {
                                server.write_all(call).await.unwrap();
                                assert_ne!(server.read(&mut answered).await.unwrap(), 0);
                            }
                            drop(server);
                            return meanwhile.await;
                        }
                        server.write_all(call).await.unwrap();
                    }
                    Ok(count @ 1..) = server.read(&mut answered) => client.write_all(&answered[..count]).await.unwrap(),
                    else => return,
                }
            }
        }
    };
    tokio::spawn(async move {
        loop {
            tokio::spawn(serve(listener.accept().await.unwrap().0));
        }
    });
    port
}

/// Two callers that store the same text both believed that they had stored it.
#[tokio::test(flavor = "multi_thread")]
async fn an_equal_document_of_another_call_is_not_taken_for_its_own() {
    for lost in [Lost::Commit, Lost::Reply] {
        let url = database().await;
        let port = url.rsplit_once(':').unwrap().1.split_once('/').unwrap().0;
        let other = sql::connect(&url, OPTIONS).await.unwrap();
        assert_eq!(other.put_if("kind", "a", "before", 0).await.unwrap(), PutIf::Stored(1));
        let same = async move {
            if lost == Lost::Commit {
                let stored = until_answered(|| other.put_if("kind", "a", "after", 1)).await;
                assert_eq!(stored, PutIf::Stored(2));
            }
        };
        let meanwhile = Arc::new(Mutex::new(None));
        let proxy = losing(port.parse().unwrap(), lost, meanwhile.clone()).await;
        let url = url.replace(&format!(":{port}/"), &format!(":{proxy}/"));
        let store = sql::connect(&url, OPTIONS).await.unwrap();
        *meanwhile.lock().unwrap() = Some(same);
        let stored = store.put_if("kind", "a", "after", 1).await.unwrap();
        let expected = if lost == Lost::Reply { PutIf::Stored(2) } else { PutIf::Mismatch(2) };
        assert_eq!(stored, expected, "{lost:?}");
    }
}

#[tokio::test]
async fn a_wrong_address_is_told_soon() {
    let error = sql::connect("postgres://nobody@127.0.0.1:9/none", Options::default()).await.unwrap_err();
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
