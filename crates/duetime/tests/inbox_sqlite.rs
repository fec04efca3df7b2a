//! An application pushes jobs in transactions of its SQLite file.

use duetime::job::{OnConflict, Query, State as JobState};
use duetime::prelude::*;
use duetime::time::Span;
use duetime::{Client, OpenOptions, Push, inbox};
use rusqlite::{Connection, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tempfile::TempDir;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order.ship", queue = "orders")]
struct Ship {
    order: u64,
}

/// A folder with the application's database, which another thread of it may have open.
struct Shop {
    folder: TempDir,
    database: Connection,
}

impl Shop {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = Connection::open(folder.path().join("shop.db")).unwrap();
        database.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
        Self { folder, database }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    async fn open(&self) -> Client {
        open(self.folder.path(), &self.path()).await.unwrap()
    }

    /// One transaction with an order and its job.
    fn order(&mut self, order: u64, push: Push<inbox::Unsent>) {
        let transaction = self.database.transaction().unwrap();
        transaction.execute("INSERT INTO orders (id) VALUES (?1)", [order as i64]).unwrap();
        transaction.execute(inbox::INSERT_SQLITE, push.row().unwrap().values()).unwrap();
        transaction.commit().unwrap();
    }

    fn rows(&self) -> i64 {
        self.database.query_row("SELECT count(*) FROM duetime_inbox", [], |row| row.get(0)).unwrap()
    }
}

async fn open(folder: &Path, inbox: &Path) -> duetime::Result<Client> {
    Client::open_with(folder.join("jobs.db"), OpenOptions::default().inbox(inbox)).await
}

fn ship(order: u64) -> Push<inbox::Unsent> {
    Push::of(&Ship { order })
}

async fn done(_: Ship) -> duetime::worker::Handled {
    Ok(())
}

/// Waits until this holds, for at most 30 s.
async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    let wait = async {
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        while !holds().await {
            looks.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it holds in time");
}

/// The orders of all jobs.
async fn jobs(client: &Client) -> Vec<u64> {
    let found = client.jobs().page(&Query::default(), None, 1_000).await.unwrap().jobs;
    let mut orders: Vec<u64> = found.iter().map(|job| job.payload_as::<Ship>().unwrap().order).collect();
    orders.sort_unstable();
    orders
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_exists_if_its_transaction_is_committed() {
    let mut shop = Shop::new();
    let client = shop.open().await;
    shop.order(
        1,
        ship(1).key("order-1").after(Duration::from_secs(3_600)).tag("a").priority(7).lease(Duration::from_secs(90)),
    );
    shop.order(2, ship(2));
    let transaction = shop.database.transaction().unwrap();
    transaction.execute(inbox::INSERT_SQLITE, ship(9).row().unwrap().values()).unwrap();
    transaction.rollback().unwrap();

    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler = async |job: Ship, State(seen): State<Arc<Mutex<Vec<u64>>>>| {
        seen.lock().unwrap().push(job.order);
        duetime::worker::Handled::Ok(())
    };
    let done = duetime::CancellationToken::new();
    let run = Worker::new(&client).state(seen.clone()).handle(handler).run_until(done.cancelled());
    let watch = async {
        until(async || !seen.lock().unwrap().is_empty() && shop.rows() == 0).await;
        done.cancel();
    };
    let (ran, ()) = tokio::join!(run, watch);
    ran.unwrap();
    assert_eq!(*seen.lock().unwrap(), [2]);
    assert_eq!(jobs(&client).await, [1, 2]);

    let query = Query::default().state(JobState::Scheduled);
    let job = client.jobs().page(&query, None, 10).await.unwrap().jobs.remove(0);
    assert_eq!((job.key.as_deref(), &*job.tags, job.priority), (Some("order-1"), &["a".into()][..], 7));
    let delay = job.due_at.0 - job.created_at.0;
    assert_eq!((delay, job.lease), (3_600_000, Some(Span(90_000))));
    client.close().await.unwrap();
}

/// As a process leaves them that dies after it has recorded their jobs.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_outlive_their_jobs_make_no_others() {
    let mut shop = Shop::new();
    shop.open().await.close().await.unwrap();
    shop.order(1, ship(1));
    shop.order(2, ship(2).key("order-2").on_conflict(OnConflict::Reject).after(Duration::from_secs(3_600)));
    shop.database.execute_batch("CREATE TABLE kept AS SELECT * FROM duetime_inbox").unwrap();
    let client = shop.open().await;
    until(async || Worker::new(&client).handle(done).drain().await.unwrap().succeeded == 1).await;
    until(async || shop.rows() == 0).await;
    client.close().await.unwrap();

    shop.database.execute_batch("INSERT INTO duetime_inbox SELECT * FROM kept").unwrap();
    let client = shop.open().await;
    until(async || shop.rows() == 0).await;
    let jobs = client.jobs().page(&Query::default(), None, 10).await.unwrap().jobs;
    let attempts: Vec<u32> = jobs.iter().map(|job| job.attempt).collect();
    assert_eq!(attempts, [1, 0], "the one has run and does not run again, the other waits");
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_file_delays_no_job_that_is_committed() {
    let mut shop = Shop::new();
    shop.open().await.close().await.unwrap();
    shop.order(1, ship(1));
    let mut other = Connection::open(shop.path()).unwrap();
    let lock = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let client = shop.open().await;
    until(async || Worker::new(&client).handle(done).drain().await.unwrap().succeeded == 1).await;
    assert_eq!(shop.rows(), 1, "it cannot be deleted");
    drop(lock);
    until(async || shop.rows() == 0).await;
    assert_eq!(jobs(&client).await, [1]);
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_no_job_stays_with_its_reason_and_holds_up_no_other() {
    let mut shop = Shop::new();
    let client = shop.open().await;
    for row in ["('no queue', 'x', 1)", "('orders', 7, 'soon')", "('orders', x'ff', NULL)"] {
        shop.database
            .execute_batch(&format!("INSERT INTO duetime_inbox (queue, payload, due_at) VALUES {row}"))
            .unwrap();
    }
    shop.order(1, ship(1));
    until(async || client.jobs().page(&Query::default(), None, 10).await.unwrap().jobs.len() == 2).await;
    until(async || shop.rows() == 2).await;
    let mut reasons = shop.database.prepare("SELECT error FROM duetime_inbox ORDER BY id").unwrap();
    let reasons: Vec<Option<String>> = reasons.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(reasons.iter().all(|reason| reason.as_deref().unwrap().starts_with("invalid: ")), "{reasons:?}");
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_gone_is_told_and_found_again() {
    let mut shop = Shop::new();
    shop.database.execute_batch("PRAGMA journal_mode = DELETE").unwrap();
    let client = shop.open().await;
    std::fs::rename(shop.path(), shop.folder.path().join("away.db")).unwrap();
    until(async || {
        client
            .health()
            .await
            .unwrap()
            .degraded
            .iter()
            .any(|one| one.error.as_deref().is_some_and(|error| error.contains("put it back in its place")))
    })
    .await;
    shop.database = Connection::open(shop.path()).unwrap();
    shop.database.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
    shop.database.execute_batch(inbox::CREATE_SQLITE).unwrap();
    shop.order(1, ship(1));
    until(async || jobs(&client).await == [1] && client.health().await.unwrap().degraded.is_empty()).await;
    client.close().await.unwrap();
}

#[tokio::test]
async fn an_inbox_that_cannot_be_one_is_refused_at_once() {
    let shop = Shop::new();
    let folder = shop.folder.path();
    let missing = open(folder, &folder.join("none.db")).await.unwrap_err();
    assert!(missing.to_string().contains("open your application's database before"), "{missing}");
    assert!(!folder.join("none.db").exists());
    std::fs::write(folder.join("text"), "not a database, but long enough to be read as one".repeat(9)).unwrap();
    assert_eq!(open(folder, &folder.join("text")).await.unwrap_err().code(), "store_unusable");
    open(folder, &shop.path()).await.unwrap().close().await.unwrap();
    let own = open(folder, &folder.join("jobs.db")).await.unwrap_err();
    assert!(own.to_string().contains("application's own database"), "{own}");
}
