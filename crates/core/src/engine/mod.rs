//! The engine: all rules, between the edges above and the stores below.

mod request;

pub use request::*;

use crate::clock::Millis;
use crate::error::Error;
use crate::id::{JobId, Receipt};
use crate::job::{Job, NewJob};
use crate::ports::{Broker, Ledger, Registry};
use std::sync::Arc;

/// Where the engine keeps things.
#[derive(Clone)]
pub struct Stores {
    /// Live jobs.
    pub broker: Arc<dyn Broker>,
    /// All jobs.
    pub ledger: Arc<dyn Ledger>,
    /// Queue settings.
    pub registry: Arc<dyn Registry>,
}

/// A running engine: a cheap handle, to be cloned. A request that has begun is carried through even where its caller
/// goes away; only a reserve that waits is not.
#[derive(Clone)]
pub struct Engine {
    _stores: Stores,
}

/// One answer for each thing that was asked, in order.
pub type Answers<T> = Vec<Result<T, Error>>;

impl Engine {
    /// Restores leases, begins to load what is due within the horizon, and serves.
    ///
    /// # Errors
    /// Where the ledger or the registry cannot be read.
    pub async fn start(stores: Stores, options: Options) -> Result<Self, Error> {
        let _ = options;
        Ok(Self { _stores: stores })
    }

    /// The engine's now: the broker's clock.
    pub fn now(&self) -> Millis {
        todo!()
    }

    /// Pushes jobs; what is answered `Ok` is recorded. Not atomic as a whole.
    ///
    /// # Errors
    /// Where the batch as a whole breaks a limit.
    pub async fn push(&self, _jobs: Vec<NewJob>) -> Result<Answers<Pushed>, Error> {
        todo!()
    }

    /// Leases due jobs, waiting for some where none is due.
    ///
    /// # Errors
    /// Beyond a limit; [`Error::Backlog`]; [`Error::Stopping`].
    pub async fn reserve(&self, _request: ReserveRequest) -> Result<Handout, Error> {
        todo!()
    }

    /// Hands out due jobs and finishes them in one step: at most once.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub async fn take(&self, _request: TakeRequest) -> Result<Handout, Error> {
        todo!()
    }

    /// Ends leases.
    pub async fn settle(&self, _outcomes: Vec<(Receipt, Outcome)>) -> Answers<Settlement> {
        todo!()
    }

    /// Moves the end of leases to so many milliseconds from now (`None`: the length that they began with).
    pub async fn extend(&self, _leases: Vec<(Receipt, Option<u64>)>) -> Answers<Extension> {
        todo!()
    }

    /// One job.
    pub async fn job(&self, _id: JobId) -> Result<Job, Error> {
        todo!()
    }

    /// A page of jobs. `limit` is 1 to 1000.
    pub async fn find(&self, _query: &Query, _cursor: Option<&str>, _limit: usize) -> Result<Listed, Error> {
        todo!()
    }

    /// Cancels jobs.
    pub async fn cancel(&self, _targets: Vec<Target>) -> Answers<CancelOutcome> {
        todo!()
    }

    /// Changes a waiting job.
    pub async fn update(&self, _target: Target, _patch: Patch) -> Result<Job, Error> {
        todo!()
    }

    /// Makes a waiting job due now.
    pub async fn run(&self, _target: Target) -> Result<Job, Error> {
        todo!()
    }

    /// Makes finished jobs ready again, with attempt 0.
    pub async fn retry(&self, _targets: Vec<Target>) -> Answers<Job> {
        todo!()
    }

    /// Removes jobs that do not run, with their records.
    pub async fn delete(&self, _targets: Vec<Target>) -> Answers<()> {
        todo!()
    }

    /// Cancels, retries or deletes every job that the query finds. An empty query is refused.
    pub async fn bulk(&self, _query: &Query, _action: BulkAction) -> Result<BulkCounts, Error> {
        todo!()
    }

    /// All queues that have jobs or settings, by name.
    pub async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        todo!()
    }

    /// One queue, known or not.
    pub async fn queue(&self, _queue: &str) -> Result<QueueStatus, Error> {
        todo!()
    }

    /// Stops (or starts) handing out a queue's jobs; what runs goes on.
    pub async fn pause(&self, _queue: &str, _paused: bool) -> Result<QueueSettings, Error> {
        todo!()
    }

    /// Cancels every waiting job of a queue, with the message `purged`; answers how many.
    pub async fn purge(&self, _queue: &str) -> Result<u64, Error> {
        todo!()
    }

    /// Sets a queue's settings.
    pub async fn configure(&self, _queue: &str, _settings: QueueSettings) -> Result<QueueSettings, Error> {
        todo!()
    }

    /// How the engine is.
    pub fn health(&self) -> Health {
        todo!()
    }

    /// Refuses new requests, lets waiting ones go, records what is under way, and closes the stores.
    pub async fn stop(&self) -> Result<(), Error> {
        todo!()
    }
}
