//! An engine in this process, on its own runtime.
//!
//! Every call runs as a task of that runtime. A caller that blocks its thread or is dropped delays nobody else.

use crate::error::{Answers, Error, answers, only};
use crate::kind_rules::KIND_RULES;
#[cfg(feature = "testing")]
use duetime_core::Millis;
use duetime_core::api::{
    Attention, DueCounts, Failures, History, HistorySpan, Pushed, QueueChanges, Span, WorkerStatus,
};
use duetime_core::engine::Pause;
use duetime_core::engine::events::{Filter, Subscription};
use duetime_core::engine::{
    self, CancelOutcome, Extension, Health, Imported, JobRef, LockRequest, Outcome, Precondition, QueueSettings,
    READING_WAIT, Reservation, ReserveRequest, Settlement, uninterrupted,
};
use duetime_core::limits::WAIT_MS_MAX;
use duetime_core::ports::Grant;
use duetime_core::schedule::{Run, ScheduleStatus};
use duetime_core::{Engine, Error as CoreError, Job, JobId, NewJob, Receipt};
use duetime_store::open::Opened;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// Threads of the engine's runtime: one for work, and a spare one in case that is blocked.
const THREADS: usize = 2;

/// A running engine and its runtime.
#[derive(Clone)]
pub(crate) struct Embedded(Arc<Inner>);

struct Inner {
    engine: Engine,
    handle: Handle,
    /// `None` if the engine belongs to someone else, and while it is being dropped.
    own: Option<Runtime>,
}

impl Embedded {
    /// Starts an engine on the store that `open` opens, on the engine's runtime.
    pub(super) async fn start<F>(open: F, options: engine::Options) -> Result<Self, Error>
    where
        F: Future<Output = Result<Opened, CoreError>> + Send + 'static,
    {
        let mut options = options;
        options.kind_rules = &KIND_RULES;
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("duetime-engine")
            .enable_all()
            .build()
            .map_err(|error| CoreError::Unavailable(format!("cannot start a thread for the engine: {error}")))?;
        let started = runtime.spawn(async move { Engine::start(open.await?.stores, options).await });
        match ended(started.await) {
            Ok(Ok(engine)) => {
                let handle = runtime.handle().clone();
                Ok(Self(Arc::new(Inner { engine, handle, own: Some(runtime) })))
            }
            Ok(Err(error)) | Err(error) => {
                runtime.shutdown_background();
                Err(error.into())
            }
        }
    }

    /// An engine that runs on this runtime and is stopped by its owner.
    #[cfg(feature = "unstable-server")]
    pub(super) fn of(engine: Engine) -> Self {
        Self(Arc::new(Inner { engine, handle: Handle::current(), own: None }))
    }

    #[cfg(feature = "unstable-server")]
    pub(super) fn engine(&self) -> (&Engine, &Handle) {
        (&self.0.engine, &self.0.handle)
    }

    #[cfg(feature = "testing")]
    pub(crate) fn now(&self) -> Millis {
        self.0.engine.now()
    }

    /// Runs a call to completion on the engine's runtime, even if the caller is dropped.
    pub(crate) async fn call<T, C, F>(&self, call: C) -> Result<T, CoreError>
    where
        C: FnOnce(Engine) -> F,
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        ended(self.runtime().spawn(uninterrupted(call(self.0.engine.clone()))).await)
    }

    fn runtime(&self) -> &Handle {
        &self.0.handle
    }

    pub(super) async fn push(&self, jobs: Vec<NewJob>) -> Result<Answers<Pushed>, Error> {
        let pushed = self.call(|engine| async move { engine.push(jobs).await }).await??;
        let now = self.0.engine.now();
        Ok(pushed.into_iter().map(|answer| Ok(Pushed::new(&answer?, now))).collect())
    }

    pub(super) async fn import(&self, jobs: Vec<Job>) -> Result<Answers<Imported>, Error> {
        Ok(answers(self.call(|engine| async move { engine.import(jobs).await }).await??))
    }

    pub(super) async fn reserve(&self, request: ReserveRequest) -> Result<Reservation, Error> {
        let engine = self.0.engine.clone();
        let reserve = self.runtime().spawn(async move { engine.reserve_unclaimed(request).await });
        // If the caller is dropped, the wait ends, and jobs leased at that moment are released.
        Ok(ended(AbortOnDropHandle::new(reserve).await)??.claim())
    }

    pub(super) async fn settle(&self, outcomes: Vec<(Receipt, Outcome)>) -> Result<Answers<Settlement>, Error> {
        Ok(answers(self.call(|engine| async move { engine.settle(outcomes).await }).await?))
    }

    pub(super) async fn extend(&self, leases: Vec<(Receipt, Option<Duration>)>) -> Result<Answers<Extension>, Error> {
        let leases =
            leases.into_iter().map(|(receipt, lease)| (receipt, lease.map(|lease| Span::from(lease).0))).collect();
        Ok(answers(self.call(|engine| async move { engine.extend(leases).await }).await?))
    }

    pub(super) async fn cancel(&self, target: JobRef) -> Result<CancelOutcome, Error> {
        only(answers(self.call(|engine| async move { engine.cancel(vec![target]).await }).await?))
    }

    /// The job once it has ended, or after this wait of at most 60 s as it is then. Time passes by the caller's clock: that of
    /// the engine stands still in tests.
    pub(super) async fn ended(&self, id: JobId, wait: Duration) -> Result<Job, Error> {
        let engine = self.0.engine.clone();
        let waits = self.runtime().spawn(async move { engine.ended(id, Span(WAIT_MS_MAX)).await });
        match timeout(wait, AbortOnDropHandle::new(waits)).await {
            Ok(job) => Ok(ended(job)??),
            Err(_) => Ok(self.call(|engine| async move { engine.job(id).await }).await??),
        }
    }

    pub(super) async fn retry(&self, target: JobRef) -> Result<Job, Error> {
        only(answers(self.call(|engine| async move { engine.retry(vec![target]).await }).await?))
    }

    pub(super) async fn delete(&self, target: JobRef) -> Result<(), Error> {
        only(answers(self.call(|engine| async move { engine.delete(vec![target]).await }).await?))
    }

    pub(super) async fn acquire_lock(&self, request: LockRequest) -> Result<Grant, Error> {
        let engine = self.0.engine.clone();
        let acquire = self.runtime().spawn(async move { engine.acquire(request).await });
        // If the caller is dropped, the wait ends.
        Ok(ended(AbortOnDropHandle::new(acquire).await)??)
    }

    #[expect(clippy::unused_async, reason = "the same form as for a server")]
    pub(super) async fn history(&self, queue: Option<&str>, span: HistorySpan) -> Result<History, Error> {
        Ok(self.0.engine.history(queue, span)?)
    }

    pub(super) async fn due_counts(&self, queue: Option<&str>) -> Result<DueCounts, Error> {
        let queue = queue.map(str::to_owned);
        Ok(self.call(|engine| async move { engine.due_counts(queue.as_deref(), READING_WAIT).await }).await??)
    }

    pub(super) async fn failures(&self, queue: Option<&str>) -> Result<Failures, Error> {
        let queue = queue.map(str::to_owned);
        Ok(self.call(|engine| async move { engine.failures(queue.as_deref(), READING_WAIT).await }).await??)
    }

    pub(super) async fn change_settings(&self, queue: &str, changes: QueueChanges) -> Result<QueueSettings, Error> {
        let queue = queue.to_owned();
        let change = move |old| changes.apply(&old);
        Ok(self.call(|engine| async move { engine.reconfigure(&queue, change).await }).await??)
    }

    pub(super) async fn pause_schedule(&self, name: &str, pause: Pause) -> Result<ScheduleStatus, Error> {
        let name = name.to_owned();
        Ok(self
            .call(|engine| async move { engine.pause_schedule(&name, pause, Precondition::Anything).await })
            .await??)
    }

    pub(super) async fn resume_schedule(&self, name: &str) -> Result<ScheduleStatus, Error> {
        let name = name.to_owned();
        Ok(self.call(|engine| async move { engine.resume_schedule(&name, Precondition::Anything).await }).await??)
    }

    pub(super) async fn run_schedule(&self, name: &str, origin: Option<Arc<str>>) -> Result<Pushed, Error> {
        let name = name.to_owned();
        let run = |engine: Engine| async move { engine.run_schedule(&name, origin, Precondition::Anything).await };
        Ok(Pushed::new(&self.call(run).await??, self.0.engine.now()))
    }

    pub(super) async fn next_runs(&self, name: &str, limit: usize) -> Result<Vec<Run>, Error> {
        let name = name.to_owned();
        Ok(self.call(|engine| async move { engine.schedule(&name).await }).await??.runs(limit)?)
    }

    pub(super) async fn listen(&self, filter: Filter) -> Result<Subscription, Error> {
        Ok(self.call(|engine| async move { engine.subscribe(filter).await }).await??)
    }

    pub(super) async fn workers(&self) -> Result<Vec<WorkerStatus>, Error> {
        Ok(self.call(|engine| async move { engine.workers(None, usize::MAX, |_| true).workers }).await?)
    }

    pub(super) async fn attention(&self) -> Result<Attention, Error> {
        Ok(self.call(|engine| async move { engine.attention(|_| true).await }).await?)
    }

    pub(super) async fn health(&self) -> Result<Health, Error> {
        Ok(self.call(|engine| async move { engine.health() }).await?)
    }

    #[expect(clippy::unused_async, reason = "the same form as for a server")]
    pub(super) async fn version(&self) -> Result<Option<String>, Error> {
        Ok(Some(env!("CARGO_PKG_VERSION").to_owned()))
    }

    pub(super) async fn metrics_text(&self) -> Result<String, Error> {
        Ok(self.call(|engine| async move { engine.exposition().await }).await?.finish())
    }

    pub(super) async fn close(&self) -> Result<(), Error> {
        Ok(self.call(|engine| async move { engine.stop().await }).await??)
    }
}

/// The result of a task on the engine's runtime. A panic is resumed in the caller, because an invariant is broken.
fn ended<T>(joined: Result<T, tokio::task::JoinError>) -> Result<T, CoreError> {
    joined.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => CoreError::Stopping,
    })
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(runtime) = self.own.take() else { return };
        let engine = self.engine.clone();
        // The last handle may be dropped within a runtime, which does not allow waiting.
        let stop = std::thread::Builder::new().name("duetime-stop".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(engine.stop()) {
                tracing::warn!(%error, "the store was not closed cleanly");
            }
        });
        if let Err(error) = stop {
            tracing::warn!(%error, "cannot start a thread to stop the engine");
        }
    }
}
