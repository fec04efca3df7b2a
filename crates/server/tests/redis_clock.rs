//! Machines with wrong clocks beside one Redis: only its clock decides when a job is due, and when a lease ends.

use duetime::Client;
use duetime_core::Job;
use duetime_core::api::Span;
use duetime_core::engine::{ReserveRequest, Source};
use duetime_store::testing::{FakeClock, RedisServer};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const DELAY_MS: u64 = 2_000;
const DELAY: &str = "2s";
const LEASE_MS: u64 = 1_500;
/// The allowed lateness on a loaded machine; far less than the error of the clocks.
const LATE_MS_MAX: u64 = 20_000;
/// A process knows the clock of Redis to within a round trip. A delay begins at the latest that it may read.
const UNKNOWN_MS_MAX: u64 = 1_000;
const QUEUE: &str = "q";

/// A command with this clock.
fn with_clock(clock: &FakeClock, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
    command.args(arguments).envs(clock.environment());
    command.env_remove("DUETIME_SERVER").stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// A server with a wrong clock.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(clock: &FakeClock, redis: &RedisServer) -> Self {
        let arguments = ["serve", "--log-level", "warn", "--listen", "127.0.0.1:0", "--broker", &redis.url()];
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = with_clock(clock, &arguments);
        command.stderr(log.reopen().unwrap());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.filter_map(|line| Some(line.trim().strip_prefix("listening on ")?.to_owned())).next();
        let server = Self { child, url: url.expect("the server begins to listen") };
        let said = std::fs::read_to_string(log.path()).unwrap();
        assert!(["599", "600", "601"].iter().any(|apart| said.contains(&format!("differ by {apart} s"))), "{said}");
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The clock of Redis, in milliseconds.
fn now(redis: &RedisServer) -> u64 {
    let time = redis.command(&["TIME"]);
    let mut parts = time.lines().map(|part| part.parse::<u64>().unwrap());
    parts.next().unwrap() * 1_000 + parts.next().unwrap() / 1_000
}

/// Waits for the next job, and says between which instants of Redis it was handed out.
async fn next(client: &Client, redis: &RedisServer) -> (Job, u64) {
    let from = Source::Queues(vec![QUEUE.into()]);
    let request = ReserveRequest::new(from).limit(1).lease(Span(LEASE_MS)).wait(Span(60_000));
    let job = client.leases().reserve(request).await.unwrap().leases.remove(0).job;
    (job, now(redis))
}

fn is_between(what: &str, least: u64, at: u64, most: u64) {
    assert!((least..=most).contains(&at), "{what}: {least} <= {at} <= {most}");
}

async fn the_clock_of_redis_decides(off_ms: i64) {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeClock::new(folder.path());
    clock.set(off_ms);
    let redis = RedisServer::start();
    let server = Server::start(&clock, &redis);
    let (remote, right) = (Client::connect(&server.url).await.unwrap(), Client::connect(&redis.url()).await.unwrap());

    // Pushed through the server, and by a command directly to Redis; handed out by the server and here.
    for by_command in [false, true] {
        let before = now(&redis);
        if by_command {
            let arguments = ["push", "--queue", QUEUE, "--delay", DELAY, "--server", &redis.url(), "1"];
            let output = with_clock(&clock, &arguments).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        } else {
            remote.push_raw("k", *b"1").queue(QUEUE).after(Duration::from_millis(DELAY_MS)).await.unwrap();
        }
        let after = now(&redis);
        let giver = if by_command { &right } else { &remote };
        let (job, handed_out) = next(giver, &redis).await;
        is_between("due", before + DELAY_MS, job.due_at.0, after + DELAY_MS + UNKNOWN_MS_MAX);
        is_between("handed out", job.due_at.0, job.started_at.unwrap().0, handed_out);
        is_between("handed out", job.due_at.0, handed_out, job.due_at.0 + LATE_MS_MAX);
        // Nobody settles it: the other one gets it when the lease ends, and not before.
        let taker = if by_command { &remote } else { &right };
        let lease_until = job.lease_until.unwrap();
        is_between("the lease's end", job.started_at.unwrap().0 + LEASE_MS, lease_until.0, handed_out + LEASE_MS);
        let (again, _) = next(taker, &redis).await;
        assert_eq!((again.id, again.attempt), (job.id, 2));
        is_between("handed out again", lease_until.0, again.started_at.unwrap().0, lease_until.0 + LATE_MS_MAX);
        taker.leases().complete(again.receipt(), None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_ahead_makes_nothing_early() {
    the_clock_of_redis_decides(600_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_behind_makes_nothing_late() {
    the_clock_of_redis_decides(-600_000).await;
}
