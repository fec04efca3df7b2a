//! `max_running` and `rate` of queues over four worker processes that are killed and started again.
//!
//! The test starts itself again as the workers. Each writes down when its runs begin and end. By these records no more jobs
//! may have run at once than allowed, and no more have begun within any span than the rate allows. `LIMITS_JOBS` sets the
//! number of jobs of each queue.

use duetime::queue::{QueueSettings, Rate};
use duetime::worker::Handled;
use duetime::{Client, Context, Worker};
use duetime_store::testing::RedisServer;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PROCESSES: usize = 4;
const MAX_RUNNING: u32 = 3;
const PER_SECOND: f64 = 100.0;
const BURST: u32 = 10;
const LEASE: Duration = Duration::from_secs(1);
const URL: &str = "LIMITS_URL";
const HISTORY: &str = "LIMITS_HISTORY";

/// Runs only as a worker, started by the test below. Alone it does nothing, and says so.
#[test]
fn worker() {
    let (Ok(url), Ok(history)) = (std::env::var(URL), std::env::var(HISTORY)) else {
        assert!(std::env::var_os(URL).is_none() && std::env::var_os(HISTORY).is_none(), "both or none");
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&url).await.unwrap();
        let of = |queue: &'static str, history: String| {
            let handler = move |context: Context| run(context, PathBuf::from(&history));
            Worker::new(&client).queue(queue).concurrency(8).lease(LEASE).fallback(handler).run()
        };
        let (narrow, even) = tokio::join!(of("narrow", history.clone()), of("even", history));
        narrow.and(even).unwrap();
    });
}

async fn run(context: Context, history: PathBuf) -> Handled {
    let (id, epoch) = (context.id(), context.epoch());
    let started_at = context.job().started_at.unwrap_or_default().0;
    let queue = context.queue().clone();
    log(&history, &format!("{queue} begin {id}.{epoch} {} {started_at}", unix_us()));
    if &*queue == "narrow" {
        tokio::time::sleep(Duration::from_millis(5 + id.get() % 30)).await;
    }
    log(&history, &format!("{queue} end {id}.{epoch} {} 0", unix_us()));
    Ok(())
}

/// Lines of one write each, so that those of many processes do not mix.
fn log(history: &Path, line: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(history).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn unix_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

struct Process(Child);

impl Process {
    fn start(url: &str, history: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["redis_limits::worker", "--exact", "--nocapture"]).env(URL, url).env(HISTORY, history);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Line {
    queue: String,
    begins: bool,
    run: String,
    at: u64,
    started_at: u64,
}

fn read(history: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(history).unwrap();
    let line = |line: &str| {
        let [queue, what, run, at, started_at] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (at, started_at) = (at.parse().unwrap(), started_at.parse().unwrap());
        Line { queue: queue.to_owned(), begins: what == "begin", run: run.to_owned(), at, started_at }
    };
    text.lines().map(line).collect()
}

/// The maximum number that ran at once. A run without an end was killed, and is not counted.
fn most_at_once(lines: &[Line]) -> i64 {
    let narrow = || lines.iter().filter(|line| line.queue == "narrow");
    let ended: std::collections::HashSet<&str> =
        narrow().filter(|line| !line.begins).map(|line| line.run.as_str()).collect();
    let runs = narrow().filter(|line| ended.contains(line.run.as_str()));
    // A run that ends at an instant makes room for one that begins then.
    let mut changes: Vec<(u64, i64)> = runs.map(|line| (line.at, if line.begins { 1 } else { -1 })).collect();
    changes.sort_unstable();
    let mut running = 0;
    changes
        .iter()
        .map(|(_, change)| {
            running += change;
            running
        })
        .max()
        .unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_over_processes_that_are_killed() {
    let jobs: usize = std::env::var("LIMITS_JOBS").map_or(500, |jobs| jobs.parse().unwrap());
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let history = folder.path().join("history");
    let client = Client::connect(&server.url()).await.unwrap();
    let narrow = QueueSettings::default().max_running(MAX_RUNNING);
    client.queues().replace("narrow", narrow).await.unwrap();
    let rate = Some(Rate { per_second: PER_SECOND, burst: Some(BURST) });
    client.queues().replace("even", QueueSettings { rate, ..QueueSettings::default() }).await.unwrap();
    for queue in ["narrow", "even"] {
        let new = (0..jobs).map(|n| client.push_raw("k", n.to_string().into_bytes()).queue(queue));
        client.push_all(new).await.unwrap();
    }
    let start = Instant::now();
    let mut processes: Vec<Process> = (0..PROCESSES).map(|_| Process::start(&server.url(), &history)).collect();
    let mut kills = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut left = 0;
        for queue in ["narrow", "even"] {
            left += client.queues().get(queue).await.unwrap().tally.pending;
        }
        if left == 0 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(300), "{left} jobs are left");
        processes[kills % PROCESSES] = Process::start(&server.url(), &history);
        kills += 1;
    }
    drop(processes);

    let lines = read(&history);
    let most = most_at_once(&lines);
    assert!(most <= i64::from(MAX_RUNNING), "{most} ran at once");
    let mut starts: Vec<u64> = lines.iter().filter(|l| l.queue == "even" && l.begins).map(|l| l.started_at).collect();
    starts.sort_unstable();
    assert!(starts.len() >= jobs, "{} of {jobs} were run", starts.len());
    for (first, from) in starts.iter().enumerate() {
        for (count, to) in (1_u64..).zip(&starts[first..]) {
            // An instant is a millisecond long.
            let most = f64::from(BURST) + ((to - from + 1) as f64) * PER_SECOND / 1_000.0;
            assert!(count as f64 <= most, "{count} within {} ms", to - from);
        }
    }
    let span = starts[starts.len() - 1] - starts[0];
    println!("{kills} kills; {most} at once; {} starts in {span} ms", starts.len());
}
