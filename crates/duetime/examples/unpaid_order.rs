//! The README's program: an order that is not paid in time is cancelled.
#![expect(clippy::unit_arg, reason = "the program is to be short")]

use duetime::{Client, Context, Worker};
use std::time::Duration;

#[derive(serde::Serialize, serde::Deserialize)]
struct CancelOrder {
    order: u64,
}
impl duetime::Kind for CancelOrder {
    const KIND: &'static str = "order.cancel";
}

#[tokio::main]
async fn main() -> Result<(), duetime::Error> {
    let client = Client::open("jobs.db").await?; // or Client::connect("http://127.0.0.1:7300").await?
    let delay = Duration::from_secs(2); // or 30 minutes
    client.push(CancelOrder { order: 1 }).queue("orders").key("order-1").delay(delay).await?;
    client.push(CancelOrder { order: 2 }).queue("orders").key("order-2").delay(delay).await?;
    client.cancel_by_key("orders", "order-1").await?; // it is paid
    let cancel = async |job: CancelOrder, _: Context| Ok(println!("order {} is cancelled", job.order));
    Worker::new(&client).queue("orders").handler(cancel).run_for(Duration::from_secs(3)).await?;
    client.close().await
}
