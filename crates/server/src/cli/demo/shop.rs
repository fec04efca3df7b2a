//! A simulated shop that fills the dashboard.

use duetime::worker::Handled;
use duetime::{Client, Context, Error, JobError, Worker};
use duetime_core::api::Span;
use duetime_core::engine::QueueSettings;
use duetime_core::{Backoff, Due, NewJob, Retry, Schedule, Timing};
use std::sync::Arc;
use std::time::Duration;

/// A new customer comes this often.
const CUSTOMER_EVERY: Duration = Duration::from_millis(400);
/// The first customers come so fast that the dashboard soon has something to show, and not so fast that jobs are late.
const FIRST_EVERY: Duration = Duration::from_millis(10);
/// How many these are.
const CUSTOMERS_BEFORE: u64 = 400;
/// More than the jobs of these customers that are due at once.
const CONCURRENCY: usize = 256;
const QUEUES: [&str; 4] = ["orders", "mail", "merchant.notify", "reports"];

/// The jobs for one customer.
fn jobs(customer: u64) -> Vec<NewJob> {
    let spread = |most: u64| customer.wrapping_mul(0x9e37_79b9_7f4a_7c15) % most;
    let job = |queue: &str, kind: &str, delay_ms: u64| NewJob {
        queue: Arc::from(queue),
        kind: Arc::from(kind),
        due: Due::After(Span(delay_ms)),
        key: Some(format!("{kind}:{customer}").into()),
        tags: [format!("customer:{customer}").into()].into(),
        options: Retry { backoff: Some(Backoff::steps([2, 10, 60].map(Duration::from_secs))), ..Retry::default() }
            .into(),
        ..NewJob::new(format!("{{\"customer\":{customer},\"order\":\"2026-{customer:06}\"}}").into_bytes())
    };
    vec![
        job("mail", "mail.welcome", spread(3_000)),
        job("orders", "order.cancel", 1_000 + spread(1_800_000)),
        job("merchant.notify", "payment.received", spread(10_000)),
        job("reports", "review.remind", spread(20 * 86_400_000)),
    ]
}

/// Fills the shop, and lets customers come and workers work until the server is gone.
pub(super) async fn run(client: &Client) -> Result<(), Error> {
    let report = NewJob { queue: Arc::from("reports"), kind: Arc::from("report.nightly"), ..NewJob::new(*b"{}") };
    let nightly = Schedule::new(Timing::parse("0 3 * * *", Some("Europe/Berlin"))?, report);
    client.schedules().set("reports.nightly", nightly).await?;
    client.queues().set_up("reports", QueueSettings { max_running: Some(2), ..QueueSettings::default() }).await?;
    let _stock = client.locks().named("stock.recount").owner("till 3").try_acquire().await?;
    let worker = QUEUES.into_iter().fold(Worker::new(client), Worker::queue).concurrency(CONCURRENCY).fallback(work);
    // While workers run, so that no job is late because there was none yet.
    let customers = async {
        for customer in 0.. {
            tokio::time::sleep(if customer < CUSTOMERS_BEFORE { FIRST_EVERY } else { CUSTOMER_EVERY }).await;
            if client.push_many(jobs(customer)).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        ended = worker.run_until(std::future::pending()) => ended.map(drop),
        () = customers => Ok(()),
    }
}

/// Most jobs take a moment; some fail at first, and a few for good.
async fn work(context: Context) -> Handled {
    let mixed = context.id().get().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Twice, or the jobs of one kind would be much alike.
    let chance = (mixed ^ (mixed >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    // The work of the demo.
    tokio::time::sleep(Duration::from_millis(20 + 4 * chance)).await;
    if &**context.kind() == "payment.received" && chance < 40 && context.attempt() < 3 {
        return Err(JobError::new("merchant.example answered 502 Bad Gateway"));
    }
    if chance < 4 {
        return Err(JobError::fatal(match &**context.kind() {
            "mail.welcome" => "this address does not exist",
            "order.cancel" => "stock.example refused: the order has been shipped",
            "payment.received" => "merchant.example answered 410 Gone",
            _ => "the customer has unsubscribed",
        }));
    }
    Ok(())
}
