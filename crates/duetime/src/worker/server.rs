//! What the deliveries of the server need. Nothing here is stable.

use super::Worker;
use super::dispatcher::{Dispatcher, Goal, Summary};
use super::run::until;
use crate::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

impl<S> Worker<S> {
    /// Without a name the worker is not listed.
    #[doc(hidden)]
    pub fn unnamed(mut self) -> Self {
        self.plan.name = None;
        self
    }

    /// Replaces a fixed [`concurrency`](Self::concurrency) by a function that returns how many handlers may run now, or the
    /// time until which none may. It is called after every event. Nothing is reserved ahead, and handlers that must stop are
    /// aborted at once, without cancelling their tokens first.
    #[doc(hidden)]
    pub fn room(mut self, room: impl Fn(Instant) -> Result<usize, Instant> + Send + Sync + 'static) -> Self {
        (self.plan.room, self.plan.is_ahead, self.plan.heed) = (Arc::new(room), false, Duration::ZERO);
        self
    }

    /// Like [`run_until`](Self::run_until), but without its own thread. For handlers that never block their thread, on a
    /// runtime that many such workers share.
    ///
    /// # Errors
    /// Same as [`run_until`](Self::run_until).
    #[doc(hidden)]
    pub async fn run_here_until(self, stop: impl Future<Output = ()>) -> Result<Summary, Error> {
        let (told, stopped) = watch::channel(false);
        until(stop, told, Dispatcher::new(self.plan, Goal::Endless, Handle::current()).run(stopped)).await
    }
}
