//! The dashboard over many jobs: each page beside `/healthz` under load, and the lateness of jobs while pages are open.
//!
//! `DUETIME_SCALE_JOBS` is the number of waiting jobs in a file (a tenth of it in Redis beside PostgreSQL, but at
//! least 4,000; 20,000 if it is unset), `DUETIME_BIN` the binary. `cargo xtask scale` runs this with 10 million jobs and the release binary, and shows
//! the tables that `bench/RESULTS.md` has. Times are printed, and never asserted.

mod load;
mod tabs;

use crate::http::client::{Connection, request};
use crate::http::server::{Server, store_in};
use duetime_store::testing::{PostgresServer, RedisServer};
use load::{Load, fill, has_many, percentile};
use serde_json::json;
use std::time::{Duration, Instant};
use tabs::Tabs;

const JOBS_DEFAULT: usize = 20_000;
/// Readers, how many, and their streams.
const READERS: [(&str, usize, &str); 5] = [
    ("none", 0, ""),
    ("a tab", 1, "/live?every=1s"),
    ("a page every 100 ms", 1, "/live?every=100ms"),
    ("200 tabs", 200, "/live?every=1s"),
    ("20 tabs of events", 20, "/live"),
];
/// Memory that the tabs may add to the server, in KiB.
const TABS_KIB_MAX: u64 = 64 << 10;

fn jobs() -> usize {
    std::env::var("DUETIME_SCALE_JOBS").map_or(JOBS_DEFAULT, |text| text.parse().expect("a number"))
}

#[test]
fn pages_over_many_jobs_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with(&["--store", store_in(&folder).to_str().unwrap(), "--log-level", "error"]);
    measure(&server, "a file", jobs());
}

#[test]
fn pages_over_many_jobs_in_redis_beside_postgres() {
    let (redis, postgres) = (RedisServer::start(), PostgresServer::with(true, &[]));
    let server = Server::with(&["--broker", &redis.url(), "--ledger", &postgres.url(), "--log-level", "error"]);
    measure(&server, "Redis beside PostgreSQL", (jobs() / 10).max(2 * load::FAILED));
}

fn measure(server: &Server, store: &str, jobs: usize) {
    println!("\n{jobs} jobs over 1,000 queues in {store}\n");
    let job = fill(server, jobs);
    let pages = pages(&job);
    check_totals(server, jobs);
    print_page_times(server, &pages);
    print_lateness(server, &pages);
}

/// The pages with their paths; `/healthz` first.
fn pages(job: &str) -> Vec<(&'static str, String)> {
    [
        ("(`/healthz`)", "/healthz"),
        ("overview", "/"),
        ("queues", "/queues"),
        ("queue", "/queues/q7"),
        ("jobs", "/jobs"),
        ("jobs of a queue", "/jobs?queue=q7"),
        ("jobs of a queue and kind", "/jobs?queue=q7&kind=none"),
        ("jobs by state", "/jobs?state=failed"),
        ("jobs that run", "/jobs?state=running"),
        ("jobs by tag", "/jobs?tag=order:70"),
        ("failed", "/failed"),
        ("schedules", "/schedules"),
        ("workers", "/workers"),
        ("locks", "/locks"),
        ("events", "/events"),
    ]
    .map(|(name, path)| (name, path.to_owned()))
    .into_iter()
    .chain([("job", format!("/jobs/{job}"))])
    .collect()
}

/// The totals add up to the jobs that were pushed, in the API and on the page.
fn check_totals(server: &Server, jobs: usize) {
    let mut pushed = 0;
    let mut after = String::new();
    loop {
        let page = server.get(&format!("/v1/queues?limit=1000{after}")).ok();
        pushed +=
            page["queues"].as_array().unwrap().iter().map(|q| q["totals"]["pushed"].as_u64().unwrap()).sum::<u64>();
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(pushed, jobs as u64);
}

fn open(connection: &mut Connection, path: &str) -> Duration {
    let began = Instant::now();
    connection.send(request("GET", path, &[], ""));
    let reply = connection.reply();
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    began.elapsed()
}

/// Opens the pages in turns while jobs are pushed and run.
fn print_page_times(server: &Server, pages: &[(&str, String)]) {
    let mut connection = server.connect();
    let mut times = vec![Vec::new(); pages.len()];
    let first = open(&mut connection, "/");
    let mut load = Load::start(server);
    while load.is_running() || times[0].is_empty() {
        for ((_, path), times) in pages.iter().zip(&mut times) {
            times.push(open(&mut connection, path));
        }
    }
    load.lateness();
    println!(
        "The first overview took {:.1} ms.\n\n| page | p50, ms | p99, ms | opened |\n|---|---|---|---|",
        ms(first)
    );
    for ((name, _), times) in pages.iter().zip(&mut times) {
        let [p50, p99] = [50, 99].map(|percent| ms(percentile(times, percent)));
        println!("| {name} | {p50:.1} | {p99:.1} | {} |", times.len());
    }
}

/// The lateness of jobs with and without readers, in turns.
fn print_lateness(server: &Server, pages: &[(&str, String)]) {
    println!("\n| readers | p50, ms | p99, ms | max, ms | server, MiB |\n|---|---|---|---|---|");
    let pages: Vec<String> = pages.iter().map(|(_, path)| path.clone()).collect();
    let rounds = if has_many() { 3 } else { 1 };
    for _ in 0..rounds {
        let alone = memory_kib(server);
        for (readers, count, stream) in READERS {
            let tabs = Tabs::open(server, count, stream, &pages);
            let load = Load::start(server);
            let lateness = load.lateness();
            let memory = memory_kib(server);
            let heard = tabs.close();
            assert!(heard.iter().all(|heard| *heard > 0), "each tab heard of the load: {heard:?}");
            assert!(memory < alone + TABS_KIB_MAX, "{memory} KiB, {alone} before");
            let [p50, p99, max] = ["p50_us", "p99_us", "max_us"].map(|name| lateness[name].as_f64().unwrap() / 1e3);
            println!("| {readers} | {p50:.2} | {p99:.2} | {max:.2} | {} |", memory >> 10);
        }
    }
}

fn memory_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The body of a push of these jobs.
fn body(numbers: impl Iterator<Item = usize>) -> String {
    let jobs = numbers.map(|n| {
        let minutes = (n * 2_654_435_761) % (30 * 24 * 60) + 60;
        let (queue, kind) = (format!("q{}", n % 1_000), ["mail", "order.cancel", "notify"][n % 3]);
        let tags = if n % 10 == 0 { vec![format!("order:{n}")] } else { Vec::new() };
        json!({"queue": queue, "kind": kind, "tags": tags, "delay": format!("{minutes}m"), "payload": "x".repeat(98)})
    });
    serde_json::Value::from_iter(jobs).to_string()
}
