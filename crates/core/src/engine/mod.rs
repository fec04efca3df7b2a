//! The engine: all rules, between the edges above and the stores below.
//!
//! A request that has begun runs to completion even if the caller disconnects: a job that is recorded but not put would
//! sleep until the next start. It has a task for that, unless an edge says that the caller's task is [one](uninterrupted).
//! Exceptions are a reserve and the wait for a lock: if they are dropped while they wait, they have leased or acquired
//! nothing.
//!
//! In the background it loads jobs that enter the horizon (`load`), takes back jobs whose lease has expired (`settle`),
//! records outcomes that were left over (`record`), wakes reserves (`wait`), pushes the jobs of due schedules (`schedules`)
//! and prunes. If several processes share a broker and a ledger, one of them does most of that for all (`leader`), and moves
//! rows from the ledger's inbox to its jobs (`inbox`).
//!
//! It deliberately does not run business code, parse or render.

mod asked;
mod background;
mod bulk;
mod changes;
mod cursor;
mod edit;
pub mod events;
mod expected;
mod export;
mod find;
mod forward;
mod history;
mod host;
mod ids;
mod import;
mod reports;
mod reserve;

mod locks;
pub mod metrics;
mod parts;
mod push;
mod query;
mod queues;
mod schedules;
mod settings;
mod settle;
mod status;
mod stores;
mod subscription;
mod take;
mod unclaimed;
mod wait;
mod waiters;
mod why;
mod workers;

pub use crate::api::Health;
pub use crate::request::*;
pub use background::census::Sum;
pub use background::inbox::check_target as check_inbox_target;
pub use expected::Expected;
pub use export::Export;
pub use import::check_whole;
pub use locks::LockList;
pub use reports::READING_WAIT;
pub use status::Fault;
pub use stores::{Stores, Topology};
pub use unclaimed::Unclaimed;

use crate::api::DegradedCode;
use crate::clock::Millis;
use crate::error::Error;
use crate::keyed_mutex::KeyedMutex;
use parts::Parts;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often ended locks, and ended places in line for them, are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// One answer for each item of a request, in order.
pub type Answers<T> = Vec<Result<T, Error>>;

tokio::task_local! {
    /// Set while a task runs work that it does not drop before its end.
    static COMPLETES: ();
}

/// Marks work that its task polls to the end, even if the caller disconnects: requests to an engine in it need no other
/// task. Nothing within it may be dropped early.
pub fn uninterrupted<F: Future>(work: F) -> impl Future<Output = F::Output> {
    COMPLETES.scope((), work)
}

/// Work for a task, behind a pointer: the runtime's code for a task is then compiled once, and not for each kind of work.
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A running engine: a cheap handle, to be cloned.
#[derive(Clone)]
pub struct Engine {
    parts: Arc<Parts>,
}

impl Deref for Engine {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl Engine {
    /// Restores leases, begins to load jobs within the horizon, and serves. Must be called in a tokio runtime with time,
    /// which runs the engine's tasks.
    ///
    /// # Errors
    /// If the ledger or the registry cannot be read.
    pub async fn start(stores: Stores, options: Options) -> Result<Self, Error> {
        let Stores { topology, broker, ledger, reports, leases, inbox, registry, locks, events: bus } = stores;
        let parts = Parts {
            topology,
            broker,
            ledger,
            reports,
            leases,
            inbox,
            registry,
            locks,
            bus,
            options,
            ids: ids::Ids::default(),
            watermark: background::load::Watermark::default(),
            to_reconcile: Mutex::default(),
            finding: tokio::sync::Mutex::default(),
            left: Mutex::default(),
            overflow: background::overflow::Overflow::default(),
            together: background::load::Together::default(),
            ending_takes: tokio::sync::Mutex::default(),
            recorder: background::record::Recorder::default(),
            role: background::leader::Role::default(),
            settings: settings::Settings::default(),
            asked: asked::Asked::default(),
            workers: workers::Workers::default(),
            census: background::census::Census::default(),
            configuring: tokio::sync::Mutex::default(),
            waiting: Arc::default(),
            lock_waiters: Arc::default(),
            asking: KeyedMutex::default(),
            timer: schedules::Timer::default(),
            status: status::Status::default(),
            metrics: metrics::Metrics::default(),
            history: history::Record::default(),
            due: reports::Report::default(),
            failed: reports::Report::default(),
            subscribers: Arc::default(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            stopping: CancellationToken::new(),
        };
        let engine = Self { parts: Arc::new(parts) };
        if let Some(bus) = &engine.bus {
            let subscribers = engine.subscribers.clone();
            bus.subscribe(Arc::new(move |event| subscribers.deliver(event)));
        }
        let waiters = engine.lock_waiters.clone();
        engine.broker.begin(engine.host()).await?;
        engine.asked.begin(engine.now());
        engine.workers.begin(engine.now());
        engine.locks.start(Arc::new(move |name, owner| waiters.wake_all(&(owner.clone(), name.clone())))).await?;
        engine.load_settings().await?;
        match topology {
            Topology::OneProcess => {
                engine.restore_leases().await?;
                engine.learn_overflow().await?;
                engine.advance().await?;
                engine.in_background("load", |engine| async move { engine.load().await });
            }
            Topology::RedisAlone => engine.status.set_loaded(true),
            Topology::RedisBesideLedger => engine.begin_to_share().await?,
        }
        if topology.has_ledger() {
            engine.in_background("load_overflow", |engine| async move { engine.load_overflow().await });
        }
        engine.in_background("reap", |engine| async move { engine.reap().await });
        engine.in_background("drain", |engine| async move { engine.drain().await });
        engine.in_background("prune", |engine| async move { engine.prune().await });
        engine.in_background("sweep_locks", |engine| async move { engine.sweep_locks().await });
        engine.in_background("tick_schedules", |engine| async move { engine.tick_schedules().await });
        if topology.is_shared() {
            engine.in_background("refresh_settings", |engine| async move { engine.refresh_settings().await });
        }
        engine.in_background("count_others", |engine| async move { engine.count_others().await });
        engine.in_background("record_history", |engine| async move { engine.record_history().await });
        engine.in_background("end_pauses", |engine| async move { engine.end_pauses().await });
        engine.in_background("alarm", |engine| async move { engine.waiting.keep(engine.broker.as_ref()).await });
        Ok(engine)
    }

    /// The current time, in milliseconds since 1970: the broker's clock, or an instant that it has surely reached.
    pub fn now(&self) -> Millis {
        self.broker.now()
    }

    /// The start of delays: the broker's clock, or an instant that it has not passed.
    pub fn now_at_most(&self) -> Millis {
        self.broker.now_at_most()
    }

    /// The engine's stores, and who shares them. If they are shared, give a reserve a request id: otherwise its leases are
    /// lost with a lost answer.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// The engine's health.
    pub fn health(&self) -> Health {
        let (loaded, is_loaded) = self.status.progress();
        let backlog = self.broker.backlog();
        let is_away = self.status.is(DegradedCode::BrokerUnavailable);
        let ready = !self.stopping.is_cancelled()
            && backlog < self.options.backlog_max
            && self.status.fault().is_none()
            && !is_away;
        Health { ready, degraded: self.status.degraded(), loaded, is_loaded, backlog }
    }

    /// Waits until a background task has ended although the engine was not stopped: it panicked. The engine is not ready
    /// from then on, and a process that runs it should stop it, end, and be started again.
    pub async fn fault(&self) -> Fault {
        self.status.faulted().await
    }

    /// The counters of this process.
    pub fn metrics(&self) -> &metrics::Metrics {
        &self.metrics
    }

    /// Refuses new requests, ends waiting ones, records outcomes under way, and closes the ledger.
    ///
    /// # Errors
    /// If something could not be recorded.
    pub async fn stop(&self) -> Result<(), Error> {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if self.topology.shares_ledger() {
            self.record_rest().await;
            if let Err(error) = self.reconcile().await {
                tracing::warn!(%error, "some jobs were not handed over to the loader; the audit will find them");
            }
            self.leave_role().await;
        } else {
            self.drain_older(0).await;
        }
        self.ledger.close().await
    }

    /// Runs a task for as long as the engine runs; an earlier end is a [`Fault`].
    fn in_background<F>(&self, name: &'static str, work: impl FnOnce(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let work: Boxed<()> = Box::pin(work(self.clone()));
        let (engine, stopping) = (self.clone(), self.stopping.clone());
        let task = self.tasks.spawn(async move { stopping.run_until_cancelled(work).await });
        self.tasks.spawn(async move {
            match task.await {
                // The engine stops, or the runtime goes down.
                Ok(None) => {}
                Err(error) if error.is_cancelled() => {}
                Ok(Some(())) | Err(_) => engine.status.fail(Fault::of(name)),
            }
        });
    }

    /// Runs work to completion even if its caller disconnects. Within work that is [run to completion](uninterrupted)
    /// anyway, it needs no task.
    async fn run_to_completion<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> F,
    ) -> T {
        let work: Boxed<T> = Box::pin(work(self.clone()));
        if COMPLETES.try_with(|()| ()).is_ok() {
            return self.tasks.track_future(work).await;
        }
        match self.tasks.spawn(work).await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is going down, and this caller with it.
            Err(_) => std::future::pending().await,
        }
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.stopping.is_cancelled() { Err(Error::Stopping) } else { Ok(()) }
    }

    /// Whether enough could be recorded that more may be handed out.
    fn check_backlog(&self) -> Result<(), Error> {
        if !self.status.is_degraded() {
            return Ok(());
        }
        let backlog = self.broker.backlog();
        if backlog < self.options.backlog_max { Ok(()) } else { Err(Error::Backlog(backlog)) }
    }

    /// Removes locks that have ended, until the process stops.
    async fn sweep_locks(&self) {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            if let Err(error) = self.locks.sweep().await {
                tracing::warn!(%error, "could not remove expired locks; trying again");
            }
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}
