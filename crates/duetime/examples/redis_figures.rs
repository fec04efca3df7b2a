//! The measurements for `bench/rivals`, of Duetime on a Redis that is empty and used by nothing else; prints one JSON
//! object: `redis_figures redis://127.0.0.1:PORT/0 [--jobs 200000] [--waiting 0] [--in-flight 4]`.
//!
//! The keys are those of `bench/rivals/bullmq.mjs`; its head says what they mean.

mod figures;

use duetime::job::NewJob;
use duetime::time::Span;
use duetime::{Client, Context, Worker};
use figures::{Cost, RedisServer, percentile, unix_ms};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BULK: usize = 1_000;
const CONCURRENCY: usize = 100;
const DELAYED: usize = 100_000;
const LATE_JOBS: usize = 2_000;
const LATE_PER_S: u64 = 400;
/// From the push to the first due time: all jobs are pushed before that.
const LEAD_MS: u64 = 3_000;
const DAY_MS: u64 = 86_400_000;
const PAYLOAD: [u8; 100] = [b'1'; 100];

#[tokio::main(worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().expect("the address of a Redis");
    let (mut jobs, mut waiting, mut in_flight) = (200_000, 0, 4);
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        let value: usize = value.parse().expect("a number");
        match name.as_str() {
            "--jobs" => jobs = value,
            "--waiting" => waiting = value,
            "--in-flight" => in_flight = value,
            _ => panic!("unknown option {name}"),
        }
    }
    let redis = RedisServer::of(&url);
    let client = Client::connect(&url).await.expect("connected");
    let before = redis.info("used_memory");
    let delayed = move |n: usize| DAY_MS + n as u64;
    if waiting > 0 {
        push(&client, "waiting", waiting, in_flight, delayed).await;
    }
    let waiting_bytes = redis.info("used_memory") - before;

    let begin = redis.cost();
    let push_s = push(&client, "bench", jobs, in_flight, |_| 0).await;
    let pushed = redis.cost();
    let process_s = process(&client, jobs).await;
    let processed = redis.cost();
    let late = lateness(&client).await;
    let bytes = if waiting > 0 {
        waiting_bytes / waiting as f64
    } else {
        let before = redis.info("used_memory");
        push(&client, "waiting", DELAYED, in_flight, delayed).await;
        (redis.info("used_memory") - before) / DELAYED as f64
    };

    let per_job =
        |from: &Cost, to: &Cost| ((to.s - from.s) * 1e6 / jobs as f64, (to.commands - from.commands) / jobs as f64);
    let (push_cost, process_cost, cost) =
        (per_job(&begin, &pushed), per_job(&pushed, &processed), per_job(&begin, &processed));
    let report = serde_json::json!({
        "name": "Duetime", "redis": redis.text("redis_version"), "jobs": jobs, "waiting": waiting,
        "push_jobs_per_s": jobs as f64 / push_s, "process_jobs_per_s": jobs as f64 / process_s,
        "push_redis_us_per_job": push_cost.0, "push_commands_per_job": push_cost.1,
        "process_redis_us_per_job": process_cost.0, "process_commands_per_job": process_cost.1,
        "redis_us_per_job": cost.0, "commands_per_job": cost.1,
        "late_ms_p50": late(0.5), "late_ms_p99": late(0.99), "late_ms_max": late(1.0),
        "bytes_per_delayed_job": bytes,
    });
    println!("{report}");
    client.close().await.expect("closed");
}

/// Pushes in this many concurrent bulks; returns the seconds that took.
async fn push(
    client: &Client,
    queue: &'static str,
    count: usize,
    in_flight: usize,
    delay_ms: impl Fn(usize) -> u64 + Copy + Send + 'static,
) -> f64 {
    let start = Instant::now();
    let next = Arc::new(AtomicU64::new(0));
    let lanes = (0..in_flight).map(|_| {
        let (client, next) = (client.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let first = next.fetch_add(BULK as u64, Ordering::Relaxed) as usize;
                if first >= count {
                    return;
                }
                let job = |n| NewJob {
                    queue: queue.into(),
                    due: if delay_ms(n) == 0 {
                        duetime::job::Due::Now
                    } else {
                        duetime::job::Due::After(Span(delay_ms(n)))
                    },
                    ..NewJob::new(PAYLOAD)
                };
                let batch = (first..count.min(first + BULK)).map(job).collect();
                client
                    .push_many(batch)
                    .await
                    .expect("pushed")
                    .into_iter()
                    .for_each(|pushed| drop(pushed.expect("pushed")));
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("a lane ends well");
    }
    start.elapsed().as_secs_f64()
}

async fn process(client: &Client, count: usize) -> f64 {
    let start = Instant::now();
    let worker = Worker::new(client)
        .queue("bench")
        .concurrency(CONCURRENCY)
        .handle_raw("default", || async { duetime::worker::Handled::Ok(()) });
    let summary = worker.drain().await.expect("worked off");
    assert_eq!(summary.succeeded, count as u64);
    start.elapsed().as_secs_f64()
}

async fn lateness(client: &Client) -> impl Fn(f64) -> f64 {
    let late: Arc<Mutex<Vec<f64>>> = Arc::default();
    let due = |n: usize| unix_ms() as u64 + LEAD_MS + n as u64 * 1_000 / LATE_PER_S;
    let first = due(0);
    let batch = |n| NewJob {
        queue: "late".into(),
        due: duetime::job::Due::At(duetime::Timestamp(first + n as u64 * 1_000 / LATE_PER_S)),
        ..NewJob::new(PAYLOAD)
    };
    for chunk in (0..LATE_JOBS).collect::<Vec<_>>().chunks(BULK) {
        client.push_all(chunk.iter().map(|&n| batch(n))).await.expect("pushed");
    }
    let measured = late.clone();
    let worker =
        Worker::new(client).queue("late").concurrency(CONCURRENCY).handle_raw("default", move |context: Context| {
            let late = unix_ms() - context.job().due_at.0 as f64;
            measured.lock().expect("no panic").push(late);
            async { duetime::worker::Handled::Ok(()) }
        });
    let span = LEAD_MS + LATE_JOBS as u64 * 1_000 / LATE_PER_S + 1_000;
    worker.run_for(Duration::from_millis(span)).await.expect("worked off");
    let mut late = std::mem::take(&mut *late.lock().expect("no panic"));
    assert_eq!(late.len(), LATE_JOBS);
    late.sort_by(f64::total_cmp);
    move |share| percentile(&late, share)
}
