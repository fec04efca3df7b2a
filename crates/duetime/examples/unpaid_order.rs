//! The README's program: an order that is not paid in time is cancelled.

use duetime::prelude::*;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order.cancel", queue = "orders")]
struct CancelOrder {
    order: u64,
}

async fn cancel(job: CancelOrder) -> Result<(), JobError> {
    println!("order {} is cancelled", job.order);
    Ok(())
}

#[tokio::main]
async fn main() -> duetime::Result<()> {
    let client = Client::open("jobs.db").await?; // or Client::connect("http://…"), feature `remote`
    let delay = Duration::from_secs(2); // or 30 minutes
    client.push(CancelOrder { order: 1 }).key("order-1").after(delay).await?;
    client.push(CancelOrder { order: 2 }).key("order-2").after(delay).await?;
    client.cancel_by_key("orders", "order-1").await?; // it is paid
    Worker::new(&client).handle(cancel).run_for(Duration::from_secs(3)).await?;
    client.close().await
}
