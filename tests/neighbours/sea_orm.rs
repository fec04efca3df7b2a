//! An application with Duetime's embedded default and SeaORM in one build: both must agree on one SQLite.

use sea_orm::{ConnectionTrait, Database};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Database::connect("sqlite::memory:").await?;
    database.execute_unprepared("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await?;
    let client = duetime::Client::open("jobs.db").await?;
    println!("job {}", client.push_raw("greet", *b"hello").await?.id);
    Ok(client.close().await?)
}
