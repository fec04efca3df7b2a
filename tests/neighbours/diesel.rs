//! An application with Duetime's embedded default and Diesel in one build: both must agree on one SQLite.

use diesel::{Connection, RunQueryDsl, SqliteConnection};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut database = SqliteConnection::establish(":memory:")?;
    diesel::sql_query("CREATE TABLE orders (id INTEGER PRIMARY KEY)").execute(&mut database)?;
    let client = duetime::Client::open("jobs.db").await?;
    println!("job {}", client.push_raw("greet", *b"hello").await?.id);
    Ok(client.close().await?)
}
