//! More jobs than there is memory for, of a broker that several processes share.

use super::{DONE, Node, World, seconds};
use crate::engine::fixture::{job, request};
use duetime_core::engine::{ReserveRequest, Source};
use duetime_core::ports::{Broker, Queues};
use duetime_core::testing::mortal::When;
use duetime_core::{Job, JobId, NewJob};
use std::time::Duration;

const ROOM_JOBS: u64 = 100;
const JOB_BYTES: u64 = 207;

async fn bounded() -> (World, Node, Node) {
    let world = World { memory_max: Some(ROOM_JOBS * JOB_BYTES), ..World::new() };
    let leader = world.node().await;
    seconds(8).await;
    let other = world.node().await;
    seconds(1).await;
    (world, leader, other)
}

impl World {
    async fn held_jobs(&self) -> u64 {
        let counts = self.broker.memory().counts(Queues::first()).await.unwrap();
        counts.iter().map(|(_, counts, _)| counts.scheduled + counts.ready + counts.running).sum()
    }
}

impl Node {
    async fn push_to(&self, queue: &str, count: usize) -> Vec<JobId> {
        let mut ids = Vec::new();
        for _ in 0..count / 50 {
            let jobs = vec![NewJob { queue: queue.into(), ..job() }; 50];
            let pushed = self.engine.push(jobs).await.unwrap();
            ids.extend(pushed.into_iter().map(|pushed| pushed.unwrap().job.id));
        }
        ids
    }

    async fn run_all(&self, queue: &str, done: &mut Vec<JobId>) {
        loop {
            let from = Source::Queues(vec![queue.into()]);
            let request = ReserveRequest { from, ..request(20, Duration::from_secs(1)) };
            let leases = self.engine.reserve(request).await.unwrap().leases;
            if leases.is_empty() {
                return;
            }
            let jobs: Vec<Job> = leases.into_iter().map(|lease| lease.job).collect();
            for job in jobs {
                self.settle(job.receipt(), DONE).await.unwrap();
                done.push(job.id);
            }
        }
    }
}

fn sorted(mut ids: Vec<JobId>) -> Vec<JobId> {
    ids.sort();
    ids
}

#[tokio::test(start_paused = true)]
async fn whoever_pushes_and_whoever_works_the_broker_stays_within_its_bound() {
    let (world, leader, other) = bounded().await;
    let mut pushed = other.push_to("dead", 1_000).await;
    seconds(2).await;
    pushed.extend(leader.push_to("default", 500).await);
    pushed.extend(other.push_to("default", 500).await);
    seconds(2).await;
    assert!(world.held_jobs().await <= ROOM_JOBS * 5 / 4, "{}", world.held_jobs().await);
    let mut done = Vec::new();
    other.run_all("default", &mut done).await;
    assert_eq!(done.len(), 1_000);
    leader.run_all("dead", &mut done).await;
    assert!(sorted(done) == sorted(pushed));
}

#[tokio::test(start_paused = true)]
async fn an_emptied_broker_is_filled_within_its_bound() {
    let (world, leader, other) = bounded().await;
    let mut pushed = other.push_to("dead", 1_000).await;
    pushed.extend(other.push_to("default", 1_000).await);
    for _ in 0..3 {
        world.flush().await;
        seconds(20).await;
        assert!(leader.engine.health().is_loaded);
        assert!(world.held_jobs().await <= ROOM_JOBS, "{}", world.held_jobs().await);
    }
    let mut done = Vec::new();
    leader.run_all("default", &mut done).await;
    other.run_all("dead", &mut done).await;
    assert!(sorted(done) == sorted(pushed));
}

#[tokio::test(start_paused = true)]
async fn what_found_no_room_is_loaded_whoever_dies() {
    for (verb, when) in [("not_loaded", When::Before), ("not_loaded", When::After), ("loaded", When::Before)] {
        let (_world, leader, other) = bounded().await;
        let pushed = other.push_to("default", 1_000).await;
        leader.life.die_at(verb, when);
        let engine = leader.engine.clone();
        let more = tokio::spawn(async move {
            let jobs = vec![NewJob { queue: "more".into(), ..job() }; 200];
            engine.push(jobs).await.map(|pushed| pushed.len())
        });
        seconds(40).await;
        more.abort();
        let mut done = Vec::new();
        other.run_all("default", &mut done).await;
        assert!(sorted(done) == sorted(pushed), "{verb} {when:?}");
    }
}
