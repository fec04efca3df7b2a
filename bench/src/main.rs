//! Runs the measurements of `bench/RESULTS.md` and prints its tables, in Markdown:
//!
//! ```sh
//! cargo build --release && cargo run --release -p duetime-bench
//! ```
//!
//! Each row is a run of `duetime bench`; the median of three by its first figure is shown. `DUETIME_BIN` names another
//! binary, `DUETIME_BENCH_ROWS` only the rows whose name contains it.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

/// Runs of each row.
const RUNS: usize = 3;

/// A row: its name, whether it is measured over HTTP, and the arguments of `duetime bench`.
const ROWS: [(&str, bool, &str); 15] = [
    ("push, batches of 1,000", false, "push --jobs 1000000"),
    ("push, one by one, 64 tasks", false, "push --jobs 200000 --batch 1 --tasks 64"),
    ("push, batches of 1,000: key, 2 tags, 1 KiB", false, "push --jobs 200000 --key --tags 2 --payload 1024"),
    ("push, batches of 1,000, HTTP", true, "push --jobs 1000000 --tasks 4"),
    ("push, one by one, 64 connections, HTTP", true, "push --jobs 200000 --batch 1 --tasks 64"),
    ("push, batches of 1,000, HTTP: key, 2 tags, 1 KiB", true, "push --jobs 200000 --key --tags 2 --payload 1024"),
    ("cycle, batches of 1,000", false, "cycle --jobs 500000"),
    ("cycle, one by one, 64 tasks", false, "cycle --jobs 100000 --batch 1 --tasks 64"),
    ("cycle, batches of 1,000: key, 2 tags, 1 KiB", false, "cycle --jobs 200000 --key --tags 2 --payload 1024"),
    ("cycle, batches of 1,000, HTTP", true, "cycle --jobs 300000"),
    ("lateness, 2,000 due/s, none wait", false, "lateness --rate 2000 --jobs 20000"),
    ("lateness, 2,000 due/s, 1 M wait", false, "lateness --rate 2000 --jobs 20000 --waiting 1000000"),
    ("lateness, 2,000 due/s, 1 M wait, HTTP", true, "lateness --rate 2000 --jobs 20000 --waiting 1000000"),
    ("burst of 100 k", false, "burst --jobs 100000"),
    ("burst of 1 M", false, "burst --jobs 1000000 --seconds 20"),
];

/// Restarts: their names, and the pushes before them.
const RESTARTS: [(&str, &str); 2] = [
    ("restart, 1 M pending within the hour", "push --jobs 1000000 --within 1h"),
    ("restart, 10 M pending over 30 days", "push --jobs 10000000 --within 30d"),
];

fn main() -> ExitCode {
    let binary = std::env::var_os("DUETIME_BIN").map_or_else(|| PathBuf::from("target/release/duetime"), PathBuf::from);
    if !binary.exists() {
        eprintln!("expected the binary {}; run `cargo build --release` first", binary.display());
        return ExitCode::FAILURE;
    }
    let wanted = std::env::var("DUETIME_BENCH_ROWS").unwrap_or_default();
    println!("| load | command | figures | times (p50 / p99 / p99.9 / max, ms) | memory |");
    println!("|---|---|---|---|---|");
    let is_wanted = |name: &str| name.contains(&wanted);
    for (name, over_http, load) in ROWS.into_iter().filter(|(name, ..)| is_wanted(name)) {
        measure(name, load, || run(&binary, load, over_http));
    }
    for (name, load) in RESTARTS.into_iter().filter(|(name, _)| is_wanted(name)) {
        measure(name, load, || restart(&binary, load));
    }
    ExitCode::SUCCESS
}

/// Prints the median of some runs as a row.
fn measure(name: &str, load: &str, run: impl Fn() -> Option<Value>) {
    eprintln!("{name} …");
    let mut runs: Vec<Value> = (0..RUNS).filter_map(|_| run()).collect();
    runs.sort_by(|a, b| first_figure(a).total_cmp(&first_figure(b)));
    match runs.get(runs.len() / 2) {
        Some(median) => println!("| {name} | `bench {load}` | {}", cells(median)),
        None => println!("| {name} | `bench {load}` | failed | | |"),
    }
}

/// One run; `None` if it failed, which it has said on standard error.
fn run(binary: &Path, load: &str, over_http: bool) -> Option<Value> {
    let folder = temporary();
    let server = over_http.then(|| Server::start(binary, &folder.path().join("bench.db")));
    let mut command = Command::new(binary);
    command.arg("bench").args(load.split(' '));
    if let Some(server) = &server {
        command.args(["--server", &server.url, "--server-pid", &server.child.id().to_string()]);
    }
    answer(command)
}

/// Fills a store; measures how soon a server serves it, and how soon it has loaded the jobs due within the horizon.
fn restart(binary: &Path, load: &str) -> Option<Value> {
    let folder = temporary();
    let store = folder.path().join("bench.db");
    let mut fill = Command::new(binary);
    fill.arg("bench").args(load.split(' ')).args(["--durability", "none", "--store"]).arg(&store);
    answer(fill)?;
    let begin = Instant::now();
    let server = Server::start(binary, &store);
    let serving = begin.elapsed();
    let loaded = loop {
        let mut look = Command::new(binary);
        look.args(["health", "--server", &server.url]);
        let health = answer(look)?;
        if health["is_loaded"] == true {
            break health["loaded"].as_f64()?;
        }
    };
    let seconds = begin.elapsed().as_secs_f64();
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let rate = loaded / (seconds - serving.as_secs_f64());
    Some(json!({ "memory_bytes": kib.map(|kib| kib << 10), "figures": [
        { "name": "until all was loaded", "value": seconds, "unit": "s" },
        { "name": "until it served", "value": serving.as_secs_f64(), "unit": "s" },
        { "name": "loaded", "value": loaded, "unit": "jobs" },
        { "name": "loaded after it served", "value": rate, "unit": "jobs/s" },
    ]}))
}

/// The JSON that a command prints; `None` if it failed, in which case it has printed the error to standard error.
fn answer(mut command: Command) -> Option<Value> {
    let output = command.arg("--json").stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    serde_json::from_slice(&output.expect("the binary starts").stdout).ok()
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for temporary files")
}

fn first_figure(report: &Value) -> f64 {
    let figure = report["figures"][0]["value"].as_f64();
    figure.or(report["timings"][0]["p99_us"].as_f64()).unwrap_or(0.0)
}

fn cells(report: &Value) -> String {
    let list = |key: &str| report[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let figures: Vec<String> = list("figures")
        .iter()
        .map(|figure| {
            format!(
                "{} {:.1} {}",
                text(&figure["name"]),
                figure["value"].as_f64().unwrap_or(0.0),
                text(&figure["unit"])
            )
        })
        .collect();
    let ms = |timing: &Value, key: &str| timing[key].as_f64().unwrap_or(0.0) / 1_000.0;
    let times: Vec<String> = list("timings")
        .iter()
        .map(|timing| {
            let [p50, p99, p999, max] = ["p50_us", "p99_us", "p999_us", "max_us"].map(|key| ms(timing, key));
            format!("{}: {p50:.1} / {p99:.1} / {p999:.1} / {max:.1}", text(&timing["name"]))
        })
        .collect();
    let memory = report["memory_bytes"].as_f64().unwrap_or(0.0) / f64::from(1 << 20);
    format!("{} | {} | {memory:.0} MiB |", figures.join("; "), times.join("; "))
}

/// A server on a store, stopped when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(binary: &Path, store: &Path) -> Self {
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--store"])
            .arg(store)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let url = lines.map_while(Result::ok).find_map(|line| {
            let start = line.find("http://127.0.0.1:")?;
            Some(line[start..].split_whitespace().next()?.trim_end_matches(['.', ',']).to_owned())
        });
        Self { child, url: url.expect("the server says where to reach it") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The measurement is over; the store need not be preserved.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
