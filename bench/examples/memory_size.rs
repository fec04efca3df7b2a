//! The memory that a waiting job takes in the memory broker, and the cost of a put, a reserve and a settle.
//!
//! `cargo run --release -p duetime-bench --example memory_size [count]`: without a count, with 1 M and then 2 M jobs of
//! a 100-byte payload, half of them due within the minute and half within the hour. Bytes are resident memory, as
//! `/proc/self/statm` shows it, with the allocator that the server uses; so a count of less than 1 M says little.
//! Costs are processor time of the one thread, and wall time for the longest call.

use duetime_core::limits::{BATCH_JOBS_MAX, HOUR_MS, MINUTE_MS, RESERVE_JOBS_MAX};
use duetime_core::model::id::sequence_at;
use duetime_core::ports::{Beginning, Broker, BrokerClock, Outbox, Pick, Put, Reserve, Room, Settle};
use duetime_core::rules::{Decision, Finish};
use duetime_core::testing::ManualClock;
use duetime_core::{Clock, Due, JobId, Memory, Millis, NewJob, Stage};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PAYLOAD_BYTES: usize = 100;
const PAGE_BYTES: usize = 4_096;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Some(count) = std::env::args().nth(1) {
        return measure(count.parse().expect("a count of jobs")).await;
    }
    // Each in its own process: what the first one left would hide what the second one takes.
    for count in ["1000000", "2000000"] {
        let this = std::env::current_exe().expect("this program");
        let status = std::process::Command::new(this).arg(count).status();
        assert!(status.is_ok_and(|status| status.success()), "the measurement of {count} jobs failed");
    }
}

async fn measure(count: u64) {
    let clock = Arc::new(ManualClock::new());
    let broker = Memory::new(clock.clone());
    broker.begin_with(Beginning { generation: 1, limits: Vec::new() });
    let start = clock.wall();
    let before = resident_bytes();
    let mut put = Costs::default();
    for first in (0..count).step_by(BATCH_JOBS_MAX) {
        let last = count.min(first + BATCH_JOBS_MAX as u64);
        let jobs = (first..last).map(|n| new_job(n, start)).collect();
        let answers = put.time(last - first, broker.put(jobs, broker.reading(), Room::Any)).await.unwrap();
        assert!(answers.iter().all(|answer| *answer == Put::Held));
    }
    let bytes = (resident_bytes() - before) as f64 / count as f64;
    println!("{count} jobs: {bytes:.0} B each, {:.0} B beside the payload; put {put}", bytes - PAYLOAD_BYTES as f64);
    clock.advance(HOUR_MS);
    let (mut reserve, mut settle, mut forget) = (Costs::default(), Costs::default(), Costs::default());
    loop {
        let leases = reserve.time(0, broker.reserve(request())).await.unwrap().leases;
        let got = leases.len() as u64;
        if got == 0 {
            break;
        }
        reserve.jobs += got;
        let done = || Decision::Finish(Finish::new(Stage::Succeeded));
        let decisions = leases.iter().map(|lease| Settle::new(lease.job.receipt(), done())).collect();
        drop(leases);
        let settled = settle.time(got, broker.settle(decisions)).await.unwrap();
        let noted: Vec<_> = settled.entries.iter().map(|entry| (entry.job().id, entry.job().version)).collect();
        drop(settled);
        forget.time(got, broker.forget(&noted, Millis::MAX)).await.unwrap();
        clock.advance(1);
    }
    assert_eq!(reserve.jobs, count);
    let left = resident_bytes().saturating_sub(before) / 1_000_000;
    println!("  reserve {reserve}; settle {settle}; forget {forget}; {left} MB are left");
}

fn new_job(n: u64, start: Millis) -> duetime_core::Job {
    // A permutation of sorts, so that due times are not in the order of ids.
    let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let due_at = start + 1 + spread % if n.is_multiple_of(2) { MINUTE_MS } else { HOUR_MS - 1 };
    let id = JobId::from_sequence(sequence_at(start) + n);
    let job = NewJob {
        queue: "orders".into(),
        due: Due::At(duetime_core::api::Timestamp(due_at)),
        ..NewJob::new([7; PAYLOAD_BYTES])
    };
    job.accept(id, start, PAYLOAD_BYTES).unwrap()
}

fn request() -> Reserve {
    Reserve::new(Pick::InOrder(vec!["orders".into()]), RESERVE_JOBS_MAX)
}

/// Processor time spent, and the longest call.
#[derive(Default)]
struct Costs {
    cpu_ns: u64,
    longest: Duration,
    jobs: u64,
}

impl Costs {
    async fn time<T>(&mut self, jobs: u64, work: impl Future<Output = T>) -> T {
        let (start, start_ns) = (Instant::now(), cpu_ns());
        let done = work.await;
        self.longest = self.longest.max(start.elapsed());
        self.cpu_ns += cpu_ns() - start_ns;
        self.jobs += jobs;
        done
    }
}

impl std::fmt::Display for Costs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each = self.cpu_ns / self.jobs.max(1);
        write!(f, "{each} ns a job, the longest call {:.1} ms", self.longest.as_secs_f64() * 1e3)
    }
}

fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("the first number is the time on a processor")
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("the second number is the resident pages") * PAGE_BYTES
}
