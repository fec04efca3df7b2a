//! More jobs than there is memory for, of a broker that several processes share.

use super::{DONE, Node, World, seconds};
use crate::engine::fixture::{job, moves_to, request};
use duetime_core::engine::{Outcome, Precondition, ReserveRequest, Source};
use duetime_core::json::{Span, Timestamp};
use duetime_core::ports::{Broker, InboxRow, Queues};
use duetime_core::rules::Failure;
use duetime_core::testing::mortal::When;
use duetime_core::{Job, JobId, KeyUntil, NewJob, Schedule, Timing};
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

/// While its queue has an overflow, a new job waits behind the older ones there, whoever made it.
#[tokio::test(start_paused = true)]
async fn no_producer_overtakes_what_waits_in_the_ledger() {
    const PRODUCERS: [&str; 10] =
        ["one", "many", "conflict", "repeat", "tick", "run", "import", "inbox", "moved", "retried"];
    let (world, leader, _other) = bounded().await;
    let engine = &leader.engine;
    let new = |kind: &str| NewJob { kind: kind.into(), ..job() };
    let elsewhere = |kind: &str| NewJob { queue: "first".into(), ..new(kind) };
    let (key, origin) = (Some("k".into()), Some("o".into()));

    // Made before, in a queue without an overflow or while this one had none.
    let keyed = NewJob { key, key_until: KeyUntil::Started, ..job() };
    let holder = leader.push(keyed.clone()).await;
    leader.lease().await;
    let failing = NewJob { options: moves_to("default").options, ..elsewhere("moved") };
    let moving = leader.push(failing).await;
    let retried = leader.push(new("retried")).await;
    let leased = leader.leases().await;
    assert_eq!(leased.len(), 2);
    let receipt = |id: JobId| leased.iter().find(|job| job.id == id).unwrap().receipt();
    leader.complete(receipt(retried.id)).await.unwrap();

    let older = leader.push_to("default", 1_000).await;
    let schedule = |kind: &str| Schedule::new(Timing::Every(Span(3_600_000)), new(kind));
    engine.set_schedule("run", schedule("run")).await.unwrap();
    let soon = Schedule { start: Some(Timestamp(engine.now() + 5_000)), ..schedule("tick") };
    engine.set_schedule("tick", soon).await.unwrap();
    seconds(1).await;
    // From now on nothing is loaded, though there is room.
    leader.life.mute(Some("overflow"));
    for _ in 0..6 {
        for leased in leader.leases().await {
            leader.complete(leased.receipt()).await.unwrap();
        }
    }
    let recorded = || engine.metrics().stores.record.counts().iter().sum::<u64>();
    let before = recorded();

    leader.push(new("one")).await;
    engine.push(vec![new("many"); 3]).await.unwrap();
    assert_ne!(leader.push(NewJob { kind: "conflict".into(), ..keyed }).await.id, holder.id);
    let repeated = NewJob { origin, ..new("repeat") };
    leader.push(repeated.clone()).await;
    leader.push(repeated).await;
    engine.run_schedule("run", None, Precondition::Anything).await.unwrap();
    let imported = JobId::new(retried.id.get() - (1 << 40)).unwrap();
    let imported = Job { id: imported, kind: "import".into(), due_at: Timestamp(engine.now()), ..retried.clone() };
    for _ in 0..2 {
        engine.import(vec![imported.clone()]).await.unwrap().remove(0).unwrap();
    }
    let row = InboxRow { queue: "default".into(), kind: "inbox".into(), ..InboxRow::default() };
    world.ledger.insert(row);
    let failure = Failure { message: "no".into(), is_final: true, retry_after: None };
    leader.settle(receipt(moving.id), Outcome::Fail(failure)).await.unwrap();
    engine.retry(vec![retried.id.into()]).await.remove(0).unwrap();
    seconds(7).await;

    let of = |kind: &str| {
        world
            .ledger
            .jobs()
            .into_iter()
            .filter(move |job| (&*job.kind, &*job.queue) == (kind, "default") && job.is_pending())
            .collect::<Vec<_>>()
    };
    for kind in PRODUCERS {
        assert!(!of(kind).is_empty(), "{kind}");
        for job in of(kind) {
            assert_eq!(world.held(job.id).await, None, "{kind}");
        }
    }
    // Each once, and the conflict, the repeat and the import once more. The move is recorded with its settlement, the retry by
    // its edit.
    assert_eq!(recorded() - before, 11);

    leader.life.mute(None);
    let mut done = Vec::new();
    leader.run_all("default", &mut done).await;
    let first = done.iter().position(|id| !older.contains(id)).unwrap();
    assert!(done.len() - first <= 12 + ROOM_JOBS as usize, "{first} of {}", done.len());
}
