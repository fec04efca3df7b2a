//! Backups that are made while jobs are pushed and worked, and restores of them: the commands of `docs/operations/backup.md` as
//! they stand there, on private servers.

mod commands;
mod load;
mod site;

use commands::Commands;
use duetime::Client;
use duetime_core::api::Span;
use duetime_core::engine::{ReserveRequest, Source};
use duetime_core::json::Timestamp;
use duetime_core::limits::HOUR_MS;
use duetime_core::{Clock as _, JobId, Receipt, State as JobState, SystemClock};
use duetime_store::testing::{MariaDbServer, PostgresServer};
use load::{Journal, Load};
use site::{Database, Site};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::timeout;

/// The time limit for a condition; never reached if all is well.
const LIMIT: Duration = Duration::from_secs(120);
/// The number of acknowledgements before a backup begins.
const PUSHED: usize = 200;
const COMPLETED: usize = 50;

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Pushes a few jobs and leases them for this long.
async fn leased(client: &Client, queue: &str, lease_ms: u64) -> Vec<(JobId, Receipt)> {
    for n in 0..3 {
        client.push_raw("held", vec![b'0' + n]).queue(queue).await.unwrap();
    }
    let leases = reserve(client, queue, Some(lease_ms)).await;
    assert_eq!(leases.len(), 3);
    leases
}

/// Waits until something of this queue is handed out.
async fn reserve(client: &Client, queue: &str, lease_ms: Option<u64>) -> Vec<(JobId, Receipt)> {
    let from = Source::Queues(vec![queue.into()]);
    let request =
        ReserveRequest { lease: lease_ms.map(Span), ..ReserveRequest::new(from).limit(100).wait(Span(10_000)) };
    let leases = client.leases().reserve(request).await.unwrap().leases;
    leases.iter().map(|lease| (lease.job.id, lease.job.receipt())).collect()
}

/// Waits until these have been handed out again, under higher epochs.
async fn come_back(client: &Client, queue: &str, before: &[(JobId, Receipt)]) {
    let mut waiting: BTreeMap<JobId, u64> = before.iter().map(|(id, receipt)| (*id, receipt.epoch)).collect();
    let all = async {
        while !waiting.is_empty() {
            for (id, receipt) in reserve(client, queue, None).await {
                let epoch = waiting.remove(&id).expect("each once, and no other");
                assert!(receipt.epoch > epoch, "{receipt:?} after {epoch}");
            }
        }
    };
    timeout(LIMIT, all).await.expect("they come back");
}

/// All that was acknowledged before the backup began is there: what had ended has, and all else runs, once and not early.
async fn accounts_for(client: &Client, before: &Journal) {
    let records = load::records(client).await;
    let mut waiting = BTreeSet::new();
    for (id, due_at) in &before.pushed {
        let record = records.get(id).unwrap_or_else(|| panic!("{id} was acknowledged, and is gone"));
        assert_eq!(record.due_at, Timestamp(*due_at), "{record:?}");
        if before.completed.contains(id) {
            assert_eq!(record.state(SystemClock::new().wall()), JobState::Succeeded, "{record:?}");
        }
    }
    for (id, record) in &records {
        match record.state(SystemClock::new().wall()) {
            JobState::Succeeded => {}
            _ if record.due_at > Timestamp(record.created_at.0 + HOUR_MS / 2) => {}
            _ => assert!(waiting.insert(*id)),
        }
    }
    println!("{} records, {} of them are to run again", records.len(), waiting.len());
    let mut again = BTreeSet::new();
    let drain = async {
        while !waiting.is_empty() {
            for lease in load::reserve(client).await.unwrap() {
                load::is_not_early(&lease.job);
                assert!(again.insert(lease.job.id), "{} came twice", lease.job.id);
                assert!(waiting.remove(&lease.job.id), "{:?} came out of nowhere", lease.job);
                client.leases().complete(lease.job.receipt(), None).await.unwrap();
            }
        }
    };
    timeout(LIMIT, drain).await.expect("all run");
    for (id, record) in load::records(client).await {
        let is_far = record.due_at > Timestamp(record.created_at.0 + HOUR_MS / 2);
        let state = record.state(SystemClock::new().wall());
        assert_eq!(state, if is_far { JobState::Scheduled } else { JobState::Succeeded }, "{id}: {record:?}");
    }
}

/// Backs a site up under load, destroys it, restores it and compares. Answers what still has to be seen of leases.
async fn is_restored(mut site: Site, commands: &Commands) {
    let client = site.start().await;
    let held = leased(&client, "held", HOUR_MS).await;
    let short = leased(&client, "short", 2_000).await;
    let load = Load::start(&client);
    load.reaches(PUSHED, COMPLETED).await;

    let before = load.journal();
    commands.back_up().await;
    let then = load.journal().pushed.len();
    load.reaches(then + 1, COMPLETED).await;
    println!("{} jobs were pushed before the backup began, {} until it was made", before.pushed.len(), then);
    load.ends();
    site.destroy(commands).await;
    load.has_ended().await;

    commands.restore().await;
    let client = site.start().await;
    if site.keeps_leases() {
        for (_, receipt) in &held {
            client.leases().complete(*receipt, None).await.unwrap();
        }
    } else {
        let lost = client.leases().complete(held[0].1, None).await.unwrap_err();
        assert!(lost.to_string().contains("lease"), "{lost}");
        come_back(&client, "held", &held).await;
    }
    come_back(&client, "short", &short).await;
    accounts_for(&client, &before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_restored_from_a_copy_of_the_live_store() {
    let commands = Commands::of("A file");
    is_restored(Site::of_a_file(&commands), &commands).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_and_an_empty_redis_are_restored_from_a_dump() {
    let mut commands = Commands::of("Redis beside MariaDB or MySQL");
    let site = Site::of_a_ledger(Database::MariaDb(blocking(MariaDbServer::start).await), &mut commands).await;
    is_restored(site, &commands).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_and_an_empty_redis_are_restored_from_a_dump() {
    let mut commands = Commands::of("Redis beside PostgreSQL");
    let site = Site::of_a_ledger(Database::Postgres(blocking(PostgresServer::start).await), &mut commands).await;
    is_restored(site, &commands).await;
}
