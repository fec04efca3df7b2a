//! Running a worker: forever, until a signal, for a time, or until nothing is due.

use super::context::Context;
use super::dispatcher::{Dispatcher, Goal, Summary, UNKNOWN_DELAY};
use super::executor;
use super::job_error::note_places_of_panics;
use super::{Plan, Worker};
use crate::error::{Error, only};
use duetime_core::engine::{Outcome, ReserveRequest, Source};
use duetime_core::ports::Lease;
use duetime_core::{Error as CoreError, Job};
use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};

impl<S> Worker<S> {
    /// Works until the process stops. If the server or the store is unavailable, the worker waits for it and continues.
    ///
    /// Handlers run as tasks of the current runtime. If the future is dropped, the worker cancels the handlers' tokens and
    /// stops without waiting for them.
    ///
    /// # Errors
    /// Errors that waiting cannot fix, such as a malformed queue name or a closed embedded store.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub async fn run(self) -> Result<(), Error> {
        self.start(Goal::Endless, pending()).await.map(drop)
    }

    /// Works until `stop` completes, then stops gracefully. The worker reserves nothing more, releases jobs that have not
    /// started, and lets handlers finish within the [stop limit](Self::stop_limit). Then it cancels their tokens. Handlers
    /// that are still running 5 s later are aborted and their jobs released. A handler that blocks its thread cannot be
    /// aborted; it keeps its lease until the lease expires.
    ///
    /// # Errors
    /// Same as [`run`](Self::run). If no reserve was ever answered, the reason why.
    ///
    /// # Panics
    /// Same as [`run`](Self::run).
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<Summary, Error> {
        self.start(Goal::Endless, stop).await
    }

    /// Works for this long, then stops gracefully like [`run_until`](Self::run_until).
    ///
    /// # Errors
    /// Same as [`run_until`](Self::run_until).
    ///
    /// # Panics
    /// Same as [`run`](Self::run).
    pub async fn run_for(self, time: Duration) -> Result<Summary, Error> {
        self.start(Goal::Endless, tokio::time::sleep(time)).await
    }

    /// Runs all jobs that are due or become due meanwhile, then returns.
    ///
    /// # Errors
    /// Same as [`run`](Self::run); if the store or the server is unavailable.
    ///
    /// # Panics
    /// Same as [`run`](Self::run).
    pub async fn drain(self) -> Result<Summary, Error> {
        self.start(Goal::Once, pending()).await
    }

    /// Like [`drain`](Self::drain), but stops gracefully when `stop` completes.
    ///
    /// # Errors
    /// Same as [`drain`](Self::drain).
    ///
    /// # Panics
    /// Same as [`run`](Self::run).
    pub async fn drain_until(self, stop: impl Future<Output = ()>) -> Result<Summary, Error> {
        self.start(Goal::Once, stop).await
    }

    /// Runs the most urgent job that is due, on this task, and returns it as it is afterwards; `None` if none is due. Its lease
    /// is not extended: use it in tests, and for jobs that are shorter than their lease.
    ///
    /// # Errors
    /// If the store or the server is unavailable, or the lease was lost.
    pub async fn run_one(&self) -> Result<Option<Job>, Error> {
        note_places_of_panics();
        let client = &self.plan.client;
        let turns = self.plan.turns.get_or_init(|| Mutex::new(self.plan.turns()));
        let order = turns.lock().unwrap_or_else(PoisonError::into_inner).order();
        let mut request = ReserveRequest::new(Source::Queues(order));
        request.lease = self.plan.lease;
        request.worker = self.plan.name.clone();
        let mut leases = client.leases().reserve(request).await?.leases;
        turns.lock().unwrap_or_else(PoisonError::into_inner).handed_out(1, leases.iter().map(|lease| &lease.job.queue));
        let Some(Lease { job, .. }) = leases.pop() else { return Ok(None) };
        let receipt = job.receipt();
        let outcome = match self.plan.handlers.of(&job) {
            Some(handler) => executor::run(handler, Context::new(client.clone(), job)).await,
            None => Outcome::release(UNKNOWN_DELAY),
        };
        only(client.leases().settle(vec![(receipt, outcome)]).await?)?;
        client.jobs().get(receipt.id).await.map(Some)
    }

    async fn start(self, goal: Goal, stop: impl Future<Output = ()>) -> Result<Summary, Error> {
        note_places_of_panics();
        #[cfg(feature = "metrics")]
        crate::measure::describe();
        let (plan, handlers) = (self.plan, Handle::current());
        let (told, stopped) = watch::channel(false);
        let (answer, answered) = oneshot::channel();
        let work = move || {
            let _ = answer.send(work(plan, goal, handlers, stopped));
        };
        // The thread is joined through its answer; a thread that ends without one has panicked.
        std::thread::Builder::new().name("duetime-worker".to_owned()).spawn(work).map_err(no_thread)?;
        until(stop, told, answered).await.expect("the worker's thread ends with an answer")
    }
}

/// Works until `stop` completes and returns the summary.
pub(super) async fn until<T>(
    stop: impl Future<Output = ()>,
    told: watch::Sender<bool>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = Box::pin(work);
    tokio::select! {
        ended = &mut work => return ended,
        () = stop => {}
    }
    told.send_replace(true);
    work.await
}

/// The worker's thread.
fn work(plan: Plan, goal: Goal, handlers: Handle, stopped: watch::Receiver<bool>) -> Result<Summary, Error> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    runtime.block_on(Dispatcher::new(plan, goal, handlers).run(stopped))
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn no_thread(error: std::io::Error) -> Error {
    CoreError::Unavailable(format!("cannot start a thread for the worker: {error}")).into()
}
