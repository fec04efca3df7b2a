//! Three servers and four workers on one Redis, in trouble: workers and servers are killed with SIGKILL, connections are
//! cut, Redis is killed and started again, masters die. Every acknowledged job is accounted for, by the workers' records
//! before and after each call and by the final content of Redis.
//!
//! `DUETIME_CHAOS_JOBS` and `DUETIME_CHAOS_SECONDS` set how many jobs are due over how long (by default 6,000 over 12 s).
//! `DUETIME_CHAOS_SEED` repeats the choices of a run; the timing depends on the machine.

#[path = "../common/mod.rs"]
mod common;
mod fleet;
mod history;
mod pushes;
mod scenario;
mod verdict;
mod worker;

use common::Random;
use duetime_store::testing::{MariaDbServer, PostgresServer, RedisCluster, RedisSentinel, RedisServer};
use fleet::Fleet;
use scenario::{Plan, run};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, interval, sleep_until};

/// Kept through any stop: each change is on disk before it is acknowledged.
const KEPT: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
/// One partition for each queue of the test, wherever Redis runs.
const PARTITIONS: &str = "?partitions=4";

/// Not a test by itself: the process of a worker, which the tests start and kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_for_another_test() {
    if let Some(orders) = worker::Orders::of_environment() {
        worker::work(orders).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_workers_and_servers_are_killed() {
    let redis = RedisServer::start();
    let plan = Plan::of_environment(1);
    let mut random = Random::new(plan.seed);
    let trouble = async |fleet: &Fleet| {
        // Connections are cut at any tenth of a second, including when leases of killed workers expire.
        let mut tenths = interval(Duration::from_millis(100));
        tenths.tick().await;
        let mut cut = 0;
        for tenth in 1..plan.seconds * 10 {
            tenths.tick().await;
            if tenth % 10 == cut {
                redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
            }
            if tenth % 20 == 0 {
                fleet.kill_worker(random.within(0..fleet::WORKERS as u64) as usize);
            }
            if tenth % 50 == 0 {
                fleet.kill_server(random.within(0..fleet::SERVERS as u64) as usize);
            }
            if tenth % 10 == 9 {
                cut = random.within(0..10);
            }
        }
    };
    let (verdict, ()) = run(&format!("{}{PARTITIONS}", redis.url()), &plan, trouble).await;
    verdict.assert_nothing_is_lost();
    assert!(verdict.handed_out_again > 0, "no killed worker had a job in hand");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_redis_is_killed_and_has_kept_it() {
    let mut redis = RedisServer::with(&KEPT);
    let url = format!("{}{PARTITIONS}", redis.url());
    let plan = Plan::of_environment(3);
    let trouble = async |fleet: &Fleet| {
        let half = Instant::now() + plan.span() / 2;
        sleep_until(half).await;
        // The first time in good order, then as in a power failure.
        let again = move |is_killed| {
            if is_killed {
                redis.kill();
                redis.start_again();
            } else {
                redis.restart();
            }
            redis
        };
        let redis = fleet.outage("restarted", spawn_blocking(move || again(false))).await;
        sleep_until(half + plan.span() / 4).await;
        let again = move |mut redis: RedisServer| {
            redis.kill();
            redis.start_again();
            redis
        };
        fleet.outage("killed and started again", spawn_blocking(move || again(redis))).await
    };
    run(&url, &plan, trouble).await.0.assert_nothing_is_lost();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_goes_on_when_the_master_of_sentinels_is_killed() {
    let mut watched = RedisSentinel::start();
    let url = format!("{}{PARTITIONS}", watched.url());
    let plan = Plan { forgets: true, ..Plan::of_environment(2) };
    let trouble = async |fleet: &Fleet| {
        sleep_until(Instant::now() + plan.span() / 2).await;
        let kill = move || {
            let old = watched.kill_master();
            watched.wait_for_failover(old);
            watched
        };
        fleet.outage("the master killed", spawn_blocking(kill)).await
    };
    let (verdict, watched) = run(&url, &plan, trouble).await;
    let switches = watched.sentinels().iter().map(|sentinel| sentinel.log().matches("+switch-master").count());
    println!("         the sentinels named another master {} times", switches.max().unwrap_or(0));
    verdict.assert_work_went_on();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_goes_on_when_a_master_of_a_cluster_is_killed() {
    let mut cluster = RedisCluster::start();
    let url = format!("{}{PARTITIONS}", cluster.url());
    let plan = Plan { forgets: true, ..Plan::of_environment(2) };
    let trouble = async |fleet: &Fleet| {
        sleep_until(Instant::now() + plan.span() / 2).await;
        let slot: usize = cluster.nodes()[0].command(&["CLUSTER", "KEYSLOT", "{duetime:default:0}"]).parse().unwrap();
        let kill = move || {
            let master = (0..3).find(|index| slot < (index + 1) * 16_384 / 3).unwrap();
            cluster.kill_master(master);
            cluster.wait_for_failover(master);
            cluster
        };
        fleet.outage("a master killed", spawn_blocking(kill)).await
    };
    run(&url, &plan, trouble).await.0.assert_work_went_on();
}

/// Redis forgets everything, twice; the database dies in the middle; a server, too. Everything acknowledged is in the
/// ledger.
async fn nothing_is_lost_beside<D: Database>() {
    let (redis, database) = spawn_blocking(|| (RedisServer::start(), D::durable())).await.unwrap();
    let url = format!("{}{PARTITIONS}", redis.url());
    let plan = Plan { forgets: true, ledger: Some(database.address()), ..Plan::of_environment(1) };
    let trouble = async |fleet: &Fleet| {
        let start = Instant::now();
        let at = async |twelfths: u32| sleep_until(start + plan.span() * twelfths / 12).await;
        at(3).await;
        let flush = move || {
            redis.command(&["FLUSHALL"]);
            redis
        };
        let redis = fleet.outage("emptied", spawn_blocking(flush)).await;
        at(6).await;
        let empty = move |mut redis: RedisServer| {
            redis.kill();
            redis.start_again();
            redis
        };
        let redis = fleet.outage("Redis killed and started empty", spawn_blocking(move || empty(redis))).await;
        at(9).await;
        let database = fleet.outage("the database killed and started again", spawn_blocking(|| database.again())).await;
        at(10).await;
        fleet.kill_server(0);
        (redis, database)
    };
    run(&url, &plan, trouble).await.0.assert_recorded();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_beside_mariadb() {
    Box::pin(nothing_is_lost_beside::<MariaDbServer>()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_beside_postgres() {
    Box::pin(nothing_is_lost_beside::<PostgresServer>()).await;
}

/// A private database that keeps committed data.
trait Database: Sized + Send + 'static {
    fn durable() -> Self;
    fn address(&self) -> String;
    /// Kills it and starts it again.
    fn again(self) -> Self;
}

impl Database for MariaDbServer {
    fn durable() -> Self {
        Self::with(true, &[])
    }

    fn address(&self) -> String {
        self.url()
    }

    fn again(mut self) -> Self {
        self.kill();
        self.start_again();
        self
    }
}

impl Database for PostgresServer {
    fn durable() -> Self {
        Self::with(true, &[])
    }

    fn address(&self) -> String {
        self.url()
    }

    fn again(mut self) -> Self {
        self.kill();
        self.start_again();
        self
    }
}
