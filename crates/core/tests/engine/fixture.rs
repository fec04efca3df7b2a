//! An engine to try things on.

use duetime_core::api::Span;
use duetime_core::engine::{Options, Outcome, QueueStatus, Reservation, ReserveRequest, Source, Stores};
use duetime_core::ports::Lease;
use duetime_core::testing::mortal::{Life, MortalBroker};
use duetime_core::testing::{ModelLedger, TokioClock};
use duetime_core::{Engine, Error, Job, JobId, Memory, NewJob, Retry, State, WhenExhausted};
use std::sync::Arc;
use std::time::Duration;

/// An engine, and its stores and clock.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) broker: Arc<Memory>,
    pub(crate) life: Arc<Life>,
    pub(crate) ledger: ModelLedger,
    pub(crate) clock: Arc<TokioClock>,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::over(ModelLedger::default(), Arc::new(TokioClock::new())).await
    }

    /// A new engine over what an earlier one recorded.
    pub(crate) async fn over(ledger: ModelLedger, clock: Arc<TokioClock>) -> Self {
        Self::over_with(ledger, clock, Options::default()).await
    }

    /// The same, set up otherwise.
    pub(crate) async fn over_with(ledger: ModelLedger, clock: Arc<TokioClock>, options: Options) -> Self {
        let (broker, life) = (Arc::new(Memory::new(clock.clone())), Life::plain());
        let stores = Stores {
            broker: Arc::new(MortalBroker { broker: broker.clone(), life: life.clone() }),
            ..Stores::one_process(clock.clone(), Arc::new(ledger.clone()))
        };
        let engine = Engine::start(stores, options).await.unwrap();
        Self { engine, broker, life, ledger, clock }
    }

    /// Pushes one job, which must be accepted.
    pub(crate) async fn push(&self, job: NewJob) -> Job {
        self.try_push(job).await.unwrap().job
    }

    pub(crate) async fn try_push(&self, job: NewJob) -> Result<duetime_core::engine::Pushed, Error> {
        self.engine.push(vec![job]).await.unwrap().pop().unwrap()
    }

    /// Leases at most `limit` due jobs of the queue `default`.
    pub(crate) async fn reserve(&self, limit: usize, wait: Duration) -> Vec<Lease> {
        self.engine.reserve(request(limit, wait)).await.unwrap().leases
    }

    /// Leases the one job that is due, which there must be.
    pub(crate) async fn lease(&self) -> Lease {
        let mut leases = self.reserve(2, Duration::ZERO).await;
        assert_eq!(leases.len(), 1);
        leases.pop().unwrap()
    }

    /// Leases the first job that is due.
    pub(crate) async fn lease_first(&self) -> Lease {
        self.reserve(1, Duration::ZERO).await.remove(0)
    }

    pub(crate) async fn settle(&self, lease: &Lease, outcome: Outcome) -> Result<State, Error> {
        let answers = self.engine.settle(vec![(lease.job.receipt(), outcome)]).await;
        answers.into_iter().next().unwrap().map(|settlement| settlement.state)
    }

    pub(crate) async fn complete(&self, lease: &Lease) -> Result<State, Error> {
        self.settle(lease, Outcome::complete(None)).await
    }

    pub(crate) async fn state(&self, id: JobId) -> State {
        self.engine.job(id).await.unwrap().state(self.engine.now())
    }

    pub(crate) async fn queue(&self, queue: &str) -> QueueStatus {
        self.engine.queue(queue).await.unwrap()
    }

    /// A reserve in its own task, which has begun to wait when this ends.
    pub(crate) async fn waiter(&self, wait: Duration) -> tokio::task::JoinHandle<Result<Reservation, Error>> {
        let engine = self.engine.clone();
        let waiter = tokio::spawn(async move { engine.reserve(request(1, wait)).await });
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        waiter
    }
}

/// A reserve from the queue `default`.
pub(crate) fn request(limit: usize, wait: Duration) -> ReserveRequest {
    ReserveRequest {
        from: Source::Queues(vec!["default".into()]),
        limit,
        free: None,
        lease: None,
        wait: Span(wait.as_millis() as u64),
        request_id: None,
        worker: None,
    }
}

/// A job with nothing special about it.
pub(crate) fn job() -> NewJob {
    NewJob::new(*b"payload")
}

/// Lets time pass.
pub(crate) async fn pass(time: Duration) {
    tokio::time::advance(time).await;
    // Let the tasks that became due run.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// A job of the queue `first` that moves to this one as it fails.
pub(super) fn moves_to(queue: &str) -> NewJob {
    let when_exhausted = Some(WhenExhausted::Move(queue.into()));
    let options = Retry { max_attempts: Some(1), when_exhausted, ..Retry::default() }.into();
    NewJob { queue: "first".into(), options, ..job() }
}
