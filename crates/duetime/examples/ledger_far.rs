//! Jobs that are due over 30 days, on Redis beside a ledger, both empty and used by nobody else, with a horizon of ten
//! minutes: how many Redis holds, how much memory that takes, and how late those are that come due meanwhile. Prints one
//! JSON object: `ledger_far redis://127.0.0.1:PORT/0 postgres://… [JOBS] [SECONDS]`, 5,000,000 jobs and 60 s by default.

mod figures;

use duetime::client::EngineOptions;
use duetime::job::{Due, NewJob};
use duetime::time::{Span, Timestamp};
use duetime::{Client, ConnectOptions, Context, Worker};
use figures::{RedisServer, percentile, unix_ms};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BULK: usize = 1_000;
const IN_FLIGHT: usize = 4;
const CONCURRENCY: usize = 100;
const MONTH_MS: u64 = 30 * 86_400_000;
const HORIZON: Duration = Duration::from_secs(600);
const PAYLOAD: [u8; 100] = [b'1'; 100];

#[tokio::main(worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let redis = RedisServer::of(arguments.first().expect("the address of a Redis"));
    let (jobs, seconds) = (number(2, 5_000_000), number(3, 60));
    let ledger = arguments.get(1).expect("the address of a database");
    let options = ConnectOptions::default().ledger(ledger).engine(EngineOptions::default().horizon(HORIZON));
    let client = Client::connect_with(&arguments[0], options).await.expect("connected");

    let late: Arc<Mutex<Vec<f64>>> = Arc::default();
    let measured = late.clone();
    let worker = Worker::new(&client).queue("far").concurrency(CONCURRENCY);
    let worker = worker.handle_raw("default", move |context: Context| {
        let job = context.job();
        // Jobs that were due before their push was answered say nothing about the loading.
        if job.due_at > Timestamp(job.created_at.0 + 1_000) {
            measured.lock().expect("no panic").push(unix_ms() - job.due_at.0 as f64);
        }
        async { duetime::worker::Handled::Ok(()) }
    });
    let begin = Instant::now();
    let (push_s, worked) = tokio::join!(push(&client, jobs), async {
        let pushing = client.clone();
        // During the pushes, and for this long after them.
        worker.run_until(async move { wait_for(&pushing, jobs, seconds).await }).await
    });
    worked.expect("worked off");
    let mut late = std::mem::take(&mut *late.lock().expect("no panic"));
    late.sort_by(f64::total_cmp);
    let held: u64 =
        redis.command(&["HLEN", "{duetime:default:0}:body"]).trim_start_matches(':').parse().expect("a count");
    let report = serde_json::json!({
        "jobs": jobs, "seconds": begin.elapsed().as_secs(), "push_jobs_per_s": (jobs as f64 / push_s).round(),
        "held_by_redis": held, "due_within_20_min": jobs as u64 * 1_200_000 / MONTH_MS,
        "redis_bytes": redis.info("used_memory"), "own_bytes": resident(),
        "due_meanwhile": late.len(), "late_ms_p50": percentile(&late, 0.5), "late_ms_p99": percentile(&late, 0.99),
        "late_ms_max": percentile(&late, 1.0),
    });
    println!("{report}");
    client.close().await.expect("closed");
}

async fn push(client: &Client, count: usize) -> f64 {
    let start = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let lanes = (0..IN_FLIGHT).map(|_| {
        let (client, next) = (client.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let first = next.fetch_add(BULK, Ordering::Relaxed);
                if first >= count {
                    return;
                }
                // Spread over the month, in no order.
                let due = |n: usize| Due::After(Span((n as u64).wrapping_mul(2_654_435_761) % MONTH_MS));
                let job = |n| NewJob { queue: "far".into(), due: due(n), ..NewJob::new(PAYLOAD) };
                let pushed = client.push_many((first..count.min(first + BULK)).map(job).collect()).await;
                pushed.expect("pushed").into_iter().for_each(|pushed| drop(pushed.expect("pushed")));
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("a lane ends well");
    }
    start.elapsed().as_secs_f64()
}

/// Until all have arrived, and a few seconds longer.
async fn wait_for(client: &Client, jobs: usize, seconds: usize) {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let queue = client.queues().get("far").await.expect("counted");
        if queue.tally.pending + queue.tally.succeeded >= jobs as u64 {
            return tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
        }
    }
}

/// The resident memory of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1_024
}
