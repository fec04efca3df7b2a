//! An application with Duetime's embedded default and sqlx in one build.
//!
//! That this links is the test: two crates that bring SQLite must agree on one. It runs too, but promises nothing.

use sqlx::{PgPool, Row, SqlitePool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sqlite = SqlitePool::connect("sqlite::memory:").await?;
    let row = sqlx::query("SELECT sqlite_version()").fetch_one(&sqlite).await?;
    println!("SQLite {}", row.try_get::<String, _>(0)?);

    let client = duetime::Client::memory().await?;
    let pushed = client.push_raw("greet", *b"hello").await?;
    println!("Duetime job {}", pushed.id);
    client.close().await?;

    let postgres = PgPool::connect_lazy("postgres://localhost/orders")?;
    println!("PostgreSQL pool of {} connections, not opened", postgres.size());
    Ok(())
}
