//! An application with Duetime's embedded default and its own rusqlite in one build: both must agree on one SQLite. It pushes within
//! its own transaction.

use duetime::{OpenOptions, Push, event::Filter, inbox, prelude::*};
use rusqlite::Connection;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order.cancel", queue = "orders")]
struct CancelOrder {
    order: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("SQLite {}", rusqlite::version());
    let mut database = Connection::open("shop.db")?;
    database.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")?;
    let client = Client::open_with("jobs.db", OpenOptions::default().inbox("shop.db")).await?;
    let mut events = client.events(Filter::default()).await?;
    let transaction = database.transaction()?;
    transaction.execute("INSERT INTO orders (id) VALUES (42)", [])?;
    transaction.execute(inbox::INSERT_SQLITE, Push::of(&CancelOrder { order: 42 }).row()?.values())?;
    transaction.commit()?;
    events.next().await?;
    let job = client.jobs().page(&Default::default(), None, 1).await?.jobs.pop().expect("a job");
    println!("job {}", job.id);
    Ok(client.close().await?)
}
