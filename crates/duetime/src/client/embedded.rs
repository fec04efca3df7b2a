//! An engine in this process, on a runtime of its own.
//!
//! Every call runs as a task of that runtime: a caller whose thread is blocked, or that goes away, holds up nothing but
//! itself.

use super::pushes::only;
use crate::error::{Answers, Error, answers};
use crate::push::Pushed;
use duetime_core::api::{DueCounts, Failures, History, HistorySpan, Why, WorkerStatus};
use duetime_core::engine::events::{Filter, Subscription};
use duetime_core::engine::{
    self, BulkAction, BulkCounts, CancelOutcome, Expected, Extension, FIRST_READING_WAIT, Health, Imported, JobRef,
    Listed, LockList, LockRequest, Outcome, Patch, Query, QueueSettings, QueueStatus, Reservation, ReserveRequest,
    Settlement, TakeRequest, uninterrupted,
};
use duetime_core::ports::{Grant, Holding, Released};
use duetime_core::schedule::{Run, ScheduleStatus};
use duetime_core::{Engine, Error as CoreError, Job, JobId, Millis, NewJob, Receipt, Schedule};
use duetime_store::open::Opened;
use std::sync::Arc;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::task::AbortOnDropHandle;

/// Threads of the engine's runtime: one that works, and one for when it is held up.
const THREADS: usize = 2;

/// A running engine and its runtime.
#[derive(Clone)]
pub(super) struct Embedded(Arc<Inner>);

struct Inner {
    engine: Engine,
    handle: Handle,
    /// `None` where the engine is another's, and while it is being dropped.
    own: Option<Runtime>,
}

impl Embedded {
    /// Starts an engine on the store that `open` opens, on the engine's runtime.
    pub(super) async fn start<F>(open: F, options: engine::Options) -> Result<Self, Error>
    where
        F: Future<Output = Result<Opened, CoreError>> + Send + 'static,
    {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("duetime-engine")
            .enable_all()
            .build()
            .map_err(|error| CoreError::Unavailable(format!("no thread for the engine: {error}")))?;
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

    /// An engine that runs on this runtime, and is stopped by whoever started it.
    pub(super) fn of(engine: Engine) -> Self {
        Self(Arc::new(Inner { engine, handle: Handle::current(), own: None }))
    }

    /// Runs a call to completion on the engine's runtime, even if the caller goes away.
    async fn call<T, C, F>(&self, call: C) -> Result<T, CoreError>
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
        // Where the caller goes away the wait ends, and what was leased in that instant is given back.
        Ok(ended(AbortOnDropHandle::new(reserve).await)??.claim())
    }

    pub(super) async fn take(&self, request: TakeRequest) -> Result<Reservation, Error> {
        Ok(self.call(|engine| async move { engine.take(request).await }).await??)
    }

    pub(super) async fn settle(&self, outcomes: Vec<(Receipt, Outcome)>) -> Result<Answers<Settlement>, Error> {
        Ok(answers(self.call(|engine| async move { engine.settle(outcomes).await }).await?))
    }

    pub(super) async fn extend(&self, leases: Vec<(Receipt, Option<u64>)>) -> Result<Answers<Extension>, Error> {
        Ok(answers(self.call(|engine| async move { engine.extend(leases).await }).await?))
    }

    pub(super) async fn progress(
        &self,
        receipt: Receipt,
        percent: u8,
        note: Option<Arc<str>>,
    ) -> Result<Extension, Error> {
        Ok(self.call(move |engine| async move { engine.progress(receipt, percent, note).await }).await??)
    }

    pub(super) async fn job(&self, id: JobId) -> Result<Job, Error> {
        Ok(self.call(|engine| async move { engine.job(id).await }).await??)
    }

    pub(super) async fn why(&self, id: JobId) -> Result<Why, Error> {
        Ok(self.call(move |engine| async move { engine.why(id).await }).await??)
    }

    pub(super) async fn find(&self, query: &Query, cursor: Option<&str>, limit: usize) -> Result<Listed, Error> {
        let (query, cursor) = (query.clone(), cursor.map(str::to_owned));
        Ok(self.call(|engine| async move { engine.find(&query, cursor.as_deref(), limit).await }).await??)
    }

    pub(super) async fn cancel(&self, target: JobRef) -> Result<CancelOutcome, Error> {
        only(answers(self.call(|engine| async move { engine.cancel(vec![target]).await }).await?))
    }

    pub(super) async fn update(&self, target: JobRef, patch: Patch) -> Result<Job, Error> {
        Ok(self.call(|engine| async move { engine.update(target, patch).await }).await??)
    }

    pub(super) async fn run(&self, target: JobRef) -> Result<Job, Error> {
        Ok(self.call(|engine| async move { engine.run(target).await }).await??)
    }

    pub(super) async fn retry(&self, target: JobRef) -> Result<Job, Error> {
        only(answers(self.call(|engine| async move { engine.retry(vec![target]).await }).await?))
    }

    pub(super) async fn delete(&self, target: JobRef) -> Result<(), Error> {
        only(answers(self.call(|engine| async move { engine.delete(vec![target]).await }).await?))
    }

    pub(super) async fn bulk(&self, query: &Query, action: BulkAction) -> Result<BulkCounts, Error> {
        let query = query.clone();
        Ok(self.call(|engine| async move { engine.bulk(&query, action).await }).await??)
    }

    pub(super) async fn acquire_lock(&self, request: LockRequest) -> Result<Grant, Error> {
        let engine = self.0.engine.clone();
        let acquire = self.runtime().spawn(async move { engine.acquire(request).await });
        // Where the caller goes away the wait ends.
        Ok(ended(AbortOnDropHandle::new(acquire).await)??)
    }

    pub(super) async fn renew_lock(
        &self,
        name: &Arc<str>,
        owner: &Arc<str>,
        fence: u64,
        ttl_ms: u64,
    ) -> Result<Grant, Error> {
        let (name, owner) = (name.clone(), owner.clone());
        Ok(self.call(move |engine| async move { engine.renew(&name, &owner, fence, ttl_ms).await }).await??)
    }

    pub(super) async fn release_lock(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<(), Error> {
        let (name, owner) = (name.clone(), owner.clone());
        Ok(self.call(move |engine| async move { engine.release_lock(&name, &owner, fence).await }).await??)
    }

    pub(super) async fn release_all(&self, owner: &str) -> Result<Released, Error> {
        let owner = owner.to_owned();
        Ok(self.call(|engine| async move { engine.release_all(&owner).await }).await??)
    }

    pub(super) async fn inspect_lock(&self, name: &str) -> Result<Option<Holding>, Error> {
        let name = name.to_owned();
        Ok(self.call(|engine| async move { engine.inspect(&name).await }).await??)
    }

    pub(super) async fn locks(&self, cursor: Option<&str>, limit: usize) -> Result<LockList, Error> {
        let cursor = cursor.map(str::to_owned);
        Ok(self.call(move |engine| async move { engine.list_locks(cursor.as_deref(), limit).await }).await??)
    }

    pub(super) async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        Ok(self.call(|engine| async move { engine.queues().await }).await??)
    }

    pub(super) async fn queue(&self, queue: &str) -> Result<QueueStatus, Error> {
        let queue = queue.to_owned();
        Ok(self.call(|engine| async move { engine.queue(&queue).await }).await??)
    }

    pub(super) async fn pause(&self, queue: &str, until: Option<Millis>) -> Result<QueueSettings, Error> {
        let queue = queue.to_owned();
        Ok(self.call(|engine| async move { engine.pause(&queue, until).await }).await??)
    }

    pub(super) async fn resume(&self, queue: &str) -> Result<QueueSettings, Error> {
        let queue = queue.to_owned();
        Ok(self.call(|engine| async move { engine.resume(&queue).await }).await??)
    }

    pub(super) async fn purge(&self, queue: &str) -> Result<u64, Error> {
        let queue = queue.to_owned();
        Ok(self.call(|engine| async move { engine.purge(&queue).await }).await??)
    }

    pub(super) async fn configure(&self, queue: &str, settings: QueueSettings) -> Result<QueueSettings, Error> {
        let queue = queue.to_owned();
        Ok(self.call(|engine| async move { engine.configure(&queue, settings).await }).await??)
    }

    #[expect(clippy::unused_async, reason = "the same form as for a server")]
    pub(super) async fn history(&self, queue: Option<&str>, span: HistorySpan) -> Result<History, Error> {
        Ok(self.0.engine.history(queue, span)?)
    }

    pub(super) async fn due_counts(&self, queue: Option<&str>) -> Result<DueCounts, Error> {
        let queue = queue.map(str::to_owned);
        Ok(self.call(|engine| async move { engine.due_counts(queue.as_deref(), FIRST_READING_WAIT).await }).await??)
    }

    pub(super) async fn failures(&self, queue: Option<&str>) -> Result<Failures, Error> {
        let queue = queue.map(str::to_owned);
        Ok(self.call(|engine| async move { engine.failures(queue.as_deref(), FIRST_READING_WAIT).await }).await??)
    }

    pub(super) async fn schedules(&self) -> Result<Vec<ScheduleStatus>, Error> {
        Ok(self.call(|engine| async move { engine.schedules().await }).await??)
    }

    pub(super) async fn schedule(&self, name: &str) -> Result<ScheduleStatus, Error> {
        let name = name.to_owned();
        Ok(self.call(|engine| async move { engine.schedule(&name).await }).await??)
    }

    pub(super) async fn set_schedule(
        &self,
        name: &str,
        schedule: Schedule,
        is_dry: bool,
    ) -> Result<ScheduleStatus, Error> {
        let name = name.to_owned();
        let set = move |engine: Engine| async move {
            if is_dry {
                engine.preview_schedule(&name, schedule).await
            } else {
                engine.set_schedule(&name, schedule).await
            }
        };
        Ok(self.call(set).await??)
    }

    pub(super) async fn pause_schedule(&self, name: &str, until: Option<Millis>) -> Result<ScheduleStatus, Error> {
        let name = name.to_owned();
        Ok(self.call(|engine| async move { engine.pause_schedule(&name, until, Expected::Anything).await }).await??)
    }

    pub(super) async fn resume_schedule(&self, name: &str) -> Result<ScheduleStatus, Error> {
        let name = name.to_owned();
        Ok(self.call(|engine| async move { engine.resume_schedule(&name, Expected::Anything).await }).await??)
    }

    pub(super) async fn run_schedule(&self, name: &str, origin: Option<Arc<str>>) -> Result<Pushed, Error> {
        let name = name.to_owned();
        let run = |engine: Engine| async move { engine.run_schedule(&name, origin, Expected::Anything).await };
        Ok(Pushed::new(&self.call(run).await??, self.0.engine.now()))
    }

    pub(super) async fn next_runs(&self, name: &str, limit: usize) -> Result<Vec<Run>, Error> {
        Ok(self.schedule(name).await?.runs(limit)?)
    }

    pub(super) async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        let name = name.to_owned();
        Ok(self.call(|engine| async move { engine.delete_schedule(&name).await }).await??)
    }

    pub(super) async fn listen(&self, filter: Filter) -> Result<Subscription, Error> {
        Ok(self.call(|engine| async move { engine.subscribe(filter).await }).await??)
    }

    pub(super) async fn workers(&self) -> Result<Vec<WorkerStatus>, Error> {
        Ok(self.call(|engine| async move { engine.workers(None, usize::MAX, |_| true).workers }).await?)
    }

    pub(super) async fn health(&self) -> Result<Health, Error> {
        Ok(self.call(|engine| async move { engine.health() }).await?)
    }

    #[expect(clippy::unused_async, reason = "the same form as for a server")]
    pub(super) async fn version(&self) -> Result<Option<String>, Error> {
        Ok(Some(env!("CARGO_PKG_VERSION").to_owned()))
    }

    #[expect(clippy::unused_async, reason = "the same form as for a server")]
    pub(super) async fn metrics(&self) -> Result<String, Error> {
        Err(CoreError::Unusable("expected a server, which counts; a store does not".to_owned()).into())
    }

    pub(super) async fn close(&self) -> Result<(), Error> {
        Ok(self.call(|engine| async move { engine.stop().await }).await??)
    }
}

/// What a task of the engine's runtime came to. A panic goes on in the caller: an invariant is broken.
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
        // The last handle may be dropped within a runtime, where waiting is not allowed.
        let stop = std::thread::Builder::new().name("duetime-stop".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(engine.stop()) {
                tracing::warn!(%error, "the store was not closed in good order");
            }
        });
        if let Err(error) = stop {
            tracing::warn!(%error, "no thread to stop the engine on");
        }
    }
}
