//! The tasks of an engine: they run for as long as it does, and a stop waits for those that have begun.
//!
//! A request that has begun runs to completion even if its caller disconnects: a job that is recorded but not put would
//! sleep until the next start. It has a task for that, unless an edge says that the caller's task is [one](uninterrupted).

use super::status::{Fault, Status};
use crate::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

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

/// Starts and ends the tasks of an engine.
pub(super) struct Supervisor {
    tasks: TaskTracker,
    /// Runs tasks that are started where there is no runtime, as in a drop.
    runtime: Handle,
    stopping: CancellationToken,
    status: Arc<Status>,
}

impl Supervisor {
    /// Runs tasks in the current runtime.
    pub(super) fn new(status: Arc<Status>) -> Self {
        Self { tasks: TaskTracker::new(), runtime: Handle::current(), stopping: CancellationToken::new(), status }
    }

    /// Runs a loop for as long as the engine runs; an earlier end is a [`Fault`].
    pub(super) fn keep<S: Send + Sync + 'static, F>(
        self: &Arc<Self>,
        name: &'static str,
        service: &Arc<S>,
        work: impl FnOnce(Arc<S>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let work: Boxed<()> = Box::pin(work(service.clone()));
        let (supervisor, stopping) = (self.clone(), self.stopping.clone());
        let task = self.tasks.spawn(async move { stopping.run_until_cancelled(work).await });
        self.tasks.spawn(async move {
            match task.await {
                // The engine stops, or the runtime goes down.
                Ok(None) => {}
                Err(error) if error.is_cancelled() => {}
                Ok(Some(())) | Err(_) => supervisor.status.fail(Fault::of(name)),
            }
        });
    }

    /// Runs work of a service to completion even if its caller disconnects. Within work that is
    /// [run to completion](uninterrupted) anyway, it needs no task.
    pub(super) async fn complete<S, T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        service: &Arc<S>,
        work: impl FnOnce(Arc<S>) -> F,
    ) -> T {
        let work: Boxed<T> = Box::pin(work(service.clone()));
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

    /// Runs work beside its caller; a stop waits for it.
    pub(super) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.tasks.spawn(work)
    }

    /// The same from where there may be no runtime, as in a drop.
    pub(super) fn finish_alone(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(work, &self.runtime);
    }

    /// # Errors
    /// [`Error::Stopping`] once the engine stops.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.is_stopping() { Err(Error::Stopping) } else { Ok(()) }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Cancelled once the engine stops.
    pub(super) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Refuses new requests and ends loops.
    pub(super) fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
    }

    /// Waits until all tasks have ended.
    pub(super) async fn stopped(&self) {
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::sync::Notify;

    fn supervisor() -> Arc<Supervisor> {
        Arc::new(Supervisor::new(Arc::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_to_its_end_though_its_caller_has_gone_and_a_stop_waits_for_it() {
        let (supervisor, may_end) = (supervisor(), Arc::new(Notify::new()));
        let work = supervisor.complete(&may_end, |may_end| async move { may_end.notified().await });
        assert!(tokio::time::timeout(Duration::ZERO, work).await.is_err());
        supervisor.stop();
        assert_eq!(supervisor.check_open(), Err(Error::Stopping));
        assert!(tokio::time::timeout(Duration::from_secs(9), supervisor.stopped()).await.is_err());
        may_end.notify_one();
        supervisor.stopped().await;
    }

    #[tokio::test]
    async fn work_within_what_is_not_dropped_needs_no_task() {
        let (supervisor, service) = (supervisor(), Arc::new(()));
        let task = || supervisor.complete(&service, |_| async { tokio::task::try_id() });
        let (alone, within) = (task().await, uninterrupted(task()).await);
        assert_eq!((alone.is_some(), within), (true, tokio::task::try_id()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_ends_by_itself_is_a_fault_and_one_that_is_stopped_is_none() {
        let supervisor = supervisor();
        supervisor.keep("waits", &supervisor, |_| std::future::pending());
        supervisor.keep("ends", &supervisor, |_| async {});
        assert_eq!(supervisor.status.faulted().await, Fault::of("ends"));
        let supervisor = self::supervisor();
        supervisor.keep("waits", &supervisor, |_| std::future::pending());
        supervisor.stop();
        supervisor.stopped().await;
        assert_eq!(supervisor.status.fault(), None);
    }
}
