//! Leases: reserving, taking and settling jobs.

use super::{Client, ask, forward};
use crate::error::{Answers, Error, only};
use duetime_core::engine::{Extension, Outcome, Reservation, ReserveRequest, Settlement, TakeRequest};
use duetime_core::rules::{Failure, Park};
use duetime_core::{Payload, Receipt};
use std::sync::Arc;
use std::time::Duration;

/// Leases of a worker of your own: see [`Client::leases`].
#[derive(Clone, Copy, Debug)]
pub struct Leases<'c> {
    client: &'c Client,
}

impl Client {
    /// Reserves and settles jobs, for a worker of your own. [`Worker`](crate::Worker) does all of this automatically.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # mod example {
    /// # use duetime::Client;
    /// use duetime::lease::{ReserveRequest, Source};
    ///
    /// # #[tokio::main]
    /// # pub async fn run() -> duetime::Result<()> {
    /// # let client = Client::memory().await?;
    /// # client.push_raw("remind", *b"7").queue("mail").await?;
    /// let from = Source::Queues(vec!["mail".into()]);
    /// let request = ReserveRequest::new(from).limit(1);
    /// for lease in client.leases().reserve(request).await?.leases {
    ///     client.leases().complete(lease.job.receipt(), None).await?;
    /// }
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(feature = "embedded")]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    pub fn leases(&self) -> Leases<'_> {
        Leases { client: self }
    }
}

impl Leases<'_> {
    /// Reserves due jobs. If none is due, waits as long as the request says. If the caller is dropped while it waits,
    /// nothing is leased.
    ///
    /// # Errors
    /// If a limit is exceeded, or if no jobs can be handed out at present.
    pub async fn reserve(self, request: ReserveRequest) -> Result<Reservation, Error> {
        forward!(self.client => reserve(request))
    }

    /// Takes due jobs: hands each out at most once, and records it as succeeded.
    ///
    /// # Errors
    /// Same as [`reserve`](Self::reserve).
    pub async fn take(self, request: TakeRequest) -> Result<Reservation, Error> {
        ask!(self.client => take(request))
    }

    /// Settles leases. Returns one answer for each, in order. Repeating the call is safe.
    ///
    /// # Errors
    /// If the call did not reach the engine, or its answer was lost.
    pub async fn settle(self, outcomes: Vec<(Receipt, Outcome)>) -> Result<Answers<Settlement>, Error> {
        forward!(self.client => settle(outcomes))
    }

    /// Completes a job. Its result, at most 1 MiB, is kept with its record.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) if the lease has already ended.
    pub async fn complete(self, receipt: Receipt, result: Option<Payload>) -> Result<Settlement, Error> {
        only(self.settle(vec![(receipt, Outcome::complete(result))]).await?)
    }

    /// Fails an attempt. The job's retry rule decides what follows.
    ///
    /// # Errors
    /// Same as [`complete`](Self::complete).
    pub async fn fail(self, receipt: Receipt, failure: Failure) -> Result<Settlement, Error> {
        only(self.settle(vec![(receipt, Outcome::Fail(failure))]).await?)
    }

    /// Releases a job; the attempt does not count. Without a delay the job keeps its due time. A job that has reached its
    /// `max_age` ends. [`settle`](Self::settle) with [`Outcome::Release`] can also give it another priority.
    ///
    /// # Errors
    /// Same as [`complete`](Self::complete).
    pub async fn release(self, receipt: Receipt, delay: Duration) -> Result<Settlement, Error> {
        only(self.settle(vec![(receipt, Outcome::release(delay))]).await?)
    }

    /// Parks a job: it has failed, and is kept until it is retried or deleted.
    ///
    /// # Errors
    /// Same as [`complete`](Self::complete).
    pub async fn park(self, receipt: Receipt, park: Park) -> Result<Settlement, Error> {
        only(self.settle(vec![(receipt, Outcome::Park(park))]).await?)
    }

    /// Reports the progress of a leased job: 0 to 100 percent, and a note of at most 1 KiB. It is shown with the job until
    /// its next attempt begins. The lease is extended by its original length.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) if the lease has ended;
    /// [`Invalid`](crate::ErrorKind::Invalid) if a limit is exceeded.
    pub async fn progress(self, receipt: Receipt, percent: u8, note: Option<Arc<str>>) -> Result<Extension, Error> {
        ask!(self.client => progress(receipt, percent, note))
    }

    /// Extends leases to this long from now, 1 s to 12 h (`None`: the original length of each).
    ///
    /// # Errors
    /// If the call did not reach the engine, or its answer was lost.
    pub async fn extend(self, leases: Vec<(Receipt, Option<Duration>)>) -> Result<Answers<Extension>, Error> {
        forward!(self.client => extend(leases))
    }
}
