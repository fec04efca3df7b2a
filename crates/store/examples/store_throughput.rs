//! Measures the SQLite store through its ports: rows per second, alone and in groups.
//!
//! `cargo run --release -p duetime-store --example store_throughput -- [FOLDER] [commit|interval|none] [rich]`
//! Other processes slow the rows per second; the writer's CPU time a row says what they could be.
//! With `rich` each job has a key, two tags and 1 KiB of payload. Uses and leaves behind `FOLDER/throughput.db`.

use duetime_core::json::{Span, Timestamp};
use duetime_core::model::id::sequence_at;
use duetime_core::ports::{LeaseRecord, Leases, Ledger, OutboxEntry, Retention};
use duetime_core::{Job, JobId, NewJob, Stage};
use duetime_store::sqlite::{Durability, Options, Sqlite};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const NOW: u64 = 1_800_000_000_000;
const WATERMARK: u64 = NOW + 3_600_000;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "/tmp".into()));
    let durability: Durability = arguments.next().map_or(Durability::Commit, |word| word.parse().unwrap());
    let is_rich = arguments.next().is_some_and(|word| word == "rich");
    let path = folder.join("throughput.db");
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.join(format!("throughput.db{suffix}")));
    }
    let store = Arc::new(Sqlite::open(&path, Options { durability }).unwrap());
    let scale = if is_rich { 10 } else { 1 };
    let mut ids = 1_u64..;
    let mut jobs = |count: usize| -> Vec<Job> { ids.by_ref().take(count).map(|n| job(n, is_rich)).collect() };

    for (batch, count) in [(1_000, 1_000_000 / scale), (100, 300_000 / scale), (1, 20_000)] {
        let batches: Vec<Vec<Job>> = (0..count / batch).map(|_| jobs(batch)).collect();
        let copies = batches.clone();
        measure(&format!("record, one caller, batches of {batch}"), count, || async {
            for jobs in batches {
                store.record(jobs, WATERMARK).await.unwrap();
            }
        })
        .await;
        measure(&format!("finish, one caller, batches of {batch}"), count, || async {
            for jobs in copies {
                store.apply(jobs.into_iter().map(finished).collect(), WATERMARK).await.unwrap();
            }
        })
        .await;
    }

    let count = 100_000 / scale;
    // Ids as an engine allots them: callers at the same time get neighbours.
    let mut batches: Vec<Vec<Job>> = vec![Vec::new(); 64];
    jobs(count).into_iter().enumerate().for_each(|(n, job)| batches[n % 64].push(job));
    let copies = batches.clone();
    measure("record, 64 callers, one by one", count, || async {
        let tasks: Vec<_> = batches
            .into_iter()
            .map(|jobs| {
                let store = store.clone();
                tokio::spawn(async move {
                    for job in jobs {
                        store.record(vec![job], WATERMARK).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    })
    .await;
    measure("finish, 64 callers, one by one", count, || async {
        let tasks: Vec<_> = copies
            .into_iter()
            .map(|jobs| {
                let store = store.clone();
                tokio::spawn(async move {
                    for job in jobs {
                        store.apply(vec![finished(job)], WATERMARK).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    })
    .await;

    let count = 1_000_000 / scale;
    let batches: Vec<Vec<Job>> = (0..count / 1_000).map(|_| jobs(1_000)).collect();
    measure("record, 4 callers, batches of 1000", count, || async {
        let mut lanes: Vec<Vec<Vec<Job>>> = vec![Vec::new(); 4];
        for (n, batch) in batches.into_iter().enumerate() {
            lanes[n % 4].push(batch);
        }
        let tasks: Vec<_> = lanes
            .into_iter()
            .map(|lane| {
                let store = store.clone();
                tokio::spawn(async move {
                    for jobs in lane {
                        store.record(jobs, WATERMARK).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    })
    .await;

    measure("pending, pages of 1000", count, || async {
        let (mut after, mut seen) = (None, 0);
        loop {
            let page = store.pending(WATERMARK, after, 1_000).await.unwrap();
            seen += page.jobs.len();
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, count);
    })
    .await;

    let leases: Vec<LeaseRecord> =
        store.pending(WATERMARK, None, 20_000).await.unwrap().jobs.iter().map(leased).collect();
    let count = leases.len();
    measure("lease, until written", count, || async {
        store.lease(leases).await.unwrap();
        while store.leased().await.unwrap().len() < count {}
    })
    .await;

    let retention = Retention { succeeded: Span(0), failed: Span(0) };
    let mut pruned = 0;
    let start = Instant::now();
    while pruned < 500_000 / scale {
        pruned += store.prune(retention, NOW + 100, 1_000).await.unwrap();
    }
    report("prune, 1000 at a time", pruned, start);
    let start = Instant::now();
    store.close().await.unwrap();
    report("close", 1, start);
    println!("file {} MiB", std::fs::metadata(&path).unwrap().len() >> 20);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap());
}

async fn measure<F: Future<Output = ()>>(what: &str, count: usize, work: impl FnOnce() -> F) {
    let start = Instant::now();
    CPU_NS.store(cpu_ns(), Relaxed);
    work().await;
    report(what, count, start);
}

fn report(what: &str, count: usize, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    let rate = count as f64 / seconds;
    let now_ns = cpu_ns();
    let cpu_us = (now_ns - CPU_NS.swap(now_ns, Relaxed)) as f64 / 1_000.0 / count as f64;
    println!(
        "{what:40} {count:>9} rows {seconds:>7.3} s {rate:>9.0} rows/s, {cpu_us:>6.2} µs of the writer's CPU a row"
    );
}

/// CPU time of the writer's thread so far, in nanoseconds.
fn cpu_ns() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    let is_writer =
        |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name == "duetime-writer\n");
    let Some(writer) = threads.into_iter().find(is_writer) else { return CPU_NS.load(Relaxed) };
    let schedstat = std::fs::read_to_string(writer.join("schedstat")).unwrap();
    schedstat.split(' ').next().unwrap().parse().unwrap()
}

static CPU_NS: AtomicU64 = AtomicU64::new(0);

fn job(number: u64, is_rich: bool) -> Job {
    let mut new = NewJob::new(vec![b'x'; if is_rich { 1024 } else { 200 }]);
    if is_rich {
        new.key = Some(Arc::from(format!("order-{number}")));
        new.tags = vec![Arc::from(format!("customer-{}", number % 1_000)), Arc::from("mail")];
    }
    new.accept(JobId::from_sequence(sequence_at(NOW) + number), NOW, 1 << 20).unwrap()
}

fn finished(mut job: Job) -> OutboxEntry {
    job.version += 2;
    job.attempt = 1;
    job.epoch = NOW;
    job.stage = Stage::Succeeded;
    job.started_at = Some(Timestamp(NOW));
    job.finished_at = Some(Timestamp(NOW + 7));
    job.updated_at = Timestamp(NOW + 7);
    OutboxEntry::Changed(job)
}

fn leased(job: &Job) -> LeaseRecord {
    let mut job = job.clone();
    job.version += 1;
    job.lease_until = Some(Timestamp(NOW + 60_000));
    LeaseRecord::of(&job)
}
