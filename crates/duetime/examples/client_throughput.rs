//! How many jobs per second an embedded store accepts and completes, in this process:
//! `cargo run --release -p duetime --example client_throughput [FOLDER]`. Each figure is beside that of the bare engine,
//! called on the caller's runtime.
//!
//! The worker is measured twice on the same number of jobs: with a handler without arguments, and with one that takes its state and two
//! more arguments. Rounds take turns in which of them is first. The processor time of a job, in all threads, tells more than the rate if
//! other programs run. `ONLY_WORK=1` measures only that, `JOBS` is how many jobs, and `ROUNDS`
//! how often. With `SERVER=http://127.0.0.1:7300` and `--features remote` the worker is that of a client of this server.

use duetime::job::NewJob;
use duetime::lease::{Outcome, ReserveRequest, Source};
use duetime::worker::{Attempt, Cancelled, State};
use duetime::{Client, Worker};
use duetime_core::engine::{Options, Stores};
use duetime_core::{Engine, SystemClock};
use duetime_store::sqlite::{self, Sqlite};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAYLOAD: [u8; 100] = [b'1'; 100];
const TASKS: usize = 64;
const BATCH: usize = 1_000;
/// In which Linux counts.
const TICK: Duration = Duration::from_millis(10);

#[tokio::main(worker_threads = 2)]
async fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let folder = tempfile::tempdir_in(folder).expect("the folder can be written");
    let jobs: usize = std::env::var("JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(200_000);
    let rounds: usize = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let server = std::env::var("SERVER").ok();
    let only_work = std::env::var_os("ONLY_WORK").is_some() || server.is_some();
    for round in 0..rounds {
        if only_work {
            let client = match &server {
                Some(server) => connect(server).await,
                None => Client::open(folder.path().join(format!("work-{round}.db"))).await.expect("the store opens"),
            };
            let (work, with_state) = workers(&client, jobs, round).await;
            println!("worker {work}, with state {with_state}");
            continue;
        }
        let path = folder.path().join(format!("engine-{round}.db"));
        let engine = engine(&path).await;
        let push = rate(jobs, engine_singles(&engine, jobs)).await;
        let cycle = rate(jobs, engine_cycle(&engine, jobs)).await;
        engine.stop().await.expect("the engine stops");
        println!("engine: push one by one {push:>8.0}/s   cycle {cycle:>8.0}/s");

        let client = Client::open(folder.path().join(format!("client-{round}.db"))).await.expect("the store opens");
        let push = rate(jobs, singles(&client, jobs)).await;
        let cycles = rate(jobs, cycles(&client, jobs)).await;
        let (work, with_state) = workers(&client, jobs, round).await;
        client.close().await.expect("the client closes");
        println!(
            "client: push one by one {push:>8.0}/s   cycle {cycles:>8.0}/s   worker {work}, with state {with_state}"
        );
    }
}

#[cfg(feature = "remote")]
async fn connect(server: &str) -> Client {
    Client::connect(server).await.expect("an address")
}

#[cfg(not(feature = "remote"))]
#[expect(clippy::unused_async, reason = "the same form as with the feature")]
async fn connect(_server: &str) -> Client {
    panic!("give cargo `--features remote` to measure a client of a server")
}

/// The rates without and with arguments.
async fn workers(client: &Client, jobs: usize, round: usize) -> (String, String) {
    let plain = async || {
        fill(client, jobs).await;
        costs(jobs, work(client, jobs)).await
    };
    let injected = async || {
        fill(client, jobs).await;
        costs(jobs, work_with_state(client, jobs)).await
    };
    if round.is_multiple_of(2) {
        let work = plain().await;
        (work, injected().await)
    } else {
        let with_state = injected().await;
        (plain().await, with_state)
    }
}

async fn rate(jobs: usize, work: impl Future<Output = ()>) -> f64 {
    let start = Instant::now();
    work.await;
    jobs as f64 / start.elapsed().as_secs_f64()
}

/// The rate, and the processor time of a job.
async fn costs(jobs: usize, work: impl Future<Output = ()>) -> String {
    let begin = processor_ticks();
    let rate = rate(jobs, work).await;
    let ticks = processor_ticks() - begin;
    format!("{rate:>8.0}/s {:>6.1} µs", ticks as f64 * TICK.as_secs_f64() * 1e6 / jobs as f64)
}

/// What this process has used of the processors; 0 if the system does not say.
fn processor_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // Of itself, and for it in the kernel: see proc(5).
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

async fn engine(path: &Path) -> Engine {
    let sqlite = Arc::new(Sqlite::open(path, sqlite::Options::default()).expect("the store opens"));
    let stores = Stores::one_process(Arc::new(SystemClock::new()), sqlite);
    Engine::start(stores, Options::default()).await.expect("the engine starts")
}

fn job(queue: &str) -> NewJob {
    NewJob { queue: Arc::from(queue), ..NewJob::new(PAYLOAD) }
}

fn reserve(queue: &str) -> ReserveRequest {
    let from = Source::Queues(vec![Arc::from(queue)]);
    ReserveRequest::new(from).limit(BATCH)
}

async fn engine_singles(engine: &Engine, jobs: usize) {
    let tasks = (0..TASKS).map(|_| {
        let engine = engine.clone();
        tokio::spawn(async move {
            for _ in 0..jobs / TASKS {
                engine.push(vec![job("singles")]).await.expect("pushed").remove(0).expect("pushed");
            }
        })
    });
    futures_util::future::join_all(tasks).await;
}

async fn singles(client: &Client, jobs: usize) {
    let tasks = (0..TASKS).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..jobs / TASKS {
                client.push_raw("k", PAYLOAD).queue("singles").await.expect("pushed");
            }
        })
    });
    futures_util::future::join_all(tasks).await;
}

async fn fill(client: &Client, jobs: usize) {
    for _ in 0..jobs / BATCH {
        client.push_all(vec![job("work"); BATCH]).await.expect("pushed");
    }
}

/// Four tasks push, reserve and complete batches of a thousand.
async fn engine_cycle(engine: &Engine, jobs: usize) {
    let tasks = (0..4).map(|_| {
        let engine = engine.clone();
        tokio::spawn(async move {
            for _ in 0..jobs / BATCH / 4 {
                engine.push(vec![job("cycle"); BATCH]).await.expect("pushed");
                let leases = engine.reserve(reserve("cycle")).await.expect("reserved").leases;
                let done = leases.iter().map(|lease| (lease.job.receipt(), Outcome::complete(None)));
                assert!(engine.settle(done.collect()).await.iter().all(Result::is_ok));
            }
        })
    });
    futures_util::future::join_all(tasks).await;
}

async fn cycles(client: &Client, jobs: usize) {
    let tasks = (0..4).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..jobs / BATCH / 4 {
                client.push_many(vec![job("cycle"); BATCH]).await.expect("pushed");
                let leases = client.leases().reserve(reserve("cycle")).await.expect("reserved").leases;
                let done = leases.iter().map(|lease| (lease.job.receipt(), Outcome::complete(None)));
                assert!(client.leases().settle(done.collect()).await.expect("settled").iter().all(Result::is_ok));
            }
        })
    });
    futures_util::future::join_all(tasks).await;
}

/// A worker with a hundred handlers that do nothing, until all are done and settled. The closure captures what it counts.
async fn work(client: &Client, jobs: usize) {
    let done = Arc::new(AtomicU64::new(0));
    let counted = done.clone();
    let worker = Worker::new(client).fallback(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async { duetime::worker::Handled::Ok(()) }
    });
    drain(worker, &done, jobs).await;
}

/// The same, but each handler takes its state and its attempt as arguments.
async fn work_with_state(client: &Client, jobs: usize) {
    let done = Arc::new(AtomicU64::new(0));
    let count = async |State(done): State<Arc<AtomicU64>>, _: Attempt, _: Cancelled| {
        done.fetch_add(1, Ordering::Relaxed);
        duetime::worker::Handled::Ok(())
    };
    drain(Worker::new(client).state(done.clone()).fallback(count), &done, jobs).await;
}

async fn drain<S: Clone + Send + Sync + 'static>(worker: Worker<S>, done: &AtomicU64, jobs: usize) {
    let summary = tokio::time::timeout(Duration::from_secs(600), worker.queue("work").concurrency(100).drain()).await;
    assert_eq!(summary.expect("in time").expect("worked").succeeded as usize, jobs);
    assert_eq!(done.load(Ordering::Relaxed) as usize, jobs);
}
