//! A running engine.

use super::parts::Parts;
use super::parts::metrics::Metrics;
use super::parts::status::Fault;
use super::stores::Topology;
use crate::api::{DegradedCode, Health};
use crate::clock::Millis;
use crate::error::Error;
use crate::ports::Trouble;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

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
    /// An engine of these parts. It does nothing yet.
    pub(super) fn of(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// The current time, in milliseconds since 1970: the broker's clock, or an instant that it has surely reached.
    pub fn now(&self) -> Millis {
        self.broker.now()
    }

    /// The start of delays: the broker's clock, or an instant that it has not passed.
    pub fn now_at_most(&self) -> Millis {
        self.broker.now_at_most()
    }

    /// The largest payload that it takes, in bytes.
    pub fn payload_bytes_max(&self) -> usize {
        self.options.payload_bytes_max
    }

    /// The engine's stores, and who shares them. If they are shared, give a reserve a request id: otherwise its leases are
    /// lost with a lost answer.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// The engine's health.
    pub fn health(&self) -> Health {
        let is_writable = self.look_at_ledger();
        let (loaded, is_loaded) = self.status.progress();
        let backlog = self.broker.backlog();
        let is_away = self.status.is(DegradedCode::BrokerUnavailable);
        let ready = !self.stopping.is_cancelled()
            && backlog < self.options.backlog_max
            && self.status.fault().is_none()
            && !is_away
            && is_writable;
        Health { ready, degraded: self.status.degraded(), loaded, is_loaded, backlog }
    }

    /// Reads the troubles that the ledger has noticed. Returns whether none of them makes it refuse changes.
    pub(crate) fn look_at_ledger(&self) -> bool {
        let troubles = self.ledger.troubles();
        for trouble in Trouble::ALL {
            let code = match trouble {
                Trouble::Full => DegradedCode::StoreFull,
                Trouble::Moved => DegradedCode::StoreMoved,
                Trouble::Unwritable => DegradedCode::StoreUnwritable,
                Trouble::Damaged => DegradedCode::StoreDamaged,
                Trouble::DropsRecords => DegradedCode::RecordsDroppedEarly,
                Trouble::Evicts => DegradedCode::StoreEvicts,
            };
            self.status.set(code, troubles.iter().find(|(found, _)| *found == trouble).map(|(_, why)| why));
        }
        troubles.iter().all(|(trouble, _)| !trouble.refuses())
    }

    /// Records why this process does not deliver the jobs of a queue with a target, for [`health`](Self::health); `None` if it delivers all.
    pub fn set_undelivered(&self, trouble: Option<impl std::fmt::Display>) {
        self.status.set(DegradedCode::Deliveries, trouble);
    }

    /// Waits until a background task has ended although the engine was not stopped: it panicked. The engine is not ready
    /// from then on, and a process that runs it should stop it, end, and be started again.
    pub async fn fault(&self) -> Fault {
        self.status.faulted().await
    }

    /// The counters of this process.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Runs a task for as long as the engine runs; an earlier end is a [`Fault`].
    pub(super) fn in_background<F>(&self, name: &'static str, work: impl FnOnce(Self) -> F)
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
    pub(super) async fn run_to_completion<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
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

    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.stopping.is_cancelled() { Err(Error::Stopping) } else { Ok(()) }
    }

    /// Whether enough could be recorded that more may be handed out.
    pub(super) fn check_backlog(&self) -> Result<(), Error> {
        if !self.status.is_degraded() {
            return Ok(());
        }
        let backlog = self.broker.backlog();
        if backlog < self.options.backlog_max { Ok(()) } else { Err(Error::Backlog(backlog)) }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}
