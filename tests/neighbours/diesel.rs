//! An application with Duetime's embedded default and Diesel in one build: both must agree on one SQLite. It pushes within its own
//! transaction.

use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use diesel::{Connection, QueryResult, RunQueryDsl, SqliteConnection, sql_query};
use duetime::{OpenOptions, Push, event::Filter, inbox, prelude::*};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order.cancel", queue = "orders")]
struct CancelOrder {
    order: i64,
}

fn insert(database: &mut SqliteConnection, row: inbox::Row) -> QueryResult<usize> {
    let (queue, kind, payload, due_at, delay_ms, job_key, tags, priority, options) = row.values();
    sql_query(inbox::INSERT_SQLITE)
        .bind::<Text, _>(queue)
        .bind::<Text, _>(kind)
        .bind::<Binary, _>(payload)
        .bind::<Nullable<BigInt>, _>(due_at)
        .bind::<Nullable<BigInt>, _>(delay_ms)
        .bind::<Nullable<Text>, _>(job_key)
        .bind::<Nullable<Text>, _>(tags)
        .bind::<BigInt, _>(priority)
        .bind::<Nullable<Text>, _>(options)
        .execute(database)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut database = SqliteConnection::establish("shop.db")?;
    sql_query("PRAGMA busy_timeout = 5000").execute(&mut database)?;
    sql_query("CREATE TABLE orders (id INTEGER PRIMARY KEY)").execute(&mut database)?;
    let client = Client::open_with("jobs.db", OpenOptions::default().inbox("shop.db")).await?;
    let mut events = client.events(Filter::default()).await?;
    let row = Push::of(&CancelOrder { order: 42 }).after(Duration::from_secs(30 * 60)).row()?;
    database.transaction(|database| {
        sql_query("INSERT INTO orders (id) VALUES (42)").execute(database)?;
        insert(database, row)
    })?;
    events.next().await?;
    let job = client.jobs().page(&Default::default(), None, 1).await?.jobs.pop().expect("a job");
    println!("job {}", job.id);
    Ok(client.close().await?)
}
