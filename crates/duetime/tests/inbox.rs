//! Jobs that applications insert in their own transactions, by the library, on private servers.

use duetime::job::{Due, JobOptions, Meta, NewJob, OnConflict, Query, State as JobState};
use duetime::time::Span;
use duetime::{Client, ConnectOptions, Job, Push, Retry, Timestamp, Worker, inbox, new_job};
use duetime_store::testing::{MariaDbServer, PostgresServer, RedisServer};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Ship {
    order: u64,
}

impl duetime::JobType for Ship {
    const KIND: &'static str = "order.ship";
    const QUEUE: &'static str = "orders";
}

fn ship(order: u64) -> NewJob {
    new_job(&Ship { order }).unwrap()
}

/// Says everything that a job may say.
fn full() -> NewJob {
    NewJob {
        due: Due::After(Span(3_600_000)),
        priority: 7,
        key: Some("ship-3".into()),
        on_conflict: OnConflict::Reject,
        tags: vec!["é".into(), "b".into()],
        lease: Some(Span(90_000)),
        expires: Some(Span(60_000)),
        options: JobOptions {
            trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
            meta: Some(Meta::from_iter([("tenant", "7")]).into()),
            retry: Retry::default().max_attempts(2),
            ..JobOptions::default()
        },
        ..ship(3)
    }
}

/// Runs until this many orders were shipped, and returns them.
async fn shipped(client: &Client, count: usize) -> Vec<u64> {
    let (seen, done) = (Arc::new(Mutex::new(Vec::new())), duetime::CancellationToken::new());
    let (to_see, to_end) = (seen.clone(), done.clone());
    let handler = move |job: Ship| {
        let (seen, done) = (to_see.clone(), to_end.clone());
        async move {
            let mut seen = seen.lock().unwrap();
            seen.push(job.order);
            if seen.len() == count {
                done.cancel();
            }
            duetime::worker::Handled::Ok(())
        }
    };
    let worker = Worker::new(client).handle(handler);
    let run = worker.run_until(done.cancelled_owned());
    tokio::time::timeout(Duration::from_secs(60), run).await.expect("all are shipped").unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    seen
}

/// Waits until a query finds jobs, and returns them.
async fn appeared(client: &Client, query: &Query) -> Vec<Job> {
    let found = async {
        let mut looks = tokio::time::interval(Duration::from_millis(10));
        loop {
            looks.tick().await;
            let jobs = client.jobs().page(query, None, 10).await.unwrap().jobs;
            if !jobs.is_empty() {
                return jobs;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("a job")
}

/// Checks the result of the transactions below: 1 and 2 were committed, then 3, which waits; 9 was rolled back.
async fn check(client: &Client) {
    assert_eq!(shipped(client, 2).await, [1, 2]);
    // The third row was inserted in a separate transaction, so it may become a job later.
    let jobs = appeared(client, &Query::default().queue("orders").state(JobState::Scheduled)).await;
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    let (job, full) = (&jobs[0], full());
    assert_eq!((&*job.kind, &job.payload, job.priority), ("order.ship", &full.payload, 7));
    assert_eq!((&job.key, &*job.tags, job.lease), (&full.key, full.tags.as_slice(), Some(Span(90_000))));
    assert_eq!((job.expires, job.options()), (Some(Span(60_000)), &full.options));
    assert_eq!(job.due_at.0 - job.created_at.0, 3_600_000);
    let all = client.jobs().page(&Query::default(), None, 10).await.unwrap().jobs;
    assert_eq!(all.len(), 3, "nothing of what was rolled back");
}

/// A client on Redis, beside this ledger.
async fn beside(redis: &str, ledger: String) -> Client {
    Client::connect_with(redis, ConnectOptions::default().ledger(ledger)).await.unwrap()
}

async fn blocking<T: Send + 'static>(start: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(start).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_transaction_of_postgres() {
    let redis = blocking(RedisServer::start).await;
    let server = blocking(|| PostgresServer::with(true, &[])).await;
    let client = beside(&redis.url(), server.url()).await;
    let (mut sql, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    sql.batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY)").await.unwrap();
    for (orders, commits) in [([1, 2], true), ([9, 10], false)] {
        let mut transaction = sql.transaction().await.unwrap();
        for order in orders {
            transaction.execute("INSERT INTO orders VALUES ($1)", &[&i64::try_from(order).unwrap()]).await.unwrap();
            Push::of(&Ship { order }).push_in(&mut transaction).await.unwrap();
        }
        if commits { transaction.commit().await.unwrap() } else { transaction.rollback().await.unwrap() }
    }
    let mut transaction = sql.transaction().await.unwrap();
    Push::from(full()).push_in(&mut transaction).await.unwrap();
    let wrong = NewJob { key: Some("".into()), ..ship(4) };
    assert_eq!(Push::from(wrong).push_in(&mut transaction).await.unwrap_err().code(), "invalid", "told at once");
    transaction.commit().await.unwrap();
    check(&client).await;

    crate::guide_sql::place(&mut sql, 42).await.unwrap();
    let jobs = appeared(&client, &Query::default().kind("order.cancel")).await;
    assert_eq!(&*jobs[0].payload, br#"{"order":42}"#);
    assert_eq!(jobs[0].due_at.0 - jobs[0].created_at.0, 1_800_000);
    client.close().await.unwrap();
}

#[test]
fn the_guide_shows_the_push_that_runs() {
    let (_, shown) = include_str!("guide_sql.rs").split_once("\n\n").unwrap();
    let shown = shown.replace("pub(crate) ", "");
    assert!(include_str!("../../../docs/guides/sql-transaction.md").contains(&format!("```rust,no_run\n{shown}```\n")));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_transaction_of_mysql() {
    use mysql_async::prelude::Queryable;
    let redis = blocking(RedisServer::start).await;
    let server = blocking(|| MariaDbServer::with(true, &[])).await;
    let client = beside(&redis.url(), server.url()).await;
    let mut sql = mysql_async::Conn::from_url(format!("{}?prefer_socket=false", server.url())).await.unwrap();
    sql.query_drop("CREATE TABLE orders (id BIGINT PRIMARY KEY)").await.unwrap();
    for (orders, commits) in [([1, 2], true), ([9, 10], false)] {
        let mut transaction = sql.start_transaction(mysql_async::TxOpts::default()).await.unwrap();
        for order in orders {
            transaction.exec_drop("INSERT INTO orders VALUES (?)", (order,)).await.unwrap();
            Push::of(&Ship { order }).push_in(&mut transaction).await.unwrap();
        }
        if commits { transaction.commit().await.unwrap() } else { transaction.rollback().await.unwrap() }
    }
    let mut transaction = sql.start_transaction(mysql_async::TxOpts::default()).await.unwrap();
    Push::from(full()).push_in(&mut transaction).await.unwrap();
    transaction.commit().await.unwrap();
    check(&client).await;
    client.close().await.unwrap();
}

/// The example, as users run it; cargo puts it beside the folder of tests.
fn example(ledger: &str) {
    let redis = RedisServer::start();
    let test = std::env::current_exe().expect("this test");
    let path = test.ancestors().nth(2).expect("a test lies in target/PROFILE/deps").join("examples/inbox");
    let hint = "cargo build -p duetime --features mysql,postgres --examples";
    assert!(path.is_file(), "expected {}: {hint}", path.display());
    let ran = Command::new(path).args([&redis.url(), ledger]).output().expect("the example starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{}: {said}{}", ran.status, String::from_utf8_lossy(&ran.stderr));
    assert!(said.ends_with("100 orders were committed, and 100 jobs with them\n"), "{said}");
    println!("{said}");
}

#[test]
fn the_example_runs_on_postgres() {
    example(&PostgresServer::with(true, &[]).url());
}

#[test]
fn the_example_runs_on_mysql() {
    example(&MariaDbServer::with(true, &[]).url());
}

/// The instant itself is for the server to judge.
#[test]
fn limits_are_checked_before_anything_is_sent() {
    assert!(inbox::Row::new(&NewJob { due: Due::At(Timestamp(4_000_000_000_000)), ..ship(1) }).is_ok());
    for wrong in [
        NewJob { due: Due::At(Timestamp(1_700_000_000)), ..ship(1) },
        NewJob { due: Due::After(Span(u64::MAX)), ..ship(1) },
        NewJob { queue: "-".into(), ..ship(1) },
        NewJob { tags: vec!["".into()], ..ship(1) },
    ] {
        assert_eq!(inbox::Row::new(&wrong).unwrap_err().code(), "invalid", "{wrong:?}");
    }
}
