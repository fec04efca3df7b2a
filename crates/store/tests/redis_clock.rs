//! Due times if the path to Redis is slow in one direction: nothing is early by Redis' own clock.

use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::Pause;
use duetime_core::engine::{Engine, Options as EngineOptions, Outcome, Patch, ReserveRequest, Source};
use duetime_core::ports::Lease;
use duetime_core::rules::Failure;
use duetime_core::{Due, Job, NewJob};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::RedisServer;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// The delay of the slow direction.
const LATE: Duration = Duration::from_millis(60);

/// A connection to a server on which sent data arrives late.
fn slow_way(to: u16, there: Duration, back: Duration) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { return };
            for (from, to, late) in [(&client, &server, there), (&server, &client, back)] {
                let (from, to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
                thread::spawn(move || pump(from, to, late));
            }
        }
    });
    port
}

fn pump(mut from: TcpStream, mut to: TcpStream, late: Duration) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        // Lateness is what is tested.
        thread::park_timeout(late);
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    // If the other side is already gone, there is nothing to shut down.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

struct Site {
    server: RedisServer,
    engine: Engine,
}

impl Site {
    async fn new(there: Duration, back: Duration) -> Self {
        let server = RedisServer::start();
        let port = slow_way(server.port(), there, back);
        let redis = Redis::connect(&format!("redis://127.0.0.1:{port}/0"), Options::default()).await.unwrap();
        let engine = Engine::start(redis.stores(), EngineOptions::default()).await.unwrap();
        Self { server, engine }
    }

    /// The reading of Redis in microseconds.
    fn clock(&self) -> u64 {
        let reply = self.server.command(&["TIME"]);
        let numbers: Vec<u64> = reply.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [seconds, micros] = numbers[..] else { panic!("{reply}") };
        seconds * 1_000_000 + micros
    }

    async fn push(&self, due: Due) -> Job {
        self.engine.push(vec![NewJob { due, ..NewJob::new(*b"{}") }]).await.unwrap().remove(0).unwrap().job
    }

    async fn lease(&self) -> Lease {
        let from = Source::Queues(vec!["default".into()]);
        let request = ReserveRequest::new(from).limit(1).wait(Span(20_000));
        self.engine.reserve(request).await.unwrap().leases.remove(0)
    }

    async fn settle(&self, lease: &Lease, outcome: Outcome) {
        self.engine.settle(vec![(lease.job.receipt(), outcome)]).await.remove(0).unwrap();
    }

    async fn job(&self, of: &Job) -> Job {
        self.engine.job(of.id).await.unwrap()
    }
}

/// Whether a job is due no earlier than this long after this reading of the clock.
fn assert_not_early(job: &Job, since: u64, delay_ms: u64, what: &str) {
    let due_at = job.due_at.0 * 1_000;
    let wanted = since + delay_ms * 1_000;
    assert!(due_at >= wanted, "{what}: {} us early", wanted - due_at);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_delay_is_cut_short_where_one_direction_is_slow() {
    for (there, back) in [(Duration::ZERO, Duration::ZERO), (Duration::ZERO, LATE), (LATE, Duration::ZERO)] {
        let site = Site::new(there, back).await;
        for delay_ms in [1, 30, 31, 90] {
            let since = site.clock();
            let job = site.push(Due::After(Span(delay_ms))).await;
            assert_not_early(&job, since, delay_ms, "pushed");

            let since = site.clock();
            let patch = Patch { due: Some(Due::After(Span(delay_ms))), ..Patch::default() };
            assert_not_early(&site.engine.update(job.id.into(), patch).await.unwrap(), since, delay_ms, "changed");

            let lease = site.lease().await;
            let started_at = lease.job.started_at.unwrap();
            assert!(started_at >= lease.job.due_at && site.clock() / 1_000 >= started_at.0);

            let since = site.clock();
            site.settle(&lease, Outcome::release(Span(delay_ms))).await;
            assert_not_early(&site.job(&job).await, since, delay_ms, "released");

            let lease = site.lease().await;
            let since = site.clock();
            let failure = Failure { message: "no".into(), is_final: false, retry_after: Some(Span(delay_ms)) };
            site.settle(&lease, Outcome::Fail(failure)).await;
            assert_not_early(&site.job(&job).await, since, delay_ms, "failed");

            let lease = site.lease().await;
            site.settle(&lease, Outcome::complete(None)).await;
        }
        // A job that is due at once is available at once.
        site.push(Due::Now).await;
        site.lease().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pause_ends_early_where_one_direction_is_slow() {
    let site = Site::new(Duration::ZERO, LATE).await;
    site.push(Due::Now).await;
    let until = site.engine.now_at_most() + 500;
    site.engine.pause("default", Pause::Until(Timestamp(until))).await.unwrap();
    let started_at = site.lease().await.job.started_at.unwrap();
    assert!(started_at >= Timestamp(until), "{} ms early", until - started_at.0);
}
