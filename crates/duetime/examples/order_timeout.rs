//! Orders that are cancelled unless they are paid in time, by three processes: `cargo run -p duetime --features redis
//! --example order_timeout -- [redis://127.0.0.1:6379]`
//!
//! The first process takes 3,000 orders and pushes a time-out of three seconds for each, with the tag `order-<n>`. Two
//! of three orders are paid before: their time-outs are cancelled by tag. The time-outs of the others are run when they
//! are due, by the workers of all three processes. In the end the record of each job is looked at: each unpaid order
//! was timed out once, none early, and none that was paid.

mod processes;

use duetime::job::{Query, State as JobState};
use duetime::time::Timestamp;
use duetime::{Client, Job, JobType, Worker};
use processes::{Processes, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PROCESSES: usize = 3;
const ORDERS: u32 = 3_000;
const TIMEOUT: Duration = Duration::from_secs(3);
/// Payments at the same time.
const TILLS: u32 = 16;
/// Jobs pushed in one call, and looked at in one.
const BATCH: usize = 1_000;

/// An order is to be cancelled unless it was paid.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct TimeOut {
    order: u32,
}

impl JobType for TimeOut {
    const KIND: &'static str = "time-out";
    const QUEUE: &'static str = "orders";
}

/// Whether its buyer pays.
fn is_to_be_paid(order: u32) -> bool {
    !order.is_multiple_of(3)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [url, number] => process(url, number.parse()?).await,
        [url] => shop(url).await,
        [] => shop("redis://127.0.0.1:6379").await,
        _ => Err("expected: order_timeout [redis://host:port]".into()),
    }
}

/// One of the processes: works until it gets a signal to stop; the first one also takes the orders and the payments.
async fn process(url: &str, number: usize) -> Result<()> {
    let client = Client::connect(url).await?;
    processes::ready()?;
    let (told, stop) = tokio::sync::oneshot::channel();
    // No more input follows; its end is the signal.
    std::thread::spawn(move || told.send(std::io::stdin().lines().count()));
    let cancel_order = |TimeOut { order }: TimeOut| async move {
        println!("timed-out {order}");
        duetime::worker::Handled::Ok(())
    };
    let work = Worker::new(&client).handle(cancel_order).run_until(async { drop(stop.await) });
    let shop = async { if number == 0 { take_orders(&client).await } else { Ok(()) } };
    let (worked, sold) = tokio::join!(work, shop);
    worked?;
    sold?;
    Ok(client.close().await?)
}

async fn take_orders(client: &Client) -> Result<()> {
    let push = |order: u32| client.push(TimeOut { order }).after(TIMEOUT).tag(format!("order-{order}")).build();
    let jobs = (0..ORDERS).map(push).collect::<std::result::Result<Vec<_>, _>>()?;
    for batch in jobs.chunks(BATCH) {
        client.push_all(batch.to_vec()).await?;
    }
    let tills = (0..TILLS).map(|till| {
        let client = client.clone();
        tokio::spawn(async move {
            for order in (till..ORDERS).step_by(TILLS as usize).filter(|&order| is_to_be_paid(order)) {
                let outcomes = client.jobs().cancel_by_tag(format!("order-{order}")).await?;
                // The answer is definite: either the time-out will never run, or the payment has come too late.
                println!("{} {order}", if outcomes.cancelled == 1 { "paid" } else { "too-late" });
            }
            Result::Ok(())
        })
    });
    for till in tills.collect::<Vec<_>>() {
        till.await??;
    }
    Ok(())
}

/// The outcomes of the orders, as the processes report them.
#[derive(Default)]
struct Said {
    paid: BTreeSet<u32>,
    too_late: BTreeSet<u32>,
    /// The number of time-outs of each.
    timed_out: BTreeMap<u32, u32>,
    by_process: [u32; PROCESSES],
}

impl Said {
    fn note(&mut self, process: usize, line: &str) -> Result<()> {
        let (what, order) = line.split_once(' ').ok_or_else(|| format!("process {process} says {line:?}"))?;
        let order = order.parse()?;
        match what {
            "paid" => drop(self.paid.insert(order)),
            "too-late" => drop(self.too_late.insert(order)),
            _ => {
                *self.timed_out.entry(order).or_default() += 1;
                self.by_process[process] += 1;
            }
        }
        Ok(())
    }

    /// Whether all payments were answered, and all unpaid orders have been timed out.
    fn is_all(&self) -> bool {
        let payments = (0..ORDERS).filter(|&order| is_to_be_paid(order)).count();
        self.paid.len() + self.too_late.len() == payments && self.paid.len() + self.timed_out.len() >= ORDERS as usize
    }

    /// An error in a job's record, if there is one.
    fn complaint(&self, order: u32, job: &Job) -> Option<String> {
        let times = self.timed_out.get(&order).copied().unwrap_or(0);
        if self.paid.contains(&order) {
            let is_untouched = job.state(job.updated_at.0) == JobState::Cancelled && job.attempt == 0 && times == 0;
            return (!is_untouched).then(|| format!("order {order} was paid, and timed out {times} times"));
        }
        let is_once = job.state(job.updated_at.0) == JobState::Succeeded && job.attempt == 1 && times == 1;
        let least = job.created_at.0 + TIMEOUT.as_millis() as u64;
        match job.started_at {
            Some(started_at) if is_once && job.due_at >= Timestamp(least) && started_at >= job.due_at => None,
            started_at => Some(format!(
                "order {order} was timed out {times} times in {} attempts, last at {started_at:?}, not before {}",
                job.attempt, job.due_at
            )),
        }
    }
}

/// Starts the processes, collects their reports, and compares those with the records.
async fn shop(url: &str) -> Result<()> {
    let url = processes::own_namespace(url, "order-timeout")?;
    let processes = Processes::start(PROCESSES, &[&url])?;
    let mut said = Said::default();
    while !said.is_all() {
        let (process, line) = processes.hear()?.ok_or("the processes have ended before all was done")?;
        said.note(process, &line)?;
    }
    for (process, line) in processes.finish()? {
        said.note(process, &line)?;
    }
    println!("{ORDERS} orders: {} paid in time, {} timed out", said.paid.len(), said.timed_out.len());
    println!("  {} payments came too late", said.too_late.len());
    for (number, count) in said.by_process.iter().enumerate() {
        println!("  process {number} timed out {count}");
    }

    let client = Client::connect(&url).await?;
    let jobs = records(&client).await?;
    let (mut orders, mut late_ms_max) = (BTreeSet::new(), 0);
    for job in &jobs {
        let TimeOut { order } = serde_json::from_slice(&job.payload)?;
        if !orders.insert(order) {
            return Err(format!("order {order} has two records").into());
        }
        if let Some(complaint) = said.complaint(order, job) {
            return Err(complaint.into());
        }
        late_ms_max = late_ms_max.max(job.started_at.map_or(0, |started_at| started_at.0 - job.due_at.0));
        client.jobs().delete(job.id).await?;
    }
    client.close().await?;
    if orders.len() != ORDERS as usize {
        return Err(format!("{} orders have a record", orders.len()).into());
    }
    println!("  the last began {late_ms_max} ms after it was due");
    println!("each unpaid order was timed out exactly once, none early, and none that was paid");
    Ok(())
}

async fn records(client: &Client) -> Result<Vec<Job>> {
    let query = Query::default().queue(TimeOut::QUEUE);
    let (mut jobs, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.jobs().page(&query, cursor.as_deref(), BATCH).await?;
        jobs.extend(page.jobs);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(jobs);
        }
    }
}
