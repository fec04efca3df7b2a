//! Five processes' worth of engines on one Redis Cluster, where there is no leader: each tick is one job, in the partition
//! of its queue.

use duetime::job::{NewJob, Query};
use duetime::lease::{Outcome, ReserveRequest, Source};
use duetime::schedule::Timing;
use duetime::time::{Span, Timestamp};
use duetime::{Client, Schedule};
use duetime_store::testing::RedisCluster;
use std::sync::Arc;

const SCHEDULES: usize = 10;
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
    let mut expected = Vec::new();
    for name in &names {
        let job = NewJob { queue: name.clone(), ..NewJob::new(*b"{}") };
        let set = clients[0].schedules().set(name, Schedule::new(Timing::Every(Span(1_000)), job)).await.unwrap();
        expected.push(set.next);
    }
    for tick in 0..TICKS {
        let client = clients.last().unwrap();
        for (name, expected) in names.iter().zip(&expected) {
            let from = Source::Queues(vec![name.clone()]);
            let request = ReserveRequest::new(from).limit(1).wait(Span(30_000));
            let lease = client.leases().reserve(request).await.unwrap().leases.remove(0);
            assert_eq!(lease.job.due_at, Timestamp(expected[tick].0), "{name}");
            let done =
                client.leases().settle(vec![(lease.job.receipt(), Outcome::Complete { result: None })]).await.unwrap();
            assert!(done.iter().all(Result::is_ok), "{name}: {done:?}");
        }
        clients.remove(0).close().await.unwrap();
    }
    for (name, expected) in names.iter().zip(&expected) {
        clients[0].schedules().delete(name).await.unwrap();
        let query = Query { tag: Some(format!("schedule:{name}").into()), ..Query::default() };
        let jobs = clients[0].jobs().page(&query, None, 1_000).await.unwrap().jobs;
        let mut ticks: Vec<u64> = jobs.iter().map(|job| job.first_due_at.0).collect();
        ticks.sort_unstable();
        let first = expected[0].0;
        let one_each: Vec<u64> = (0..ticks.len() as u64).map(|n| first + n * 1_000).collect();
        assert!(ticks.len() >= TICKS, "{name}: {ticks:?}");
        assert_eq!(ticks, one_each, "{name}");
    }
}
