//! An application with Duetime's embedded default and its own rusqlite in one build: both must agree on one SQLite.

use rusqlite::Connection;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Connection::open_in_memory()?;
    database.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")?;
    println!("SQLite {}", rusqlite::version());
    let client = duetime::Client::open("jobs.db").await?;
    println!("job {}", client.push_raw("greet", *b"hello").await?.id);
    Ok(client.close().await?)
}
