//! Schedules: one job a tick, whichever process dies.

use super::fixture::{Bench, job, pass};
use duetime_core::api::Span;
use duetime_core::engine::{Options, Outcome, Stores};
use duetime_core::json::Timestamp;
use duetime_core::limits::{HOUR_MS, MINUTE_MS, SECOND_MS};
use duetime_core::ports::{Broker, Detail, PutIf, Queues, Registry};
use duetime_core::schedule::{LastTick, TickOutcome, tag};
use duetime_core::testing::mortal::{Life, MortalBroker, MortalInbox, MortalLedger, MortalLocks, MortalRegistry, When};
use duetime_core::testing::{ModelLedger, Random, Shared, TokioClock};
use duetime_core::{Clock, Due, Engine, Job, Millis, Missed, NewJob, OnConflict, Overlap, Schedule, Timing};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// In small steps, as tasks would take it.
pub(super) async fn seconds(count: u64) {
    for _ in 0..count * 10 {
        pass(Duration::from_millis(100)).await;
    }
}

pub(super) fn every(ms: u64) -> Schedule {
    Schedule::new(Timing::Every(Span(ms)), job())
}

/// The jobs of a schedule, by when they were first due.
pub(super) fn pushed(ledger: &ModelLedger, name: &str) -> BTreeMap<Millis, Vec<Job>> {
    let mut by_tick: BTreeMap<Millis, Vec<Job>> = BTreeMap::new();
    for job in ledger.jobs().into_iter().filter(|job| job.tags.contains(&tag(name))) {
        by_tick.entry(job.first_due_at.0).or_default().push(job);
    }
    by_tick
}

/// When jobs were pushed, each tick having one.
pub(super) fn ticks(ledger: &ModelLedger, name: &str) -> Vec<Millis> {
    let pushed = pushed(ledger, name);
    assert!(pushed.values().all(|jobs| jobs.len() == 1), "{pushed:?}");
    pushed.into_keys().collect()
}

impl Bench {
    async fn last(&self, name: &str) -> LastTick {
        self.engine.schedule(name).await.unwrap().last.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn each_tick_pushes_a_job_that_is_due_then() {
    let bench = Bench::new().await;
    let t0 = bench.clock.wall();
    let set = bench.engine.set_schedule("s", every(10_000)).await.unwrap();
    assert_eq!(set.next, (1..=10).map(|n| Timestamp(t0 + n * 10_000)).collect::<Vec<_>>());
    seconds(7).await;
    assert!(ticks(&bench.ledger, "s").is_empty());
    // A little ahead, and not handed out before its time.
    seconds(2).await;
    assert_eq!(ticks(&bench.ledger, "s"), [t0 + 10_000]);
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    seconds(1).await;
    let lease = bench.lease().await;
    assert_eq!((lease.job.due_at, &lease.job.tags[..]), (Timestamp(t0 + 10_000), &[tag("s")][..]));
    seconds(20).await;
    assert_eq!(ticks(&bench.ledger, "s"), [t0 + 10_000, t0 + 20_000, t0 + 30_000]);
    let last = bench.last("s").await;
    assert_eq!((last.at, last.outcome), (Timestamp(t0 + 30_000), TickOutcome::Pushed));
    assert_eq!(bench.engine.schedule("s").await.unwrap().version, set.version);
}

#[tokio::test(start_paused = true)]
async fn a_change_counts_from_now_unless_the_times_stay() {
    let bench = Bench::new().await;
    let t0 = bench.clock.wall();
    let first = bench.engine.set_schedule("s", every(60_000)).await.unwrap();
    seconds(30).await;
    let same = bench.engine.set_schedule("s", every(60_000)).await.unwrap();
    assert_eq!((same.version, &same.next), (first.version, &first.next));
    let other_job = Schedule { job: NewJob::new(*b"other"), ..every(60_000) };
    let changed = bench.engine.set_schedule("s", other_job.clone()).await.unwrap();
    assert!(changed.version > first.version);
    assert_eq!(changed.next, first.next);
    let previewed = bench.engine.preview_schedule("s", every(40_000)).await.unwrap();
    assert_eq!(previewed.next[0], Timestamp(t0 + 70_000));
    assert_eq!(bench.engine.schedule("s").await.unwrap(), changed);
    let moved = bench.engine.set_schedule("s", every(40_000)).await.unwrap();
    assert_eq!(moved.next[0], Timestamp(t0 + 70_000));
    seconds(41).await;
    assert_eq!(ticks(&bench.ledger, "s"), [t0 + 70_000]);
    bench.engine.delete_schedule("s").await.unwrap();
    assert_eq!(bench.engine.delete_schedule("s").await.unwrap_err().code(), "schedule_not_found");
    assert_eq!(bench.engine.schedule("s").await.unwrap_err().code(), "schedule_not_found");
    seconds(60).await;
    assert_eq!(ticks(&bench.ledger, "s"), [t0 + 70_000]);
}

#[tokio::test(start_paused = true)]
async fn nothing_ticks_after_the_end() {
    let bench = Bench::new().await;
    let t0 = bench.clock.wall();
    let bounded = Schedule { start: Some(Timestamp(t0 + 5_000)), end: Some(Timestamp(t0 + 9_000)), ..every(2_000) };
    let set = bench.engine.set_schedule("s", bounded).await.unwrap();
    assert_eq!(set.next, [t0 + 5_000, t0 + 7_000, t0 + 9_000].map(Timestamp));
    seconds(20).await;
    assert_eq!(ticks(&bench.ledger, "s").into_iter().map(Timestamp).collect::<Vec<_>>(), set.next);
    assert!(bench.engine.schedule("s").await.unwrap().next.is_empty());
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_are_skipped_or_pushed_once() {
    let (world, node) = World::with_one().await;
    let t0 = world.clock.wall();
    let minutely = |missed| Schedule { missed, ..every(MINUTE_MS) };
    node.engine.set_schedule("once", minutely(Missed::Once)).await.unwrap();
    node.engine.set_schedule("skip", minutely(Missed::Skip)).await.unwrap();
    let node = world.another(&node, HOUR_MS + 10 * SECOND_MS).await;
    let (last, next) = (t0 + HOUR_MS, t0 + HOUR_MS + MINUTE_MS);
    assert_eq!(ticks(&world.ledger, "once"), [last]);
    assert!(ticks(&world.ledger, "skip").is_empty(), "also the last one, which is only 10 s late, came due in the gap");
    seconds(60).await;
    assert_eq!(ticks(&world.ledger, "once"), [last, next]);
    assert_eq!(ticks(&world.ledger, "skip"), [next]);

    let t1 = world.clock.wall();
    node.engine.set_schedule("hourly", Schedule { missed: Missed::Skip, ..every(HOUR_MS) }).await.unwrap();
    let node = world.another(&node, 2 * HOUR_MS + 2 * MINUTE_MS).await;
    assert!(ticks(&world.ledger, "hourly").is_empty());
    assert_eq!(node.engine.schedule("hourly").await.unwrap().next[0], Timestamp(t1 + 3 * HOUR_MS));
}

#[tokio::test(start_paused = true)]
async fn a_short_absence_loses_no_tick() {
    for missed in [Missed::Once, Missed::Skip] {
        let (world, node) = World::with_one().await;
        let t0 = world.clock.wall();
        node.engine.set_schedule("s", Schedule { missed, ..every(HOUR_MS) }).await.unwrap();
        seconds(30).await;
        world.another(&node, HOUR_MS).await;
        assert_eq!(ticks(&world.ledger, "s"), [t0 + HOUR_MS], "{missed:?}");
    }
}

/// A suspended process finds that the clock has jumped ahead.
#[tokio::test(start_paused = true)]
async fn a_suspended_process_makes_up_for_one_tick_at_most() {
    let cron = Schedule::cron("*/2 * * * * *", "UTC", job());
    for timing in [every(2_000).timing, cron.timing] {
        for overlap in [Overlap::Allow, Overlap::Skip] {
            for (missed, made_up) in [(Missed::Once, 1), (Missed::Skip, 0)] {
                let bench = Bench::new().await;
                let schedule = Schedule { missed, overlap, timing: timing.clone(), ..every(2_000) };
                bench.engine.set_schedule("s", schedule).await.unwrap();
                seconds(9).await;
                for lease in bench.reserve(10, Duration::ZERO).await {
                    bench.complete(&lease).await.unwrap();
                }
                let before = ticks(&bench.ledger, "s");
                bench.clock.step_wall(75_000);
                let woken = bench.clock.wall();
                pass(Duration::from_millis(500)).await;
                let pushed = ticks(&bench.ledger, "s");
                let of_gap = pushed.iter().filter(|at| !before.contains(at) && **at <= woken).count();
                let what = format!("{timing:?} {overlap:?} {missed:?}, woken at {woken}: {pushed:?}");
                assert_eq!(of_gap, made_up, "{what}");
                seconds(10).await;
                assert!(bench.last("s").await.at > Timestamp(woken), "it goes on: {what}");
            }
        }
    }
}

/// One that was imported, or set again after it was deleted, finds by their tag the jobs that it had pushed.
#[tokio::test(start_paused = true)]
async fn what_was_pushed_before_a_schedule_was_set_overlaps_too() {
    let bench = Bench::new().await;
    let t0 = bench.clock.wall();
    bench.push(NewJob { tags: vec![tag("s")], ..job() }).await;
    let imported = bench.lease().await;
    bench.engine.set_schedule("s", Schedule { overlap: Overlap::Skip, ..every(10_000) }).await.unwrap();
    for n in 1..=2 {
        seconds(10).await;
        bench.engine.extend(vec![(imported.job.receipt(), None)]).await.remove(0).unwrap();
        assert_eq!(
            bench.last("s").await,
            LastTick { at: Timestamp(t0 + n * 10_000), outcome: TickOutcome::Overlap, job: None }
        );
    }
    bench.complete(&imported).await.unwrap();
    seconds(10).await;
    assert_eq!(bench.last("s").await.outcome, TickOutcome::Pushed);
}

#[tokio::test(start_paused = true)]
async fn a_tick_may_wait_for_the_job_before() {
    let bench = Bench::new().await;
    let t0 = bench.clock.wall();
    bench.engine.set_schedule("s", Schedule { overlap: Overlap::Skip, ..every(10_000) }).await.unwrap();
    seconds(11).await;
    let lease = bench.lease().await;
    seconds(10).await;
    assert_eq!(ticks(&bench.ledger, "s"), [t0 + 10_000]);
    assert_eq!(
        bench.last("s").await,
        LastTick { at: Timestamp(t0 + 20_000), outcome: TickOutcome::Overlap, job: Some(lease.job.id) }
    );
    bench.complete(&lease).await.unwrap();
    seconds(10).await;
    assert_eq!(ticks(&bench.ledger, "s"), [t0 + 10_000, t0 + 30_000]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_held_is_kept_replaced_or_a_conflict() {
    let bench = Bench::new().await;
    let held = |queue: &str, on_conflict| {
        let job = NewJob { queue: queue.into(), key: Some("k".into()), on_conflict, ..job() };
        Schedule { job, ..every(10_000) }
    };
    let mut holders = Vec::new();
    for (queue, on_conflict) in
        [("keep", OnConflict::Keep), ("replace", OnConflict::Replace), ("reject", OnConflict::Reject)]
    {
        let holder = NewJob { queue: queue.into(), key: Some("k".into()), due: Due::After(Span(HOUR_MS / 2)), ..job() };
        holders.push(bench.push(holder).await.id);
        bench.engine.set_schedule(queue, held(queue, on_conflict)).await.unwrap();
    }
    seconds(11).await;
    let outcomes = [TickOutcome::Kept, TickOutcome::Replaced, TickOutcome::Conflict];
    for ((queue, outcome), holder) in ["keep", "replace", "reject"].into_iter().zip(outcomes).zip(holders) {
        let last = bench.last(queue).await;
        assert_eq!((last.outcome, last.job), (outcome, Some(holder)), "{queue}");
    }
    assert_eq!(bench.ledger.jobs().len(), 3);
    // The holder that was replaced is due at the tick, and lets go of its key.
    let reservation = bench.engine.reserve(duetime_core::engine::ReserveRequest {
        from: duetime_core::engine::Source::Queues(vec!["replace".into()]),
        ..super::fixture::request(1, Duration::ZERO)
    });
    let lease = reservation.await.unwrap().leases.remove(0);
    bench.settle(&lease, Outcome::complete(None)).await.unwrap();
    seconds(10).await;
    assert_eq!(bench.last("replace").await.outcome, TickOutcome::Pushed);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_schedule_holds_up_no_other() {
    let ledger = ModelLedger::default();
    for body in ["", "{", "{}", "[1]"] {
        let name = format!("damaged{}", body.len());
        assert!(matches!(ledger.put_if("schedule", &name, body, 0).await, Ok(PutIf::Stored(1))));
    }
    let bench = Bench::over(ledger, Arc::new(TokioClock::new())).await;
    bench.engine.set_schedule("right", every(5_000)).await.unwrap();
    seconds(6).await;
    assert_eq!(ticks(&bench.ledger, "right").len(), 1);
    assert_eq!(bench.engine.schedules().await.unwrap().len(), 1);
    assert_eq!(bench.engine.schedule("damaged1").await.unwrap_err().code(), "store_damaged");
    // It can be set again, and deleted.
    bench.engine.set_schedule("damaged1", every(5_000)).await.unwrap();
    bench.engine.delete_schedule("damaged2").await.unwrap();
    seconds(6).await;
    assert_eq!(ticks(&bench.ledger, "damaged1").len(), 1);
}

/// State that the engines share.
pub(super) struct World {
    pub(super) clock: Arc<TokioClock>,
    broker: Shared,
    pub(super) ledger: ModelLedger,
}

pub(super) struct Node {
    pub(super) engine: Engine,
    pub(super) life: Arc<Life>,
}

impl World {
    pub(super) fn new() -> Self {
        let clock = Arc::new(TokioClock::new());
        Self { broker: Shared::new(clock.clone()), ledger: ModelLedger::default(), clock }
    }

    async fn with_one() -> (Self, Node) {
        let world = Self::new();
        let node = world.node(Life::plain()).await;
        (world, node)
    }

    /// This process dies; another one replaces it after this time, with its role.
    async fn another(&self, node: &Node, ms: u64) -> Node {
        node.life.die();
        self.clock.step_wall(ms as i64);
        let another = self.node(Life::plain()).await;
        seconds(5).await;
        another
    }

    pub(super) async fn node(&self, life: Arc<Life>) -> Node {
        let (broker, ledger) = (Arc::new(self.broker.clone()), Arc::new(self.ledger.clone()));
        let stores = Stores {
            broker: Arc::new(MortalBroker { broker: broker.clone(), life: life.clone() }),
            ledger: Arc::new(MortalLedger { ledger: ledger.clone(), life: life.clone() }),
            reports: ledger.clone(),
            leases: None,
            inbox: Some(Arc::new(MortalInbox { inbox: ledger.clone(), life: life.clone() })),
            registry: Arc::new(MortalRegistry { registry: ledger, life: life.clone() }),
            locks: Arc::new(MortalLocks { locks: broker, life: life.clone() }),
            events: None,
        };
        Node { engine: Engine::start(stores, Options::default()).await.unwrap(), life }
    }
}

/// At each step of a tick, before and after.
#[tokio::test(start_paused = true)]
async fn another_carries_through_what_one_began() {
    for verb in ["document", "put_if", "record", "put"] {
        for when in [When::Before, When::After] {
            let world = World::new();
            let (first, second) = (world.node(Life::plain()).await, world.node(Life::plain()).await);
            first.engine.set_schedule("s", every(30_000)).await.unwrap();
            let at = world.clock.wall() + 30_000;
            // Until the leader, which ticks first, has begun.
            seconds(27).await;
            pass(Duration::from_millis(950)).await;
            first.life.die_at(verb, when);
            seconds(3).await;
            assert!(first.life.is_over(), "{verb} {when:?}");
            assert_eq!(ticks(&world.ledger, "s"), [at], "{verb} {when:?}");
            // The audit puts the jobs that are missing.
            seconds(40).await;
            let held =
                world.broker.memory().get(&[pushed(&world.ledger, "s")[&at][0].id], Detail::Whole).await.unwrap();
            assert!(held[0].is_some(), "{verb} {when:?}");
            drop(second);
        }
    }
}

/// The verbs between which a tick goes on, each about as often as the others.
const VERBS: [&str; 6] = ["document", "put_if", "put_if", "record", "put", "allot"];
/// The number of ticks that the fleet makes.
const TICKS: u64 = 200;
/// Long enough that some process is there before the next tick is due: otherwise one is made up for all.
const TICK_MS: u64 = 5_000;
/// A job that was recorded as loaded when all died at once, and whose schedule was then deleted, is put only by the audit: a
/// page in four seconds, and pages have seven rows here. That makes five minutes for all ticks.
const AUDIT_MINUTES: u64 = 6;

#[tokio::test(start_paused = true)]
async fn five_servers_push_one_job_a_tick_whoever_is_killed() {
    let seed = std::env::var("DUETIME_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| u64::from(std::process::id()).wrapping_mul(0x9e37_79b9));
    println!("DUETIME_SEED={seed}");
    let mut random = Random::new(seed);
    let world = World::new();
    let mut nodes = Vec::new();
    for _ in 0..5 {
        nodes.push(Some(world.node(Life::random(random.any(), None)).await));
    }
    let nightly = Schedule { start: Some(Timestamp(world.clock.wall() + TICK_MS)), ..every(TICK_MS) };
    let first = nodes[0].as_ref().unwrap();
    let start = first.engine.set_schedule("nightly", nightly).await.unwrap().next[0];
    let end = start.0 + TICKS * TICK_MS;
    let mut kills = 0;
    while world.clock.wall() < end {
        for place in &mut nodes {
            match place {
                Some(node) if node.life.is_over() => {
                    kills += 1;
                    *place = None;
                }
                Some(node) if random.percent(4) => {
                    let when = *random.of(&[When::Before, When::After]);
                    node.life.die_at(random.of::<&'static str>(&VERBS), when);
                }
                None if random.percent(10) => *place = Some(world.node(Life::random(random.any(), None)).await),
                _ => {}
            }
        }
        pass(Duration::from_millis(random.within(100..400))).await;
    }
    nodes.iter().flatten().for_each(|node| node.life.die());
    let last = world.node(Life::plain()).await;
    last.engine.delete_schedule("nightly").await.unwrap();
    seconds(90).await;
    assert!(kills > 250, "seed {seed}: {kills} kills");
    let pushed = pushed(&world.ledger, "nightly");
    let twice: Vec<_> = pushed.iter().filter(|(_, jobs)| jobs.len() != 1).collect();
    assert!(twice.is_empty(), "seed {seed}: {twice:?}");
    let expected: Vec<Millis> = (0..TICKS).map(|n| start.0 + n * TICK_MS).collect();
    let found: Vec<Millis> = pushed.keys().copied().take(expected.len()).collect();
    assert_eq!(found, expected, "seed {seed}");
    assert!(pushed.len() <= expected.len() + 3, "seed {seed}: ahead of time");
    for minute in 0.. {
        let held = world.broker.memory().counts(Queues::first()).await.unwrap();
        let ready: u64 = held.iter().map(|(_, counts, _)| counts.ready).sum();
        if ready == pushed.len() as u64 {
            break;
        }
        assert!(minute < AUDIT_MINUTES, "seed {seed}: {ready} of {} jobs are in the broker", pushed.len());
        seconds(60).await;
    }
}
