//! Five processes' worth of engines on one Redis Cluster, where there is no leader: each tick is one job, in the partition
//! of its queue.

use duetime::job::{NewJob, Query};
use duetime::lease::{Outcome, ReserveRequest, Source};
use duetime::schedule::Timing;
use duetime::time::Span;
use duetime::{Client, Schedule};
use duetime_store::testing::RedisCluster;
use std::collections::BTreeSet;
use std::sync::Arc;

const SCHEDULES: usize = 10;
const EVERY_MS: u64 = 1_000;
/// Ticks that are waited for; one engine stops after each.
const TICKS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_five_engines_one_pushes_each_tick() {
    let cluster = RedisCluster::masters_only();
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(Client::connect(&cluster.url()).await.unwrap());
    }
    let names: Vec<Arc<str>> = (0..SCHEDULES).map(|n| Arc::from(format!("every-{n}"))).collect();
    let mut firsts = Vec::new();
    for name in &names {
        let job = NewJob { queue: name.clone(), ..NewJob::new(*b"{}") };
        let set = clients[0].schedules().set(name, Schedule::new(Timing::Every(Span(EVERY_MS)), job)).await.unwrap();
        firsts.push(set.next[0].0);
    }
    // On a busy machine, an instant may be left out: of those that are late, the last one is made up for.
    let is_tick = |first: u64, instant: u64| instant >= first && (instant - first).is_multiple_of(EVERY_MS);
    let mut latest = vec![0; SCHEDULES];
    for _ in 0..TICKS {
        let client = clients.last().unwrap();
        for ((name, first), latest) in names.iter().zip(&firsts).zip(&mut latest) {
            let from = Source::Queues(vec![name.clone()]);
            let request = ReserveRequest::new(from).limit(1).wait(Span(30_000));
            let lease = client.leases().reserve(request).await.unwrap().leases.remove(0);
            let due_at = lease.job.due_at.0;
            assert!(
                is_tick(*first, due_at) && due_at > *latest,
                "{name}: {due_at} after {latest}, the first was {first}"
            );
            *latest = due_at;
            let done = client.leases().settle(vec![(lease.job.receipt(), Outcome::complete(None))]).await.unwrap();
            assert!(done.iter().all(Result::is_ok), "{name}: {done:?}");
        }
        clients.remove(0).close().await.unwrap();
    }
    for (name, &first) in names.iter().zip(&firsts) {
        clients[0].schedules().delete(name).await.unwrap();
        let query = Query { tag: Some(format!("schedule:{name}").into()), ..Query::default() };
        let jobs = clients[0].jobs().page(&query, None, 1_000).await.unwrap().jobs;
        let ticks: Vec<u64> = jobs.iter().map(|job| job.first_due_at.0).collect();
        assert!(ticks.len() >= TICKS && ticks.iter().all(|&tick| is_tick(first, tick)), "{name}: {first}, {ticks:?}");
        assert_eq!(BTreeSet::from_iter(&ticks).len(), ticks.len(), "{name}: {ticks:?}");
    }
}
