//! The push within a transaction that the guide shows.

use duetime::{Push, prelude::*};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order.cancel", queue = "orders")]
struct CancelOrder {
    order: i64,
}

pub(crate) async fn place(database: &mut tokio_postgres::Client, order: i64) -> Result<(), Box<dyn std::error::Error>> {
    let mut transaction = database.transaction().await?;
    transaction.execute("INSERT INTO orders (id) VALUES ($1)", &[&order]).await?;
    Push::of(&CancelOrder { order }).after(Duration::from_secs(30 * 60)).push_in(&mut transaction).await?;
    transaction.commit().await?;
    Ok(())
}
