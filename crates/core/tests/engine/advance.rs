//! An engine whose clock is moved: what happens on the way.

use super::fixture::{job, request};
use super::schedules::{every, ticks};
use duetime_core::api::Span;
use duetime_core::engine::{Options, Outcome, Pause, Stores};
use duetime_core::limits::{DAY_MS, DELAY_MS_MAX, HOUR_MS, MINUTE_MS, SECOND_MS};
use duetime_core::ports::Lease;
use duetime_core::rules::Failure;
use duetime_core::testing::ModelLedger;
use duetime_core::{Clock, Due, Engine, Error, Job, MovableClock, NewJob, State};
use std::sync::Arc;
use std::time::Duration;

struct World {
    engine: Engine,
    clock: Arc<MovableClock>,
    ledger: ModelLedger,
}

impl World {
    async fn new() -> Self {
        let (clock, ledger) = (Arc::new(MovableClock::new()), ModelLedger::default());
        let stores = Stores::one_process(clock.clone(), Arc::new(ledger.clone()));
        let options = Options { horizon: Span(DELAY_MS_MAX), ..Options::default() };
        Self { engine: Engine::start(stores, options).await.unwrap(), clock, ledger }
    }

    async fn push(&self, after_ms: u64, job: NewJob) -> Job {
        let job = NewJob { due: Due::After(Span(after_ms)), ..job };
        self.engine.push(vec![job]).await.unwrap().remove(0).unwrap().job
    }

    async fn advance(&self, ms: u64) {
        let read = self.engine.advance(&self.clock, Span(ms)).await;
        assert!(read >= ms && read <= self.clock.wall());
    }

    async fn reserve(&self, wait: Duration) -> Vec<Lease> {
        self.engine.reserve(request(1, wait)).await.unwrap().leases
    }

    async fn settle(&self, lease: &Lease, outcome: Outcome) -> Result<State, Error> {
        let settled = self.engine.settle(vec![(lease.job.receipt(), outcome)]).await.remove(0);
        settled.map(|settled| settled.state)
    }
}

#[tokio::test]
async fn a_job_is_ready_once_its_time_has_come_and_not_before() {
    let world = World::new().await;
    let id = world.push(30 * DAY_MS, job()).await.id;
    for ms in [29 * DAY_MS, DAY_MS - MINUTE_MS] {
        world.advance(ms).await;
        assert!(world.reserve(Duration::ZERO).await.is_empty());
    }
    world.advance(MINUTE_MS).await;
    let lease = world.reserve(Duration::ZERO).await.remove(0);
    assert_eq!(lease.job.id, id);
    // A retry after a day is due on the way, too.
    let failure = Failure { message: "no".into(), retry_after: Some(Span(DAY_MS)), ..Failure::default() };
    assert_eq!(world.settle(&lease, Outcome::Fail(failure)).await, Ok(State::Scheduled));
    world.advance(2 * DAY_MS).await;
    assert_eq!(world.reserve(Duration::ZERO).await.remove(0).job.attempt, 2);
}

/// The second one is the more urgent, so it would be handed out first if both came due together.
#[tokio::test]
async fn callers_that_wait_get_jobs_in_the_order_in_which_they_come_due() {
    let world = World::new().await;
    let mut due = Vec::new();
    for (minute, priority) in [(1, 9), (2, 5), (3, 1)] {
        due.push(world.push(minute * MINUTE_MS, NewJob { priority, lease: Some(Span(HOUR_MS)), ..job() }).await.id);
    }
    let engine = world.engine.clone();
    let worker = tokio::spawn(async move {
        let mut got = Vec::new();
        while got.len() < 3 {
            let leases = engine.reserve(request(1, Duration::from_secs(60))).await.unwrap().leases;
            got.extend(leases.iter().map(|lease| lease.job.id));
        }
        got
    });
    // It has begun to wait.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    world.advance(4 * MINUTE_MS).await;
    assert_eq!(worker.await.unwrap(), due);
}

#[tokio::test]
async fn schedules_tick_at_each_of_their_instants() {
    let world = World::new().await;
    world.engine.set_schedule("s", every(HOUR_MS)).await.unwrap();
    let first = world.engine.schedule("s").await.unwrap().next[0].0;
    world.advance(DAY_MS).await;
    let expected: Vec<_> = (0..24).map(|n| first + n * HOUR_MS).collect();
    assert_eq!(ticks(&world.ledger, "s"), expected);
}

#[tokio::test]
async fn leases_and_pauses_end_and_jobs_expire() {
    let world = World::new().await;
    let running = world.push(0, NewJob { lease: Some(Span(MINUTE_MS)), ..job() }).await.id;
    let lease = world.reserve(Duration::ZERO).await.remove(0);
    let expires = world.push(MINUTE_MS, NewJob { expires: Some(Span(SECOND_MS)), ..job() }).await.id;
    world.engine.pause("default", Pause::For(Span(HOUR_MS))).await.unwrap();
    world.advance(MINUTE_MS - 10 * SECOND_MS).await;
    let extended = world.engine.extend(vec![(lease.job.receipt(), None)]).await.remove(0);
    assert!(extended.is_ok(), "{extended:?}");
    world.advance(2 * MINUTE_MS).await;
    let lost = world.settle(&lease, Outcome::complete(None)).await;
    assert_eq!(lost, Err(Error::LeaseLost(lease.job.receipt())));
    let state = async |id| world.engine.job(id).await.unwrap().state(world.engine.now());
    assert_eq!((state(running).await, state(expires).await), (State::Ready, State::Failed));
    assert!(world.reserve(Duration::ZERO).await.is_empty(), "the queue is paused");
    world.advance(HOUR_MS).await;
    assert!(!world.engine.queue_settings("default").paused);
    let again = world.reserve(Duration::ZERO).await.remove(0).job;
    assert_eq!((again.id, again.crashes), (running, 1));
}

/// Time goes on beside it.
#[tokio::test]
async fn a_clock_that_was_moved_runs_on() {
    let world = World::new().await;
    world.advance(DAY_MS).await;
    let id = world.push(20, job()).await.id;
    let lease = world.reserve(Duration::from_secs(50)).await.remove(0);
    assert_eq!(lease.job.id, id);
    assert!(world.clock.until(lease.job.due_at.0).is_zero());
}
