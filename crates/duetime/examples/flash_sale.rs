//! A flash sale: ten phones and a hundred thousand buyers, in 64 tasks of four processes. Exactly ten are sold.
//!
//! `cargo run -p duetime --features redis --example flash_sale -- [redis://127.0.0.1:6379] [lock|key]`
//!
//! Two ways, one after the other unless one is given:
//!
//! - `lock`: the stock is a file instead of a row in a database: read, decremented and written by the holder of the lock
//!   `phone`. Its fence is written along, and one smaller than the last is refused: a holder that stalled until it had lost
//!   the lock does no harm. Before a buyer joins the line it checks whether everything is sold.
//! - `key`: the buyer who pushes the job with the key `phone-7` has bought that phone, since a queue has at most one live
//!   job with a key. The job is the time-out of the payment: it comes due in half an hour, and would offer the phone again.

mod processes;

use duetime::Client;
use duetime::job::{OnConflict, PushOutcome, Query};
use processes::{Processes, Result};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PHONES: u32 = 10;
const BUYERS: u64 = 100_000;
const PROCESSES: usize = 4;
const TASKS: usize = 64;
/// How long a buyer waits for the lock.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between reading the stock and writing it in a sale.
const PACKING: Duration = Duration::from_millis(2);
/// How long a buyer has to pay.
const PAY_WITHIN: Duration = Duration::from_secs(30 * 60);
const QUEUE: &str = "phones";

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [url, way, folder, number] => sell(url, way, Path::new(folder), number.parse()?).await,
        [] => open("redis://127.0.0.1:6379", &["lock", "key"]).await,
        [url] => open(url, &["lock", "key"]).await,
        [url, way @ ("lock" | "key")] => open(url, &[way]).await,
        _ => Err("expected: flash_sale [redis://host:port] [lock|key]".into()),
    }
}

/// The shop: starts the processes, collects their sales, and checks them.
async fn open(url: &str, ways: &[&str]) -> Result<()> {
    for way in ways {
        let url = processes::own_namespace(url, "flash-sale")?;
        let folder = tempfile::tempdir()?;
        let stock = Stock::at(folder.path());
        stock.fill(PHONES)?;

        let path = folder.path().to_str().ok_or("a folder whose name is no text")?;
        let processes = Processes::start(PROCESSES, &[&url, way, path])?;
        let begin = Instant::now();
        let mut sold = BTreeMap::new();
        for (_, line) in processes.finish()? {
            let sale: Sale = line.parse()?;
            if let Some(other) = sold.insert(sale.phone, sale) {
                return Err(format!("phone {} was sold twice, also to buyer {}", other.phone, other.buyer).into());
            }
        }
        println!("{BUYERS} buyers in {TASKS} tasks of {PROCESSES} processes, by {way}: {:.1?}", begin.elapsed());
        for Sale { phone, buyer, proof } in sold.values() {
            println!("  phone {phone:2}  buyer {buyer:6}  {} {proof}", if *way == "lock" { "fence" } else { "job" });
        }
        if sold.len() != PHONES as usize {
            return Err(format!("{} phones were sold, of {PHONES}", sold.len()).into());
        }
        match *way {
            "lock" => check_stock(&stock, &sold)?,
            _ => check_jobs(&url, &sold).await?,
        }
    }
    println!("exactly {PHONES} phones were sold by {}", ways.join(", and by "));
    Ok(())
}

/// The last phone was sold under the fence in the file, and each under a greater one than the one before.
fn check_stock(stock: &Stock, sold: &BTreeMap<u32, Sale>) -> Result<()> {
    let fences: Vec<u64> = sold.values().rev().map(|sale| sale.proof.parse()).collect::<std::result::Result<_, _>>()?;
    let is_rising = fences.windows(2).all(|pair| pair[0] < pair[1]);
    let (left, fence) = stock.read()?;
    if left == 0 && is_rising && fences.last() == Some(&fence) {
        return Ok(());
    }
    Err(format!("{left} phones are left under the fence {fence}, after {fences:?}").into())
}

/// The queue holds a job for each phone, pushed by its buyer. They are removed, since nobody is going to pay.
async fn check_jobs(url: &str, sold: &BTreeMap<u32, Sale>) -> Result<()> {
    let client = Client::connect(url).await?;
    let jobs = client.jobs().find(Query::default().queue(QUEUE)).take(100).await?;
    for job in &jobs {
        let key = job.key.as_deref().and_then(|key| key.strip_prefix("phone-")).ok_or("a job without a key")?;
        let sale = sold.get(&key.parse()?).ok_or_else(|| format!("nobody says to have bought phone {key}"))?;
        if sale.buyer.to_string().as_bytes() != &job.payload[..] || sale.proof != job.id.to_string() {
            return Err(format!("phone {key} is with another than buyer {}", sale.buyer).into());
        }
        client.jobs().delete(job.id).await?;
    }
    client.close().await?;
    if jobs.len() == sold.len() { Ok(()) } else { Err(format!("the queue holds {} jobs", jobs.len()).into()) }
}

/// One of the processes: its share of the buyers, one after the other in each task.
async fn sell(url: &str, way: &str, folder: &Path, number: usize) -> Result<()> {
    let shop = Shop { client: Client::connect(url).await?, stock: Stock::at(folder), sold: AtomicU32::new(0) };
    let (shop, is_lock) = (Arc::new(shop), way == "lock");
    processes::ready()?;
    let share = BUYERS / PROCESSES as u64;
    let next = Arc::new(AtomicU64::new(number as u64 * share));
    let end = (number as u64 + 1) * share;
    let tasks = (0..TASKS / PROCESSES).map(|_| {
        let (shop, next) = (shop.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let buyer = next.fetch_add(1, Ordering::Relaxed);
                if buyer >= end {
                    return Result::Ok(());
                }
                let sale = if is_lock { shop.sell_by_lock(buyer).await? } else { shop.sell_by_key(buyer).await? };
                if let Some(sale) = sale {
                    println!("{sale}");
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(shop.client.close().await?)
}

/// State that the tasks of a process share.
struct Shop {
    client: Client,
    stock: Stock,
    /// This many phones, from the first on, are known to be sold.
    sold: AtomicU32,
}

impl Shop {
    async fn sell_by_lock(&self, buyer: u64) -> Result<Option<Sale>> {
        loop {
            // Most buyers leave here: none of them waits for a lock.
            if self.stock.read()?.0 == 0 {
                return Ok(None);
            }
            let guard = self.client.locks().named("phone").acquire(PATIENCE).await?;
            let fence = guard.fence();
            let (left, _) = self.stock.read()?;
            // Two who did this at once would both sell the same phone.
            tokio::time::sleep(PACKING).await;
            let is_sold = left > 0 && self.stock.write(left - 1, fence)?;
            // If the lock was lost meanwhile, the fence decided.
            drop(guard.release().await);
            if is_sold {
                return Ok(Some(Sale { phone: left, buyer, proof: fence.to_string() }));
            }
        }
    }

    async fn sell_by_key(&self, buyer: u64) -> Result<Option<Sale>> {
        for phone in self.sold.load(Ordering::Relaxed) + 1..=PHONES {
            let push = self.client.push_raw("unpaid", buyer.to_string().into_bytes()).queue(QUEUE).after(PAY_WITHIN);
            let pushed = push.key(format!("phone-{phone}")).on_conflict(OnConflict::Keep).await?;
            self.sold.fetch_max(phone, Ordering::Relaxed);
            if pushed.outcome == PushOutcome::Created {
                return Ok(Some(Sale { phone, buyer, proof: pushed.id.to_string() }));
            }
        }
        Ok(None)
    }
}

/// A phone that was sold, and by what that is known: the fence, or the job.
struct Sale {
    phone: u32,
    buyer: u64,
    proof: String,
}

impl std::fmt::Display for Sale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.phone, self.buyer, self.proof)
    }
}

impl std::str::FromStr for Sale {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(line: &str) -> Result<Self> {
        match line.split(' ').collect::<Vec<_>>()[..] {
            [phone, buyer, proof] => Ok(Self { phone: phone.parse()?, buyer: buyer.parse()?, proof: proof.to_owned() }),
            _ => Err(format!("expected a phone, a buyer and a proof, got {line:?}").into()),
        }
    }
}

/// The number of phones left, and the fence under which it was written. Each call is one step, like a statement of SQL. Only
/// the lock keeps others out between a read and a write.
struct Stock(PathBuf);

impl Stock {
    fn at(folder: &Path) -> Self {
        Self(folder.join("stock"))
    }

    fn fill(&self, left: u32) -> Result<()> {
        Ok(std::fs::write(&self.0, format!("{left} 0"))?)
    }

    /// `SELECT quantity, fence FROM stock`
    fn read(&self) -> Result<(u32, u64)> {
        let file = File::open(&self.0)?;
        file.lock_shared()?;
        content(&file)
    }

    /// `UPDATE stock SET quantity = $left, fence = $fence WHERE fence < $fence`; whether there was such a row.
    fn write(&self, left: u32, fence: u64) -> Result<bool> {
        let mut file = OpenOptions::new().read(true).write(true).open(&self.0)?;
        file.lock()?;
        if content(&file)?.1 >= fence {
            return Ok(false);
        }
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(format!("{left} {fence}").as_bytes())?;
        Ok(true)
    }
}

fn content(mut file: &File) -> Result<(u32, u64)> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let (left, fence) = text.split_once(' ').ok_or_else(|| format!("expected two numbers, got {text:?}"))?;
    Ok((left.parse()?, fence.parse()?))
}
