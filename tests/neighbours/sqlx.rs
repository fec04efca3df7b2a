//! An application with Duetime's embedded default and sqlx in one build: both must agree on one SQLite. It pushes within its own
//! transaction, as the guide shows.

use duetime::{OpenOptions, Push, event::Filter, inbox, prelude::*};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order.cancel", queue = "orders")]
struct CancelOrder {
    order: i64,
}

async fn place(pool: &SqlitePool, order: i64) -> Result<(), Box<dyn std::error::Error>> {
    let mut transaction = pool.begin().await?;
    sqlx::query("INSERT INTO orders (id) VALUES (?)").bind(order).execute(&mut *transaction).await?;
    let row = Push::of(&CancelOrder { order }).after(Duration::from_secs(30 * 60)).row()?;
    duetime::bind_row!(sqlx::query(inbox::INSERT_SQLITE), row).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = SqliteConnectOptions::new().filename("shop.db").create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await?;
    sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY)").execute(&pool).await?;
    let version: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&pool).await?;
    println!("SQLite {version}");
    let client = Client::open_with("jobs.db", OpenOptions::default().inbox("shop.db")).await?;
    let mut events = client.events(Filter::default()).await?;
    place(&pool, 42).await?;
    events.next().await?;
    let job = client.jobs().page(&Default::default(), None, 1).await?.jobs.pop().expect("a job");
    assert_eq!(job.payload_as::<CancelOrder>()?.order, 42);
    println!("job {}", job.id);
    Ok(client.close().await?)
}
