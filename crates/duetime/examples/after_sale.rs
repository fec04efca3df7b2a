//! Refunds that nobody handles are granted: `cargo run -p duetime --features mysql,postgres --example after_sale --
//! redis://127.0.0.1:6379 postgres://user:password@127.0.0.1/jobs`, or `mysql://…`
//!
//! A buyer asks for a refund. The merchant has time to decide, hours in a shop and a second here; then it is granted. A
//! decision made earlier cancels it by the order's number. The payment service fails at times: a failed call is retried
//! after 15 s, 15 s, 30 s and so on up to 6 h, sixteen times in all; only a refusal is final. Nobody here waits 15 s: a
//! failed job is made due at once, as an operator could.

use duetime::job::{BulkAction, JobRef, Query, State as JobState};
use duetime::{Client, ConnectOptions, Context, Job, JobError, JobType, Worker};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TIME_TO_DECIDE: Duration = Duration::from_secs(1);
const ORDERS: u32 = 9;

/// The refund of an order is granted.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Grant {
    order: u32,
}

impl JobType for Grant {
    const KIND: &'static str = "grant-refund";
    const QUEUE: &'static str = "after-sale";
}

/// The payment service: it fails twice for every third order, and refuses the last one.
async fn refund(order: u32, calls: &AtomicU32) -> std::result::Result<(), JobError> {
    let call = calls.fetch_add(1, Ordering::Relaxed);
    if order == ORDERS {
        return Err(JobError::fatal("the service refused (10000): the order was refunded before"));
    }
    if order.is_multiple_of(3) && call < 2 {
        return Err(JobError::new("the service answered 503"));
    }
    Ok(())
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [redis, ledger] = &arguments[..] else {
        return Err("expected: after_sale redis://host:port mysql://…|postgres://…".into());
    };
    let options = ConnectOptions::default().ledger(ledger);
    let client = Client::connect_with(redis, options).await?;

    for order in 1..=ORDERS {
        let request = client.push(Grant { order }).after(TIME_TO_DECIDE);
        request.key(format!("refund-{order}")).tag(format!("order-{order}")).await?;
    }
    println!("{ORDERS} buyers asked for a refund");
    for order in [2, 4] {
        let query = Query { tag: Some(format!("order-{order}").into()), ..Query::default() };
        let counts = client.jobs().bulk(&query, BulkAction::Cancel).await?;
        assert_eq!(counts.cancelled, 1, "{counts:?}");
        println!("order {order}: the merchant decided, so nothing is granted");
    }
    let records = work(&client).await?;
    for job in &records {
        let order = serde_json::from_slice::<Grant>(&job.payload)?.order;
        let state = job.state(0);
        println!("order {order}: {state} after {} attempts{}", job.attempt, errors(job));
    }
    let count = |state| records.iter().filter(|job| job.state(0) == state).count();
    println!(
        "{} granted, {} handled by the merchant, {} refused by the service",
        count(JobState::Succeeded),
        count(JobState::Cancelled),
        count(JobState::Failed)
    );
    Ok(client.close().await?)
}

/// Runs due jobs until every request has ended; returns their records.
async fn work(client: &Client) -> Result<Vec<Job>> {
    let calls: &'static [AtomicU32; ORDERS as usize + 1] = Box::leak(Box::default());
    let grant = move |Grant { order }: Grant, _: Context| async move { refund(order, &calls[order as usize]).await };
    let work = Worker::new(client).handle(grant).run_until(async { ended(client).await.map_or_else(drop, drop) });
    work.await?;
    ended(client).await
}

/// The records, once all have ended; retries that wait are made due at once.
async fn ended(client: &Client) -> Result<Vec<Job>> {
    let query = Query::default().queue("after-sale");
    loop {
        let jobs = client.jobs().page(&query, None, 1_000).await?.jobs;
        if jobs.iter().all(|job| !job.is_pending()) {
            return Ok(jobs);
        }
        for job in jobs.iter().filter(|job| job.is_pending() && job.attempt > 0 && job.lease_until.is_none()) {
            let target = JobRef { id: job.id, version: Some(job.version) };
            if client.jobs().run(target).await.is_ok() {
                println!("the job {} failed and would be tried again later: now", job.id);
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn errors(job: &Job) -> String {
    job.errors.iter().map(|error| format!(", {}", error.message)).collect()
}
