//! Measures Duetime on Redis beside a ledger, both empty and used by nobody else; prints one JSON object:
//! `ledger_figures redis://127.0.0.1:PORT/0 postgres://… [JOBS]`, 20000 jobs by default.
//!
//! The keys are those that `bench/rivals/postgres.mjs` explains, and
//!
//! - `single_push_jobs_per_s`: one job a push, from 64 tasks;
//! - `reload_jobs_per_s`: from the instant at which Redis is emptied until it holds all waiting jobs again.

mod figures;

use duetime::job::{Due, NewJob};
use duetime::time::Span;
use duetime::{Client, ConnectOptions, Context, Worker};
use figures::{RedisServer, percentile, unix_ms};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BULK: usize = 1_000;
const IN_FLIGHT: usize = 4;
const TASKS: usize = 64;
const CONCURRENCY: usize = 100;
const LATE_JOBS: usize = 400;
const LATE_SPAN_MS: u64 = 4_000;
const LEAD_MS: u64 = 2_000;
const HALF_AN_HOUR_MS: u64 = 1_800_000;
const PAYLOAD: [u8; 100] = [b'1'; 100];
/// The interval between two checks of the progress.
const LOOK: Duration = Duration::from_millis(5);

#[tokio::main(worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let redis_url = arguments.next().expect("the address of a Redis");
    let ledger = arguments.next().expect("the address of a database");
    let jobs: usize = arguments.next().map_or(20_000, |count| count.parse().expect("a number"));
    let redis = RedisServer::of(&redis_url);
    let options = ConnectOptions::default().ledger(ledger);
    let client = Client::connect_with(&redis_url, options).await.expect("connected");

    let cost = [redis.cost()];
    let push_s = push(&client, "bench", jobs, BULK, IN_FLIGHT, Due::Now).await;
    let cost = [cost[0], redis.cost()];
    let process_s = process(&client, "bench", jobs).await;
    let cost = [cost[0], cost[1], redis.cost()];
    let single_s = push(&client, "single", jobs, 1, TASKS, Due::Now).await;
    let cost = [cost[0], cost[1], cost[2], redis.cost()];
    process(&client, "single", jobs).await;
    let late = lateness(&client).await;
    let reload_s = reload(&client, &redis, jobs).await;
    let us_per_job = |phase: usize| ((cost[phase + 1].s - cost[phase].s) * 1e6 / jobs as f64 * 10.0).round() / 10.0;
    let rate = |seconds: f64| (jobs as f64 / seconds).round();
    let report = serde_json::json!({
        "name": "Duetime", "jobs": jobs, "processed": jobs,
        "push_jobs_per_s": rate(push_s), "process_jobs_per_s": rate(process_s),
        "cycle_jobs_per_s": rate(push_s + process_s), "single_push_jobs_per_s": rate(single_s),
        "reload_jobs_per_s": rate(reload_s),
        "push_redis_us_per_job": us_per_job(0), "process_redis_us_per_job": us_per_job(1),
        "single_push_redis_us_per_job": us_per_job(2),
        "late_ms_p50": percentile(&late, 0.5), "late_ms_p99": percentile(&late, 0.99), "late_ms_max": percentile(&late, 1.0),
        "late_unstarted": 0,
    });
    println!("{report}");
    client.close().await.expect("closed");
}

/// Pushes in this many concurrent bulks; returns the seconds that took.
async fn push(client: &Client, queue: &'static str, count: usize, bulk: usize, in_flight: usize, due: Due) -> f64 {
    let start = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let lanes = (0..in_flight).map(|_| {
        let (client, next) = (client.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let first = next.fetch_add(bulk, Ordering::Relaxed);
                if first >= count {
                    return;
                }
                let job = |_| NewJob { queue: queue.into(), due, ..NewJob::new(PAYLOAD) };
                let pushed = client.push_many((first..count.min(first + bulk)).map(job).collect()).await;
                pushed.expect("pushed").into_iter().for_each(|pushed| drop(pushed.expect("pushed")));
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("a lane ends well");
    }
    start.elapsed().as_secs_f64()
}

/// Works a queue off; returns the seconds until the ledger has it all.
async fn process(client: &Client, queue: &str, count: usize) -> f64 {
    let start = Instant::now();
    let worker = Worker::new(client).queue(queue).concurrency(CONCURRENCY);
    let worker = worker.handle_raw("default", || async { duetime::worker::Handled::Ok(()) });
    let summary = worker.drain().await.expect("worked off");
    assert_eq!(summary.succeeded, count as u64);
    while client.queues().get(queue).await.expect("counted").tally.succeeded < count as u64 {
        tokio::time::sleep(LOOK).await;
    }
    start.elapsed().as_secs_f64()
}

/// The lateness of jobs that are due one after the other, sorted.
async fn lateness(client: &Client) -> Vec<f64> {
    let first = unix_ms() as u64 + LEAD_MS;
    let job = |n: usize| NewJob {
        queue: "late".into(),
        due: Due::At(duetime::Timestamp(first + n as u64 * LATE_SPAN_MS / LATE_JOBS as u64)),
        ..NewJob::new(PAYLOAD)
    };
    client.push_all((0..LATE_JOBS).map(job)).await.expect("pushed");
    let late: Arc<Mutex<Vec<f64>>> = Arc::default();
    let measured = late.clone();
    let worker = Worker::new(client).queue("late").concurrency(CONCURRENCY);
    let worker = worker.handle_raw("default", move |context: Context| {
        measured.lock().expect("no panic").push(unix_ms() - context.job().due_at.0 as f64);
        async { duetime::worker::Handled::Ok(()) }
    });
    worker.run_for(Duration::from_millis(LEAD_MS + LATE_SPAN_MS + 1_000)).await.expect("worked off");
    let mut late = std::mem::take(&mut *late.lock().expect("no panic"));
    assert_eq!(late.len(), LATE_JOBS);
    late.sort_by(f64::total_cmp);
    late
}

/// Empties Redis; returns the seconds until it holds all that waits again.
async fn reload(client: &Client, redis: &RedisServer, count: usize) -> f64 {
    push(client, "waiting", count, BULK, IN_FLIGHT, Due::After(Span(HALF_AN_HOUR_MS))).await;
    let start = Instant::now();
    redis.command(&["FLUSHALL"]);
    while redis.command(&["HLEN", "{duetime:default:0}:body"]) != format!(":{count}") {
        tokio::time::sleep(LOOK).await;
    }
    start.elapsed().as_secs_f64()
}
