//! A web service whose orders are cancelled if nobody pays. `docs/guides/service.md` shows it without this line.

use axum::extract::{Path, State as Shared};
use axum::http::StatusCode;
use axum::routing::post;
use duetime::{CancellationToken, OpenOptions, Push, inbox, prelude::*};
use rusqlite::Connection;
use std::path::Path as File;
use std::sync::Mutex;

const TIME_TO_PAY: Duration = Duration::from_secs(30 * 60);

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order.cancel", queue = "orders", retry = "1m,10m,1h")]
struct CancelOrder {
    order: i64,
}

#[derive(Clone)]
struct App {
    client: Client,
    database: Arc<Mutex<Connection>>,
}

impl App {
    /// The order and its job exist both or neither.
    fn place(&self) -> Result<i64, Box<dyn std::error::Error>> {
        let mut database = self.database.lock().unwrap();
        let transaction = database.transaction()?;
        transaction.execute("INSERT INTO orders (state) VALUES ('placed')", [])?;
        let order = transaction.last_insert_rowid();
        let row = Push::of(&CancelOrder { order }).key(format!("order-{order}")).after(TIME_TO_PAY).row()?;
        transaction.execute(inbox::INSERT_SQLITE, row.values())?;
        transaction.commit()?;
        Ok(order)
    }

    /// Changes the state of an order that waits for its payment. Returns whether it did.
    fn end(&self, order: i64, state: &str) -> rusqlite::Result<bool> {
        let sql = "UPDATE orders SET state = ? WHERE id = ? AND state = 'placed'";
        Ok(self.database.lock().unwrap().execute(sql, (state, order))? == 1)
    }

    /// The database decides. The cancel only spares the job.
    async fn pay(&self, order: i64) -> Result<bool, Box<dyn std::error::Error>> {
        let is_paid = self.end(order, "paid")?;
        self.client.cancel_by_key("orders", format!("order-{order}")).await?;
        Ok(is_paid)
    }
}

async fn cancel(job: CancelOrder, State(app): State<App>) -> Result<bool, JobError> {
    Ok(app.end(job.order, "cancelled")?)
}

fn worker(app: &App) -> Worker<App> {
    Worker::new(&app.client).state(app.clone()).handle(cancel)
}

type Failed = (StatusCode, String);

fn failed(error: impl Into<Box<dyn std::error::Error>>) -> Failed {
    (StatusCode::INTERNAL_SERVER_ERROR, error.into().to_string())
}

async fn post_order(Shared(app): Shared<App>) -> Result<String, Failed> {
    app.place().map(|order| order.to_string()).map_err(failed)
}

async fn post_payment(Shared(app): Shared<App>, Path(order): Path<i64>) -> Result<&'static str, Failed> {
    Ok(if app.pay(order).await.map_err(failed)? { "paid\n" } else { "too late\n" })
}

async fn open(folder: &File) -> Result<App, Box<dyn std::error::Error>> {
    let file = folder.join("shop.db");
    let database = Connection::open(&file)?;
    database.pragma_update(None, "journal_mode", "wal")?;
    database.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL)", [])?;
    let client = Client::open_with(folder.join("jobs.db"), OpenOptions::default().inbox(file)).await?;
    Ok(App { client, database: Arc::new(Mutex::new(database)) })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = open(File::new(".")).await?;
    let routes = axum::Router::new()
        .route("/orders", post(post_order))
        .route("/orders/{order}/payment", post(post_payment))
        .with_state(app.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    let stop = CancellationToken::new();
    let worker = tokio::spawn(worker(&app).run_until(stop.clone().cancelled_owned()));
    let signal = async { tokio::signal::ctrl_c().await.expect("signals can be received") };
    axum::serve(listener, routes).with_graceful_shutdown(signal).await?;
    stop.cancel(); // the worker finishes what is running
    worker.await??;
    Ok(app.client.close().await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime::testing;

    async fn app() -> (App, testing::Clock) {
        let (client, clock) = testing::client().await;
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch(inbox::CREATE_SQLITE).unwrap();
        database.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL)").unwrap();
        (App { client, database: Arc::new(Mutex::new(database)) }, clock)
    }

    /// A store in memory reads no inbox: the test pushes what is in it.
    async fn place(app: &App) -> i64 {
        let order = app.place().unwrap();
        let sql = "SELECT count(*) FROM duetime_inbox WHERE kind = 'order.cancel' AND delay_ms = 1800000";
        assert_eq!(app.database.lock().unwrap().query_row(sql, [], |row| row.get(0)), Ok(1));
        app.client.push(CancelOrder { order }).key(format!("order-{order}")).after(TIME_TO_PAY).await.unwrap();
        order
    }

    #[tokio::test]
    async fn an_order_that_nobody_pays_is_cancelled() {
        let (app, clock) = app().await;
        let order = place(&app).await;
        assert_eq!(worker(&app).drain().await.unwrap().succeeded, 0);
        clock.advance(TIME_TO_PAY).await;
        assert_eq!(worker(&app).drain().await.unwrap().succeeded, 1);
        assert!(!app.pay(order).await.unwrap(), "it is too late");
    }

    #[tokio::test]
    async fn an_order_that_is_paid_stays() {
        let (app, clock) = app().await;
        let order = place(&app).await;
        assert!(app.pay(order).await.unwrap());
        clock.advance(TIME_TO_PAY).await;
        assert_eq!(worker(&app).drain().await.unwrap().succeeded, 0);
    }
}
