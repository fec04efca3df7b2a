//! Jobs that applications insert in their own transactions, by plain SQL, and real servers that find them; and a shop that
//! reads the outcome of its refunds by plain SQL.

mod after_sale;
pub(crate) mod database;

use database::Database;
use duetime::Client;
use duetime_core::api::Span;
use duetime_core::engine::{Query, ReserveRequest, Source};
use duetime_store::testing::RedisServer;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// The time limit for a test; never reached if all is well.
const LIMIT: Duration = Duration::from_secs(90);

/// A server process; killed when it is dropped.
struct Server {
    child: Child,
    address: String,
    client: Client,
}

impl Server {
    /// Starts one beside this ledger, and waits until it prints its address.
    async fn start(redis: &RedisServer, database: &Database) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_duetime"))
            .env_clear()
            .args(["serve", "--log-level", "warn", "--listen", "127.0.0.1:0", "--ledger-may-lose"])
            .args(["--broker", &redis.url(), "--ledger", &database.url()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| Some(line.unwrap().split_once("listening on ")?.1.trim().to_owned()));
        let address = address.expect("it says where it listens");
        let client = Client::connect(&address).await.unwrap();
        Self { child, address, client }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.address.trim_start_matches("http://")).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Payloads in the order in which they are handed out, until there are this many.
    async fn handed_out(&self, queue: &str, count: usize) -> Vec<String> {
        let mut payloads = Vec::new();
        let work = async {
            while payloads.len() < count {
                for lease in self.reserve(queue).await {
                    self.client.leases().complete(lease.job.receipt(), None).await.unwrap();
                    payloads.push(String::from_utf8(lease.job.payload.to_vec()).unwrap());
                }
            }
        };
        timeout(LIMIT, work).await.expect("all are handed out");
        payloads
    }

    async fn reserve(&self, queue: &str) -> Vec<duetime_core::ports::Lease> {
        let from = Source::Queues(vec![queue.into()]);
        let request = ReserveRequest::new(from).limit(1_000).wait(Span(10_000));
        self.client.leases().reserve(request).await.unwrap().leases
    }

    /// The number of jobs with each payload, in any state.
    async fn jobs(&self, queue: &str) -> BTreeMap<String, usize> {
        let query = Query { queue: Some(queue.into()), ..Query::default() };
        let (mut jobs, mut cursor) = (BTreeMap::new(), None::<String>);
        loop {
            let page = self.client.jobs().page(&query, cursor.as_deref(), 1_000).await.unwrap();
            for job in page.jobs {
                *jobs.entry(String::from_utf8(job.payload.to_vec()).unwrap()).or_default() += 1;
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return jobs;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn insert(payload: &str) -> String {
    format!("INSERT INTO duetime_inbox (payload) VALUES ('{payload}')")
}

/// Committed jobs run, rolled-back jobs do not, and invalid rows are marked and do not block others.
async fn transactions(database: Database) {
    let redis = blocking(RedisServer::start).await;
    let server = Server::start(&redis, &database).await;
    let id = match &database {
        Database::MySql(_) => "INSERT INTO duetime_inbox (id, payload) VALUES (-5, 'negative')",
        Database::Postgres(_) => {
            "INSERT INTO duetime_inbox (id, payload) OVERRIDING SYSTEM VALUE VALUES (-5, 'negative')"
        }
    };
    database.run(&[id]).await;
    assert_eq!(server.handed_out("default", 1).await, ["negative"]);
    database.run(&["BEGIN", &insert("committed"), "COMMIT"]).await;
    assert_eq!(server.handed_out("default", 1).await, ["committed"]);
    database.run(&["BEGIN", &insert("rolled back"), "ROLLBACK"]).await;
    database
        .run(&[
            "BEGIN",
            "INSERT INTO duetime_inbox (payload, queue) VALUES ('bad queue', 'no spaces here')",
            "INSERT INTO duetime_inbox (payload, due_at, delay_ms) VALUES ('both', 1, 1)",
            "INSERT INTO duetime_inbox (payload, tags) VALUES ('bad tags', 'no JSON')",
            "INSERT INTO duetime_inbox (payload, options) VALUES ('bad options', '{\"delay\": \"5s\"}')",
            "INSERT INTO duetime_inbox (payload, options) VALUES ('moves in a circle', '{\"when_exhausted\": {\"move\": \"default\"}}')",
            "INSERT INTO duetime_inbox (payload, priority) VALUES ('bad priority', -1)",
            "INSERT INTO duetime_inbox (payload, created_at) VALUES ('at no time', -9223372036854775808)",
            "INSERT INTO duetime_inbox (payload, created_at) VALUES ('before 1970', -1)",
            "INSERT INTO duetime_inbox (payload, options) VALUES ('blanks', CONCAT('{', REPEAT(' ', 2000000), '}'))",
            "INSERT INTO duetime_inbox (payload, delay_ms) VALUES ('late', 200)",
            "INSERT INTO duetime_inbox (payload, priority, delay_ms) VALUES ('urgent', 0, 0)",
            "COMMIT",
        ])
        .await;
    assert_eq!(server.handed_out("default", 2).await, ["urgent", "late"]);
    let refused = database.errors().await;
    for (payload, error) in [
        ("bad queue", "invalid: `queue` must be 1 to 200 of"),
        ("both", "invalid: `due_at` must be given without `delay_ms`"),
        ("bad tags", "invalid: `tags` must be a JSON array"),
        ("bad options", "`options: delay` must be left out: the row has a column for it"),
        ("moves in a circle", "the queue itself"),
        ("bad priority", "invalid: `priority` must be 0 to 4294967295, got -1"),
        ("at no time", "invalid: `created_at` must be left out"),
        ("before 1970", "invalid: `created_at` must be left out"),
        ("blanks", "invalid: `options` must be at most 1048576 bytes"),
    ] {
        let found = refused.iter().find(|(refused, _)| refused == payload);
        assert!(found.is_some_and(|(_, why)| why.contains(error)), "{payload}: {refused:?}");
    }
    assert_eq!(refused.len(), 9, "{refused:?}");
    assert!(server.metrics().contains("duetime_inbox_refused_total 9\n"), "{}", server.metrics());
    assert_eq!(server.jobs("default").await.len(), 4, "nothing that was rolled back");
}

/// A key that is held: by what `on_conflict` says.
async fn conflicts(database: Database) {
    let redis = blocking(RedisServer::start).await;
    let server = Server::start(&redis, &database).await;
    let insert = |payload: &str, queue: &str, on_conflict: &str, delay_ms: u32| {
        format!(
            "INSERT INTO duetime_inbox (payload, queue, job_key, options, delay_ms) \
             VALUES ('{payload}', '{queue}', 'k', '{{\"on_conflict\": \"{on_conflict}\"}}', {delay_ms})"
        )
    };
    let sign = "INSERT INTO duetime_inbox (payload, queue) VALUES ('sign', 'signs')";
    for queue in ["keep", "replace", "reject"] {
        database.run(&[&insert("first", queue, queue, 3_600_000)]).await;
    }
    database.run(&[sign]).await;
    server.handed_out("signs", 1).await;
    // Now the holders are in the broker; the other conflicts are among rows that are moved together.
    for queue in ["keep", "replace", "reject"] {
        let second = insert("second", queue, queue, 3_600_000);
        database.run(&["BEGIN", &second, &insert("third", queue, queue, 0), "COMMIT"]).await;
    }
    assert_eq!(server.handed_out("replace", 1).await, ["third"]);
    // The second sign is moved after all that was moved with the first.
    for _ in 0..2 {
        database.run(&[sign]).await;
        server.handed_out("signs", 1).await;
    }
    let one = |payload: &str| BTreeMap::from([(payload.to_owned(), 1)]);
    assert_eq!(server.jobs("keep").await, one("first"));
    assert_eq!(server.jobs("replace").await, one("third"));
    assert_eq!(server.jobs("reject").await, one("first"));
    let refused = database.errors().await;
    assert_eq!(refused.iter().map(|(payload, _)| payload.as_str()).collect::<Vec<_>>(), ["second", "third"]);
    assert!(refused[0].1.starts_with("key_conflict: the key \"k\" in the queue \"reject\" belongs to"), "{refused:?}");
}

/// Each row becomes one job, even though the server that moves them is killed meanwhile. The first to start leads. It is
/// killed at the first reservation, while rows are being inserted, and the last rows are inserted after that, so there are
/// always rows for the other server to move.
async fn killed(database: Database) {
    const CONNECTIONS: usize = 4;
    const ROWS: usize = 250;
    const ROWS_AFTER_THE_KILL: usize = 50;
    let redis = blocking(RedisServer::start).await;
    let mut leader = Server::start(&redis, &database).await;
    let other = Server::start(&redis, &database).await;
    let (tell, told) = watch::channel(false);
    let inserting: Vec<_> = (0..CONNECTIONS)
        .map(|connection| {
            let (database, mut told) = (database.clone(), told.clone());
            tokio::spawn(async move {
                let rows: Vec<String> = (0..ROWS).map(|row| insert(&format!("{connection}.{row}"))).collect();
                let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
                let (before, after) = rows.split_at(ROWS - ROWS_AFTER_THE_KILL);
                database.run(before).await;
                told.wait_for(|is_killed| *is_killed).await.unwrap();
                database.run(after).await;
            })
        })
        .collect();
    // Completed later: that takes time in which the leader would move the rest.
    let leases = timeout(LIMIT, other.reserve("default")).await.unwrap();
    leader.kill();
    let (waiting, moved) = (database.count().await, leases.len());
    println!("at the kill {moved} were handed out and {waiting} rows waited");
    tell.send(true).unwrap();
    let mut payloads = Vec::new();
    for lease in leases {
        other.client.leases().complete(lease.job.receipt(), None).await.unwrap();
        payloads.push(String::from_utf8(lease.job.payload.to_vec()).unwrap());
    }
    assert!(payloads.len() <= CONNECTIONS * (ROWS - ROWS_AFTER_THE_KILL), "none of the last rows");
    payloads.extend(other.handed_out("default", CONNECTIONS * ROWS - payloads.len()).await);
    for inserting in inserting {
        inserting.await.unwrap();
    }
    payloads.sort_unstable();
    payloads.dedup();
    assert_eq!(payloads.len(), CONNECTIONS * ROWS, "none twice");
    let jobs = other.jobs("default").await;
    assert_eq!(jobs.len(), CONNECTIONS * ROWS);
    assert!(jobs.values().all(|count| *count == 1), "{jobs:?}");
    assert_eq!(database.count().await, 0);
}

/// The examples, as users run them: an order that is there already is not taken again, and its job not pushed.
async fn examples(database: Database) {
    let redis = blocking(RedisServer::start).await;
    let server = Server::start(&redis, &database).await;
    database.run(&["CREATE TABLE orders (id BIGINT PRIMARY KEY)"]).await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/inbox");
    for (order, (program, script)) in (1..).zip([("php", "push.php"), ("/usr/bin/python3", "push.py")]) {
        let url = database.url();
        let run = |order: i32| -> Output {
            let script = format!("{folder}/{script}");
            Command::new(program).args([script.as_str(), url.as_str(), &order.to_string()]).output().unwrap()
        };
        let first = run(order);
        assert!(first.status.success(), "{program}: {}", String::from_utf8_lossy(&first.stderr));
        assert_eq!(server.handed_out("orders", 1).await.len(), 1);
        let second = run(order);
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(second.status.code() == Some(1) && said.contains("was not taken"), "{program}: {said}");
    }
    let jobs = server.jobs("orders").await;
    let mut jobs: Vec<serde_json::Value> = jobs.keys().map(|payload| serde_json::from_str(payload).unwrap()).collect();
    jobs.sort_by_key(|job| job["order"].as_u64());
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    for (job, order) in jobs.iter().zip(1..) {
        assert_eq!((&job["order"], &job["note"]), (&order.into(), &"a \"quoted\" \\ naïve\nnote".into()));
    }
    let query = Query { queue: Some("orders".into()), tag: Some("order-1".into()), ..Query::default() };
    let job = server.client.jobs().page(&query, None, 10).await.unwrap().jobs.remove(0);
    assert_eq!((&*job.kind, job.key.as_deref(), job.lease), ("order.cancel", Some("cancel-1"), Some(Span(300_000))));
}

macro_rules! on_both {
    ($($case:ident: $of_mysql:ident, $of_postgres:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $of_mysql() {
                $case(Database::mysql().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $of_postgres() {
                $case(Database::postgres().await).await;
            }
        )*
    };
}

on_both! {
    transactions: committed_rows_run_in_mysql, committed_rows_run_in_postgres;
    conflicts: keys_are_judged_in_mysql, keys_are_judged_in_postgres;
    killed: a_kill_of_the_leader_loses_no_row_of_mysql, a_kill_of_the_leader_loses_no_row_of_postgres;
    examples: the_examples_push_into_mysql, the_examples_push_into_postgres;
}
