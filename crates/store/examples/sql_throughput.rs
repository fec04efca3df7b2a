//! Measures the ledgers in SQL servers, each on a private server on this machine:
//! `cargo run --release --example sql_throughput --features postgres,mysql,testing`.

use duetime_core::json::Timestamp;
use duetime_core::model::id::sequence_at;
use duetime_core::ports::{Find, Ledger, OutboxEntry, Selector, Window};
use duetime_core::{Job, JobId, NewJob, Stage};
use duetime_store::sql::{self, Options};
use duetime_store::testing::{MariaDbServer, PostgresServer};
use std::sync::Arc;
use std::time::Instant;

const NOW: u64 = 1_800_000_000_000;
const TASKS: u64 = 8;
const BATCHES: u64 = 10;
const ROWS: u64 = 1_000;
const SINGLE_TASKS: u64 = 64;
const SINGLES: u64 = 50;

fn job(n: u64) -> Job {
    let new = NewJob::new(vec![b'x'; 200]);
    new.accept(JobId::from_sequence(sequence_at(NOW) + n), NOW, 1 << 20).expect("a valid job")
}

fn ended(job: Job) -> OutboxEntry {
    OutboxEntry::Changed(Job {
        stage: Stage::Succeeded,
        version: job.version + 1,
        attempt: 1,
        finished_at: Some(Timestamp(NOW + 1)),
        ..job
    })
}

fn batch(number: u64) -> Vec<Job> {
    (number * ROWS..(number + 1) * ROWS).map(|n| job(n + 1)).collect()
}

fn shown(name: &str, what: &str, rows: u64, start: Instant) {
    println!("{name:10} {what:32} {:9.0} jobs/s", rows as f64 / start.elapsed().as_secs_f64());
}

async fn measure(name: &str, ledger: Arc<dyn Ledger>) {
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                for number in task * BATCHES..(task + 1) * BATCHES {
                    ledger.record(batch(number), NOW).await.expect("recorded");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
    let all = TASKS * BATCHES * ROWS;
    shown(name, "record, batches of 1,000", all, start);

    let start = Instant::now();
    let (mut after, mut count) = (None, 0);
    loop {
        let page = ledger.pending(u64::MAX, after, 5_000).await.expect("a page");
        count += page.jobs.len() as u64;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(count, all);
    shown(name, "pending, pages of 5,000", all, start);

    let start = Instant::now();
    let find = Find {
        selector: Selector::State,
        queue: Some("default".into()),
        states: Vec::new(),
        kind: None,
        due: Window::ALL,
        after: None,
        limit: 1_000,
    };
    let found = ledger.find(find).await.expect("found");
    shown(name, "find, the first 1,000 of a queue", found.jobs.len() as u64, start);

    let start = Instant::now();
    for number in 0..TASKS * BATCHES {
        ledger.apply(batch(number).into_iter().map(ended).collect(), NOW).await.expect("noted");
    }
    shown(name, "entry, batches of 1,000 in turn", all, start);

    let start = Instant::now();
    let tasks: Vec<_> = (0..SINGLE_TASKS)
        .map(|task| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                for n in 0..SINGLES {
                    let job = job(all + task * SINGLES + n + 1);
                    ledger.record(vec![job], NOW).await.expect("recorded");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
    shown(name, "record, one by one from 64 tasks", SINGLE_TASKS * SINGLES, start);
    ledger.close().await.expect("closed");
}

#[tokio::main]
async fn main() {
    let server = PostgresServer::with(true, &[]);
    let store = sql::connect(&server.url(), Options::default()).await.expect("PostgreSQL");
    measure("PostgreSQL", Arc::new(store)).await;
    drop(server);
    let server = MariaDbServer::with(true, &["--innodb-buffer-pool-size=512M"]);
    let store = sql::connect(&server.url(), Options::default()).await.expect("MariaDB");
    measure("MariaDB", Arc::new(store)).await;
}
