//! An application with Duetime's embedded default and sqlx in one build: both must agree on one SQLite.

use sqlx::{Row, SqlitePool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = SqlitePool::connect("sqlite::memory:").await?;
    let row = sqlx::query("SELECT sqlite_version()").fetch_one(&pool).await?;
    println!("SQLite {}", row.try_get::<String, _>(0)?);
    let client = duetime::Client::open("jobs.db").await?;
    println!("job {}", client.push_raw("greet", *b"hello").await?.id);
    Ok(client.close().await?)
}
