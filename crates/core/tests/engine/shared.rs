//! Several engines over one broker and one ledger: each dies at some step, and the broker loses its memory.

mod blurred;
mod degraded;
mod edits;
mod exports;
mod fallback;
mod find;
mod imported_ids;
mod limits;
mod overflow;
mod removal;
mod takes;

use super::fixture::{job, moves_to, pass, request};
use duetime_core::api::Span;
use duetime_core::engine::{CancelOutcome, Options, Outcome, Patch, ReserveRequest, Source, Stores};
use duetime_core::ports::{
    ADOPTED, BROKER, Broker, BrokerClock, COMPARED, Detail, LOADED, Outbox, Put, Registry, Room,
};
use duetime_core::rules::Failure;
use duetime_core::testing::mortal::{Life, MortalBroker, MortalInbox, MortalLedger, MortalLocks, MortalRegistry, When};
use duetime_core::testing::shared::Presence;
use duetime_core::testing::{ModelLedger, Shared, TokioClock};
use duetime_core::{Due, Engine, Error, Job, JobId, KeyUntil, NewJob, Receipt, State};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// State that the engines share.
struct World {
    clock: Arc<TokioClock>,
    broker: Shared,
    ledger: ModelLedger,
    memory_max: Option<u64>,
}

/// An engine that can be killed.
struct Node {
    engine: Engine,
    life: Arc<Life>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(TokioClock::new());
        Self { broker: Shared::new(clock.clone()), ledger: ModelLedger::default(), clock, memory_max: None }
    }

    /// With one engine, which leads and has loaded.
    async fn with_leader() -> (Self, Node) {
        let world = Self::new();
        let leader = world.node().await;
        seconds(8).await;
        assert!(leader.engine.health().is_loaded);
        (world, leader)
    }

    /// With another beside it.
    async fn with_two() -> (Self, Node, Node) {
        let (world, leader) = Self::with_leader().await;
        let other = world.node().await;
        seconds(1).await;
        (world, leader, other)
    }

    async fn node(&self) -> Node {
        let life = Life::plain();
        let options = Options { horizon: Span(60_000), memory_max: self.memory_max, ..Options::default() };
        Node { engine: Engine::start(self.stores(life.clone()), options).await.unwrap(), life }
    }

    fn stores(&self, life: Arc<Life>) -> Stores {
        let (broker, ledger) = (Arc::new(self.broker.clone()), Arc::new(self.ledger.clone()));
        Stores {
            broker: Arc::new(MortalBroker { broker: broker.clone(), life: life.clone() }),
            ledger: Arc::new(MortalLedger { ledger: ledger.clone(), life: life.clone() }),
            reports: ledger.clone(),
            leases: None,
            inbox: Some(Arc::new(MortalInbox { inbox: ledger.clone(), life: life.clone() })),
            registry: Arc::new(MortalRegistry { registry: ledger, life: life.clone() }),
            locks: Arc::new(MortalLocks { locks: broker, life }),
            events: None,
        }
    }

    fn row(&self, id: JobId) -> Job {
        self.ledger.jobs().into_iter().find(|job| job.id == id).expect("it is recorded")
    }

    async fn held(&self, id: JobId) -> Option<Job> {
        self.broker.memory().get(&[id], Detail::Whole).await.unwrap().pop().unwrap()
    }

    /// Whether this document names the current incarnation of the broker.
    async fn is(&self, document: &str) -> bool {
        let known = self.ledger.document(BROKER, document).await.unwrap();
        known.is_some_and(|document| document.body == self.broker.incarnation_now())
    }

    /// The broker falls back to its copy, which takes a moment.
    async fn fall_back(&self) {
        pass(Duration::from_millis(5)).await;
        assert!(self.broker.fall_back());
        pass(Duration::from_millis(5)).await;
    }

    async fn flush(&self) {
        pass(Duration::from_millis(5)).await;
        self.broker.flush();
        pass(Duration::from_millis(5)).await;
    }
}

impl Node {
    async fn push(&self, job: NewJob) -> Job {
        self.engine.push(vec![job]).await.unwrap().pop().unwrap().unwrap().job
    }

    /// Pushes one job, and never sees the answer.
    async fn push_unheard(&self, job: NewJob) {
        let engine = self.engine.clone();
        tokio::spawn(async move { engine.push(vec![job]).await });
        pass(Duration::from_millis(1)).await;
        assert!(self.life.is_over());
    }

    async fn leases(&self) -> Vec<Job> {
        let from = Source::Queues(vec!["default".into(), "first".into()]);
        let reservation = self.engine.reserve(ReserveRequest { from, ..request(10, Duration::ZERO) }).await.unwrap();
        reservation.leases.into_iter().map(|lease| lease.job).collect()
    }

    async fn lease(&self) -> Job {
        let mut leases = self.leases().await;
        assert_eq!(leases.len(), 1);
        leases.remove(0)
    }

    /// Crashes that this engine has counted.
    fn crashes(&self) -> u64 {
        let queues = self.engine.metrics().queues();
        queues.iter().map(|(_, queue)| queue.attempts_crashed.load(Ordering::Relaxed)).sum()
    }

    async fn settle(&self, receipt: Receipt, outcome: Outcome) -> Result<State, Error> {
        let settled = self.engine.settle(vec![(receipt, outcome)]).await.pop().unwrap();
        settled.map(|settlement| settlement.state)
    }

    async fn complete(&self, receipt: Receipt) -> Result<State, Error> {
        self.settle(receipt, DONE).await
    }

    async fn settle_unheard(&self, receipt: Receipt, outcome: Outcome) {
        let engine = self.engine.clone();
        tokio::spawn(async move { engine.settle(vec![(receipt, outcome)]).await });
        pass(Duration::from_millis(1)).await;
        assert!(self.life.is_over());
    }

    async fn cancel(&self, id: JobId) -> CancelOutcome {
        self.engine.cancel(vec![id.into()]).await.pop().unwrap().unwrap()
    }
}

const DONE: Outcome = Outcome::complete(None);

/// In small steps, as tasks would take it.
async fn seconds(count: u64) {
    for _ in 0..count * 20 {
        pass(Duration::from_millis(50)).await;
    }
}

/// Beyond the horizon, and the step by which that moves.
const FAR_MS: u64 = 15 * 60_000;

fn far() -> NewJob {
    NewJob { due: Due::After(Span(FAR_MS)), ..job() }
}

#[tokio::test(start_paused = true)]
async fn a_push_that_dies_before_its_record_is_nothing() {
    let (world, _leader, other) = World::with_two().await;
    other.life.die_at("record", When::Before);
    other.push_unheard(job()).await;
    seconds(60).await;
    assert!(world.ledger.jobs().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_recorded_and_not_put_is_put_by_the_audit() {
    for (verb, when) in [("record", When::After), ("put", When::Before)] {
        let (world, leader, other) = World::with_two().await;
        other.life.die_at(verb, when);
        other.push_unheard(job()).await;
        assert!(leader.leases().await.is_empty());
        seconds(30).await;
        assert_eq!(leader.leases().await.len(), 1, "{verb}");
        assert_eq!(world.broker.new_puts(), 1);
    }
}

/// The repeat is acknowledged, so the job must be in the broker.
#[tokio::test(start_paused = true)]
async fn a_push_that_is_repeated_is_put_once_whenever_its_first_server_died() {
    for (verb, when) in [("record", When::Before), ("record", When::After), ("put", When::Before), ("put", When::After)]
    {
        let (world, leader, other) = World::with_two().await;
        let job = || NewJob { origin: Some("o".into()), ..job() };
        other.life.die_at(verb, when);
        other.push_unheard(job()).await;
        let pushed = leader.push(job()).await;
        seconds(2).await;
        assert_eq!(leader.lease().await.id, pushed.id, "{verb}");
        assert_eq!((world.broker.new_puts(), world.ledger.jobs().len()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_whose_answer_is_lost_is_put_once() {
    let (world, leader, other) = World::with_two().await;
    other.life.die_at("put", When::After);
    other.push_unheard(job()).await;
    let lease = leader.lease().await;
    assert_eq!(leader.complete(lease.receipt()).await, Ok(State::Succeeded));
    seconds(60).await;
    assert!(leader.leases().await.is_empty());
    assert_eq!(world.broker.new_puts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_comes_near_is_put_once_whoever_dies() {
    for dies_at in [None, Some(("put", When::Before)), Some(("put", When::After)), Some(("loaded", When::Before))] {
        let (world, leader, other) = World::with_two().await;
        let pushed = other.push(far()).await;
        assert_eq!(world.held(pushed.id).await, None);
        if let Some((verb, when)) = dies_at {
            leader.life.die_at(verb, when);
        }
        tokio::time::sleep(Duration::from_millis(FAR_MS + 10)).await;
        assert_eq!(leader.life.is_over(), dies_at.is_some());
        let lease = other.lease().await;
        assert_eq!((lease.id, world.broker.new_puts()), (pushed.id, 1), "{dies_at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_leads_within_five_seconds() {
    let (world, leader, other) = World::with_two().await;
    leader.life.die();
    world.flush().await;
    let pushed = other.push(job()).await;
    assert_eq!(other.lease().await.id, pushed.id, "pushes and reserves go on");
    let far = other.push(far()).await;
    let due = Patch { due: Some(Due::After(Span(1_000))), ..Patch::default() };
    other.engine.update(far.id.into(), due).await.unwrap();
    seconds(5).await;
    assert!(world.is(LOADED).await);
    assert_eq!(other.lease().await.id, far.id);
}

#[tokio::test(start_paused = true)]
async fn an_emptied_broker_has_all_again_within_two_seconds() {
    let (world, leader, other) = World::with_two().await;
    let near = [0, 1_500, 30_000].map(|ms| NewJob { due: Due::After(Span(ms)), ..job() });
    let pushed = other.engine.push(near.to_vec()).await.unwrap();
    let far = other.push(far()).await;
    world.flush().await;
    seconds(2).await;
    assert!(world.is(ADOPTED).await && world.is(LOADED).await);
    for pushed in pushed {
        assert!(world.held(pushed.unwrap().job.id).await.is_some());
    }
    assert_eq!(world.held(far.id).await, None);
    assert_eq!(leader.leases().await.len(), 2);
    seconds(7).await;
    assert!(world.is(COMPARED).await);
}

#[tokio::test(start_paused = true)]
async fn a_receipt_from_before_a_flush_is_refused_and_numbers_go_on() {
    let (world, leader, other) = World::with_two().await;
    other.push(job()).await;
    let before = other.lease().await;
    world.flush().await;
    assert_eq!(other.complete(before.receipt()).await, Err(Error::LeaseLost(before.receipt())));
    seconds(2).await;
    let after = leader.lease().await;
    assert!(after.id == before.id && after.epoch > before.epoch && after.version > before.version);
    assert_eq!(other.complete(before.receipt()).await, Err(Error::LeaseLost(before.receipt())));
    assert_eq!(other.complete(after.receipt()).await, Ok(State::Succeeded));
}

/// The ledger knows that its worker was asked to stop, and no leases.
#[tokio::test(start_paused = true)]
async fn a_running_job_that_is_cancelled_does_not_run_again_after_a_flush_or_a_failover() {
    for falls_back in [false, true] {
        let (world, leader, other) = World::with_two().await;
        let pushed = other.push(job()).await;
        let receipt = other.lease().await.receipt();
        pass(Duration::from_millis(5)).await;
        world.broker.copy();
        assert_eq!(other.cancel(pushed.id).await, CancelOutcome::CancelRequested);
        if falls_back {
            world.fall_back().await;
        } else {
            world.flush().await;
        }
        for _ in 0..100 {
            assert!(leader.leases().await.is_empty(), "it falls back: {falls_back}");
            pass(Duration::from_millis(50)).await;
        }
        let row = world.row(pushed.id);
        assert_eq!((row.state(0), row.crashes, row.errors), (State::Cancelled, 0, Vec::new()), "{falls_back}");
        assert_eq!(leader.crashes() + other.crashes(), 0);
        assert_eq!(other.complete(receipt).await, Err(Error::LeaseLost(receipt)));
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_only_a_silent_ledger_may_know_holds_up_no_other_for_long() {
    let (_world, _leader, other) = World::with_two().await;
    other.push(job()).await;
    let known = other.lease().await.receipt();
    let unknown = Receipt { id: other.push(job()).await.id, epoch: 7 };
    other.life.freeze_at("get", When::Before, Duration::from_secs(60));
    let settle = other.engine.settle(vec![(unknown, DONE), (known, DONE)]);
    let answers = tokio::time::timeout(Duration::from_secs(6), settle).await.expect("within 5 s");
    let codes: Vec<_> =
        answers.into_iter().map(|answer| answer.map(|end| end.state).map_err(|error| error.code())).collect();
    assert_eq!(codes, [Err("store_unavailable"), Ok(State::Succeeded)]);
}

#[tokio::test(start_paused = true)]
async fn a_settle_that_was_recorded_and_not_forgotten_is_forgotten_by_the_leader() {
    for (verb, when) in
        [("settle", When::After), ("apply", When::Before), ("apply", When::After), ("forget", When::Before)]
    {
        let (world, leader, other) = World::with_two().await;
        other.push(job()).await;
        let lease = other.lease().await;
        other.life.die_at(verb, when);
        other.settle_unheard(lease.receipt(), DONE).await;
        assert_eq!(world.broker.backlog(), 1);
        seconds(5).await;
        assert_eq!((world.broker.backlog(), world.row(lease.id).state(0)), (0, State::Succeeded), "{verb} {when:?}");
        assert_eq!(leader.complete(lease.receipt()).await, Ok(State::Succeeded), "it is answered again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_in_another_queue_is_put_however_its_maker_dies() {
    for (verb, when) in [("apply", When::After), ("put", When::Before), ("put", When::After), ("forget", When::Before)]
    {
        let (world, leader, other) = World::with_two().await;
        other.push(moves_to("default")).await;
        let lease = other.lease().await;
        other.life.die_at(verb, when);
        other
            .settle_unheard(lease.receipt(), Outcome::Fail(Failure { message: "no".into(), ..Failure::default() }))
            .await;
        seconds(5).await;
        let copy = leader.lease().await;
        assert_ne!(copy.id, lease.id);
        assert_eq!(leader.complete(copy.receipt()).await, Ok(State::Succeeded));
        seconds(60).await;
        assert!(leader.leases().await.is_empty(), "{verb} {when:?}");
        assert_eq!(world.broker.backlog(), 0);
    }
}

/// The entry that brought the copy may come back with a failover, and so may one that nobody forgot.
#[tokio::test(start_paused = true)]
async fn a_copy_that_has_run_is_not_put_again() {
    let (world, leader, other) = World::with_two().await;
    other.push(moves_to("default")).await;
    let lease = other.lease().await;
    leader.life.freeze(Duration::from_secs(2));
    other.life.die_at("put", When::After);
    other.settle_unheard(lease.receipt(), Outcome::Fail(Failure { message: "no".into(), ..Failure::default() })).await;
    let third = world.node().await;
    world.broker.copy();
    let copy = third.lease().await;
    third.complete(copy.receipt()).await.unwrap();
    pass(Duration::from_millis(50)).await;
    assert_eq!(world.row(copy.id).state(0), State::Succeeded);
    world.fall_back().await;
    seconds(60).await;
    assert!(third.leases().await.is_empty());
    assert_eq!((world.broker.backlog(), world.row(copy.id).state(0)), (0, State::Succeeded));
}

/// Jobs that a failover brought back are removed, both waiting and running ones.
#[tokio::test(start_paused = true)]
async fn what_is_recorded_as_ended_is_fenced_after_a_failover() {
    let (world, leader, other) = World::with_two().await;
    let done = other.push(job()).await;
    let running = other.lease().await;
    let cancelled = other.push(NewJob { due: Due::After(Span(60_000)), ..job() }).await;
    let removed = other.push(NewJob { due: Due::After(Span(60_000)), ..job() }).await;
    world.broker.copy();
    other.complete(running.receipt()).await.unwrap();
    assert_eq!(other.cancel(cancelled.id).await, CancelOutcome::Cancelled);
    other.engine.delete(vec![removed.id.into()]).await.pop().unwrap().unwrap();
    pass(Duration::from_millis(50)).await;
    world.fall_back().await;
    for id in [done.id, cancelled.id, removed.id] {
        assert!(world.held(id).await.is_some(), "it is as it was");
    }
    seconds(2).await;
    for id in [done.id, cancelled.id, removed.id] {
        assert_eq!(world.held(id).await, None);
    }
    seconds(120).await;
    assert!(leader.leases().await.is_empty());
    assert_eq!(world.row(done.id).state(0), State::Succeeded);
    assert_eq!(world.row(cancelled.id).state(0), State::Cancelled);
    assert_eq!(world.ledger.jobs().len(), 2);
}

/// A failover forgets the tombstone, and the reading is young enough by any clock.
#[tokio::test(start_paused = true)]
async fn a_reading_from_before_a_failover_is_refused() {
    let (world, leader, other) = World::with_two().await;
    world.broker.copy();
    let reading = world.broker.reading();
    let pushed = other.push(NewJob { due: Due::After(Span(30_000)), ..job() }).await;
    assert_eq!(other.cancel(pushed.id).await, CancelOutcome::Cancelled);
    world.fall_back().await;
    seconds(2).await;
    assert!(world.is(LOADED).await && !world.is(COMPARED).await);
    assert_eq!(world.broker.put(vec![pushed.clone()], reading, Room::Any).await.unwrap(), [Put::Stale]);
    seconds(7).await;
    assert!(world.is(COMPARED).await);
    assert_eq!(world.held(pushed.id).await, None);
    seconds(30).await;
    assert!(leader.leases().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_update_outlives_a_failover() {
    let (world, leader, other) = World::with_two().await;
    let pushed = other.push(NewJob { due: Due::After(Span(3_000)), ..job() }).await;
    world.broker.copy();
    let patch = Patch { due: Some(Due::After(Span(20_000))), payload: Some((*b"new").into()), ..Patch::default() };
    other.engine.update(pushed.id.into(), patch).await.unwrap();
    world.fall_back().await;
    seconds(4).await;
    assert!(leader.leases().await.is_empty());
    seconds(17).await;
    assert_eq!(&*leader.lease().await.payload, b"new");
}

#[tokio::test(start_paused = true)]
async fn a_push_without_the_broker_is_taken_and_runs_once_it_is_back() {
    for presence in [Presence::Away, Presence::Mute, Presence::Stalled] {
        let (world, leader, other) = World::with_two().await;
        world.broker.set_presence(presence);
        let started = tokio::time::Instant::now();
        let pushed = other.push(job()).await;
        assert!(started.elapsed() <= Duration::from_millis(1_100));
        seconds(5).await;
        world.broker.set_presence(Presence::There);
        seconds(2).await;
        assert_eq!(leader.lease().await.id, pushed.id);
        assert_eq!(world.broker.new_puts(), 1);
    }
}

/// Jobs that the broker did not take are left to the loader as soon as the ledger is available, too.
#[tokio::test(start_paused = true)]
async fn what_could_not_be_left_to_the_loader_is_later() {
    let (world, leader, other) = World::with_two().await;
    world.broker.set_presence(Presence::Stalled);
    let engine = other.engine.clone();
    let push = tokio::spawn(async move { engine.push(vec![job()]).await });
    pass(Duration::from_millis(50)).await;
    world.ledger.set_away(true);
    seconds(2).await;
    assert_eq!(push.await.unwrap().unwrap_err().code(), "store_unavailable");
    world.broker.set_presence(Presence::There);
    world.ledger.set_away(false);
    // It does not lead next.
    other.life.freeze(Duration::from_secs(1));
    seconds(2).await;
    assert_eq!(leader.leases().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_ledger_pushes_are_refused_and_workers_go_on() {
    let (world, leader, other) = World::with_two().await;
    for _ in 0..2 {
        other.push(job()).await;
    }
    world.ledger.set_away(true);
    assert_eq!(other.engine.push(vec![job()]).await.unwrap_err().code(), "store_unavailable");
    let leases = leader.leases().await;
    assert_eq!(leases.len(), 2);
    for lease in &leases {
        assert_eq!(other.complete(lease.receipt()).await, Ok(State::Succeeded));
    }
    seconds(10).await;
    world.ledger.set_away(false);
    seconds(5).await;
    assert!(leases.iter().all(|lease| world.row(lease.id).state(0) == State::Succeeded));
    assert_eq!(world.broker.backlog(), 0);
}

/// It has stood still while another took over.
#[tokio::test(start_paused = true)]
async fn a_leader_that_comes_back_adopts_nothing_for_good() {
    let (world, leader, _other) = World::with_two().await;
    world.flush().await;
    leader.life.die_at("never", When::Before);
    leader.life.freeze(Duration::from_secs(10));
    seconds(9).await;
    // The last write of an earlier leader.
    let adopted = world.ledger.document(BROKER, ADOPTED).await.unwrap().unwrap();
    world.ledger.put_if(BROKER, ADOPTED, "memory 1", adopted.version).await.unwrap();
    seconds(9).await;
    assert!(world.is(ADOPTED).await && world.is(LOADED).await && world.is(COMPARED).await);
}

/// Pushed by an engine that is not the leader, when all are old.
#[tokio::test(start_paused = true)]
async fn engines_that_do_not_lead_put_what_they_push() {
    let (world, _leader, other) = World::with_two().await;
    tokio::time::sleep(Duration::from_secs(25 * 60)).await;
    let pushed = other.push(job()).await;
    assert!(world.held(pushed.id).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_key_has_one_job_over_a_flush_and_a_failover() {
    let (world, leader, other) = World::with_two().await;
    let keyed = || NewJob { key: Some("k".into()), key_until: KeyUntil::Finished, ..job() };
    let first = other.push(keyed()).await;
    world.flush().await;
    assert_eq!(leader.push(keyed()).await.id, first.id);
    seconds(2).await;
    let lease = leader.lease().await;
    world.broker.copy();
    leader.complete(lease.receipt()).await.unwrap();
    pass(Duration::from_millis(50)).await;
    let second = other.push(keyed()).await;
    assert_ne!(second.id, first.id);
    world.fall_back().await;
    seconds(3).await;
    assert_eq!(leader.lease().await.id, second.id, "the first one, which is over, keeps it from nobody");
}
