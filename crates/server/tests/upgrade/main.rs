//! A rolling upgrade: three servers of an older version on one Redis and one ledger are replaced by this one, one after the
//! other, while jobs are pushed and worked, locks change hands, and a schedule ticks. Nothing that was acknowledged is lost,
//! nothing runs early, and no server fails to read what the other version wrote.
//!
//! `cargo xtask upgrade --from REVISION` builds the older binary, names it in `DUETIME_OLD_BIN`, and runs this; nothing else
//! does (`test = false` in `Cargo.toml`).

mod fleet;
mod load;
mod servers;

use duetime_core::{Due, JobOptions, NewJob};
use duetime_store::testing::{MariaDbServer, PostgresServer, RedisServer};
use fleet::{Fleet, SERVERS, Version};
use load::Load;
use servers::Servers;
use std::sync::Arc;
use std::time::Duration;

/// The time limit for a condition; never reached if all is well.
const LIMIT: Duration = Duration::from_secs(180);
/// The number of jobs completed between two steps.
const STEP: usize = 400;
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

async fn upgrade(ledger: String) {
    let redis = blocking(RedisServer::start).await;
    let servers = Arc::new(Servers::default());
    let mut fleet = Fleet::new(&redis.url(), &ledger, servers.clone());
    for n in 0..SERVERS {
        fleet.start(n, Version::Old).await.unwrap();
    }
    let load = Load::start(&servers);
    load.sets_schedule_once_there_is_one(&servers);
    load.completes(STEP).await;
    println!("{STEP} jobs by old servers alone");
    for n in 0..SERVERS {
        fleet.stop(n).await;
        fleet.start(n, Version::New).await.unwrap();
        load.completes(STEP).await;
        println!("server {n} is new");
        load.is_read_by_all(&servers).await;
        // The way back, if there is one.
        if n == 0 {
            fleet.stop(n).await;
            match fleet.start(n, Version::Old).await {
                Ok(()) => println!("server {n} can be old again"),
                Err(said) => println!("server {n} cannot be old again: {said}"),
            }
            load.completes(STEP).await;
            load.is_read_by_all(&servers).await;
            fleet.stop(n).await;
            fleet.start(n, Version::New).await.unwrap();
            load.completes(STEP).await;
        }
    }
    load.completes(STEP).await;
    println!("{STEP} jobs by new servers alone");
    load.ends_well(&servers).await;
    fleet.said_nothing_bad();
}

/// An old server cannot read data that only the newer version knows. The test reports this without judging it.
async fn what_is_new(ledger: String) {
    let redis = blocking(RedisServer::start).await;
    let servers = Arc::new(Servers::default());
    let mut fleet = Fleet::new(&redis.url(), &ledger, servers.clone());
    fleet.start(0, Version::Old).await.unwrap();
    fleet.start(1, Version::New).await.unwrap();
    let (old, new) = (servers.client(0).unwrap(), servers.client(1).unwrap());
    let plain = NewJob { queue: "plain".into(), ..NewJob::new(*b"1") };
    let traced = NewJob {
        queue: "traced".into(),
        options: JobOptions { trace: Some(TRACE.into()), ..JobOptions::default() },
        ..NewJob::new(*b"2")
    };
    let far = NewJob { due: Due::After(Span(3 * 3_600_000)), ..traced.clone() };
    let mut ids = Vec::new();
    for job in [plain, traced, far] {
        ids.push(new.push_many(vec![job]).await.unwrap().remove(0).unwrap().id);
    }
    for (what, id) in ["a plain job", "one with a trace, near", "one with a trace, far"].iter().zip(&ids) {
        let said = old.get(*id).await.map_or_else(|error| error.to_string(), |job| format!("reads it: {job:?}"));
        println!("{what}: the old server: {said}");
        println!("{what}: the new server keeps the trace: {}", new.get(*id).await.unwrap().options().trace.is_some());
    }
    for queue in ["traced", "plain"] {
        let handed = load::reserve(&old, queue).await;
        let said = handed.map_or_else(|error| error.to_string(), |leases| format!("{} jobs", leases.len()));
        println!("a reserve from the queue {queue} by the old server: {said}");
    }
    fleet.tells();
}

fn on_both<F: Future<Output = ()>>(case: impl Fn(String) -> F) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let maria_db = MariaDbServer::start();
    println!("beside MariaDB");
    runtime.block_on(case(maria_db.url()));
    let postgres = PostgresServer::start();
    println!("beside PostgreSQL");
    runtime.block_on(case(postgres.url()));
}

#[test]
fn servers_are_replaced_one_by_one() {
    on_both(upgrade);
}

#[test]
fn what_only_newer_servers_know() {
    on_both(what_is_new);
}
