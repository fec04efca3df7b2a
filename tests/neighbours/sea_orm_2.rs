//! An application with Duetime's embedded default and SeaORM 2 in one build: both must agree on one SQLite. It pushes within its own
//! transaction.

use duetime::{OpenOptions, Push, event::Filter, inbox, prelude::*};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection, DbBackend, Statement, TransactionTrait};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order.cancel", queue = "orders")]
struct CancelOrder {
    order: i64,
}

async fn place(database: &DatabaseConnection, order: i64) -> Result<(), Box<dyn std::error::Error>> {
    let transaction = database.begin().await?;
    let sql = "INSERT INTO orders (id) VALUES (?)";
    transaction.execute_raw(Statement::from_sql_and_values(DbBackend::Sqlite, sql, [order.into()])).await?;
    let row = Push::of(&CancelOrder { order }).after(Duration::from_secs(30 * 60)).row()?;
    let (sql, values) = (inbox::INSERT_SQLITE, row.values_as::<sea_orm::Value>());
    transaction.execute_raw(Statement::from_sql_and_values(DbBackend::Sqlite, sql, values)).await?;
    transaction.commit().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Database::connect("sqlite:shop.db?mode=rwc").await?;
    database.execute_unprepared("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await?;
    let client = Client::open_with("jobs.db", OpenOptions::default().inbox("shop.db")).await?;
    let mut events = client.events(Filter::default()).await?;
    place(&database, 42).await?;
    events.next().await?;
    let job = client.jobs().find(Default::default()).next().await?.expect("a job");
    assert_eq!(job.payload_as::<CancelOrder>()?.order, 42);
    println!("job {}", job.id);
    Ok(client.close().await?)
}
