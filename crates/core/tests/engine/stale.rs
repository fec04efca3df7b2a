//! Jobs that change between a read and the decision based on it.

use super::fixture::{job, pass};
use duetime_core::api::Timestamp;
use duetime_core::engine::{BulkAction, Options, Outcome, PushOutcome, Query, Stores};
use duetime_core::ports::{Broker, Change, Ledger, Settle};
use duetime_core::rules::Failure;
use duetime_core::testing::fixtures::{again, edit, reserve};
use duetime_core::testing::mortal::{Life, MortalBroker};
use duetime_core::testing::{ModelLedger, TokioClock};
use duetime_core::{Due, Engine, KeyUntil, Memory, NewJob, OnConflict, State};
use std::sync::Arc;
use std::time::Duration;

struct World {
    engine: Engine,
    memory: Arc<Memory>,
    ledger: ModelLedger,
}

/// An engine whose broker calls take as long as this life says.
async fn world(life: &Arc<Life>) -> World {
    let (ledger, clock) = (ModelLedger::default(), Arc::new(TokioClock::new()));
    let memory = Arc::new(Memory::new(clock.clone()));
    let stores = Stores {
        broker: Arc::new(MortalBroker { broker: memory.clone(), life: life.clone() }),
        ..Stores::one_process(clock, Arc::new(ledger.clone()))
    };
    World { engine: Engine::start(stores, Options::default()).await.unwrap(), memory, ledger }
}

impl World {
    async fn push(&self, job: NewJob) -> duetime_core::engine::Pushed {
        self.engine.push(vec![job]).await.unwrap().remove(0).unwrap()
    }
}

/// The read of the ledger found it failed.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_retried_meanwhile_is_not_deleted_among_the_failed() {
    let life = Life::plain();
    let world = world(&life).await;
    for _ in 0..2 {
        world.push(job()).await;
    }
    for lease in world.memory.reserve(reserve("default", 2)).await.unwrap().leases {
        let failed = Outcome::Fail(Failure { is_final: true, ..Failure::default() });
        world.engine.settle(vec![(lease.job.receipt(), failed)]).await.remove(0).unwrap();
    }
    let [retried, deleted] = world.ledger.jobs().try_into().unwrap();
    life.freeze(Duration::from_secs(1));
    let engine = world.engine.clone();
    let query = Query { state: vec![State::Failed].into(), ..Query::default() };
    let bulk = tokio::spawn(async move { engine.bulk(&query, BulkAction::Delete).await });
    pass(Duration::from_millis(500)).await;
    world.ledger.edit(vec![edit(retried.id, Change::RETRY)], world.engine.now(), 0).await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!(bulk.await.unwrap().unwrap(), [("deleted", 1)].into());
    assert_eq!(world.engine.job(retried.id).await.unwrap().state(world.engine.now()), State::Ready);
    assert!(world.engine.job(deleted.id).await.is_err());
}

/// Each job is due as one of them says, or was handed out before: none is lost, and none is handed out twice.
#[tokio::test(start_paused = true)]
async fn found_jobs_are_rescheduled_by_two_at_once_while_they_start() {
    let mut handed_out = 0;
    for seed in 0..50 {
        let world = world(&Life::random(seed, None)).await;
        world.engine.push((0..20).map(|_| job()).collect()).await.unwrap();
        let dues = [60_000, 90_000].map(|ms| world.engine.now() + ms);
        let both = dues.map(|at| {
            let (engine, action) = (world.engine.clone(), BulkAction::Reschedule(Due::At(Timestamp(at))));
            let query = Query { queue: Some("default".into()), ..Query::default() };
            tokio::spawn(async move { engine.bulk(&query, action).await.unwrap() })
        });
        for _ in 0..seed % 20 {
            tokio::task::yield_now().await;
        }
        let first = world.memory.reserve(reserve("default", 3)).await.unwrap().leases;
        handed_out += first.len();
        for bulk in both {
            let counts = bulk.await.unwrap();
            assert!(
                counts.iter().all(|(word, _)| matches!(word, "rescheduled" | "version_mismatch")),
                "{seed}: {counts:?}"
            );
        }
        let now = world.engine.now();
        for row in world.ledger.jobs() {
            let job = world.engine.job(row.id).await.unwrap();
            let is_running = first.iter().any(|lease| lease.job.id == row.id);
            assert!(
                is_running == (job.state(now) == State::Running) && (is_running || dues.contains(&job.due_at.0)),
                "{seed}: {job:?}"
            );
        }
        pass(Duration::from_secs(50)).await;
        assert!(world.memory.reserve(reserve("default", 100)).await.unwrap().leases.is_empty(), "{seed}: early");
        for lease in &first {
            world.engine.settle(vec![(lease.job.receipt(), Outcome::complete(None))]).await;
        }
        pass(Duration::from_secs(50)).await;
        let rest = world.memory.reserve(reserve("default", 100)).await.unwrap().leases;
        assert_eq!(first.len() + rest.len(), 20, "{seed}");
    }
    assert!((1..150).contains(&handed_out), "{handed_out}");
}

/// It released its key when it started. The content that was handed out stays, and the new job is another one.
#[tokio::test(start_paused = true)]
async fn a_job_that_starts_meanwhile_is_not_replaced_by_its_key() {
    let keyed = |payload: &[u8]| NewJob {
        key: Some("k".into()),
        key_until: KeyUntil::Started,
        on_conflict: OnConflict::Replace,
        ..NewJob::new(payload)
    };
    let mut replaced = 0;
    for seed in 0..200 {
        let world = world(&Life::random(seed, None)).await;
        let first = world.push(keyed(b"first")).await.job;
        let engine = world.engine.clone();
        let second = tokio::spawn(async move { engine.push(vec![keyed(b"second")]).await.unwrap().remove(0).unwrap() });
        for _ in 0..seed % 20 {
            tokio::task::yield_now().await;
        }
        let lease = world.memory.reserve(reserve("default", 1)).await.unwrap().leases.remove(0).job;
        tokio::task::yield_now().await;
        let release = Settle::new(lease.receipt(), again(&lease, world.engine.now()));
        world.memory.settle(vec![release]).await.unwrap();
        let outcome = second.await.unwrap().outcome;
        let now = world.engine.job(first.id).await.unwrap();
        assert_eq!(now.payload, lease.payload, "seed {seed}: replaced after it had started");
        assert_eq!(outcome == PushOutcome::Replaced, *lease.payload == *b"second", "seed {seed}");
        replaced += u32::from(outcome == PushOutcome::Replaced);
    }
    assert!((1..200).contains(&replaced), "{replaced}");
}
