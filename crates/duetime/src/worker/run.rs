//! Running a worker: without end, until a signal, for a time, or until nothing is due.

use super::Worker;
use super::dispatcher::{Dispatcher, Goal};
use crate::error::Error;
use duetime_core::Error as CoreError;
use std::future::pending;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Attempts that succeeded.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Jobs that were given back.
    pub released: u64,
    /// Attempts whose outcome does not count: the lease had ended, or the outcome could not be delivered.
    pub lost: u64,
}

impl Worker {
    /// Works until the process stops. If the server or the store is unavailable, the worker waits for it and continues.
    ///
    /// Handlers run as tasks of the runtime that this is called on. Where the future is dropped, the worker stops
    /// without waiting for handlers: their tokens are cancelled.
    ///
    /// # Errors
    /// What cannot pass by waiting: a queue's name that is malformed, say, or an embedded store that was closed.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn run(self) -> Result<(), Error> {
        self.start(Goal::Endless, pending()).await.map(drop)
    }

    /// Works until `stop` is ready, then stops gracefully: reserves nothing more, gives back at once what has not
    /// started, and lets handlers finish within the [stop limit](Self::stop_limit). Then their tokens are cancelled;
    /// those that do not heed them within 5 s are aborted, and their jobs given back. A handler that cannot even be
    /// aborted, since it blocks its thread, keeps its lease until that ends.
    ///
    /// # Errors
    /// As [`run`](Self::run); and why no reserve was answered, if none ever was.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<Summary, Error> {
        self.start(Goal::Endless, stop).await
    }

    /// Works for this long, then stops gracefully as in [`run_until`](Self::run_until).
    ///
    /// # Errors
    /// As [`run_until`](Self::run_until).
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub async fn run_for(self, time: Duration) -> Result<Summary, Error> {
        self.start(Goal::Endless, tokio::time::sleep(time)).await
    }

    /// Runs all that is due, and what becomes due meanwhile, then returns.
    ///
    /// # Errors
    /// As [`run`](Self::run); and where the store or the server is away.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub async fn run_once(self) -> Result<Summary, Error> {
        self.start(Goal::Once, pending()).await
    }

    /// As [`run_once`](Self::run_once), but stops gracefully when `stop` is ready.
    ///
    /// # Errors
    /// As [`run_once`](Self::run_once).
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub async fn run_once_until(self, stop: impl Future<Output = ()>) -> Result<Summary, Error> {
        self.start(Goal::Once, stop).await
    }

    /// As [`run_until`](Self::run_until), but without its own thread: for handlers that never block theirs, on a runtime
    /// that many such workers share.
    ///
    /// # Errors
    /// As [`run_until`](Self::run_until).
    #[doc(hidden)]
    pub async fn run_here_until(self, stop: impl Future<Output = ()>) -> Result<Summary, Error> {
        let (told, stopped) = watch::channel(false);
        until(stop, told, Dispatcher::new(self, Goal::Endless, Handle::current()).run(stopped)).await
    }

    async fn start(self, goal: Goal, stop: impl Future<Output = ()>) -> Result<Summary, Error> {
        let handlers = Handle::current();
        let (told, stopped) = watch::channel(false);
        let (answer, answered) = oneshot::channel();
        let work = move || {
            let _ = answer.send(work(self, goal, handlers, stopped));
        };
        // Joined by its answer: a thread that ends without one has panicked.
        std::thread::Builder::new().name("duetime-worker".to_owned()).spawn(work).map_err(no_thread)?;
        until(stop, told, answered).await.expect("the worker's thread ends with an answer")
    }
}

/// The summary of the work; it stops when `stop` is ready.
async fn until<T>(stop: impl Future<Output = ()>, told: watch::Sender<bool>, work: impl Future<Output = T>) -> T {
    let mut work = Box::pin(work);
    tokio::select! {
        ended = &mut work => return ended,
        () = stop => {}
    }
    told.send_replace(true);
    work.await
}

/// The worker's thread.
fn work(worker: Worker, goal: Goal, handlers: Handle, stopped: watch::Receiver<bool>) -> Result<Summary, Error> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    runtime.block_on(Dispatcher::new(worker, goal, handlers).run(stopped))
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn no_thread(error: std::io::Error) -> Error {
    CoreError::Unavailable(format!("cannot start a thread for the worker: {error}")).into()
}
