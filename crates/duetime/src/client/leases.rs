//! Reserving, taking and settling: what a worker does. [`Worker`](crate::Worker) does it all by itself.

use super::pushes::only;
use super::{Client, ask, forward};
use crate::error::{Answers, Error};
use crate::push::millis_up;
use duetime_core::engine::{Extension, Outcome, Reservation, ReserveRequest, Settlement, TakeRequest};
use duetime_core::rules::Failure;
use duetime_core::{Payload, Receipt};
use std::sync::Arc;
use std::time::Duration;

impl Client {
    /// Leases due jobs, waiting for some where none is due. Where the caller goes away while it waits, nothing is
    /// leased.
    ///
    /// # Errors
    /// Beyond a limit, or where nothing can be handed out just now.
    pub async fn reserve(&self, request: ReserveRequest) -> Result<Reservation, Error> {
        forward!(self.reserve(request))
    }

    /// Hands out due jobs and finishes them in one step: at most once.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub async fn take(&self, request: TakeRequest) -> Result<Reservation, Error> {
        ask!(self.take(request))
    }

    /// Ends leases; one answer for each, in order. Repeating it does no harm.
    ///
    /// # Errors
    /// Where the call did not reach the engine, or its answer was lost.
    pub async fn settle(&self, outcomes: Vec<(Receipt, Outcome)>) -> Result<Answers<Settlement>, Error> {
        forward!(self.settle(outcomes))
    }

    /// Ends a lease: the job is done. The result, at most 1 MiB, is kept with it.
    ///
    /// # Errors
    /// [`LeaseLost`](duetime_core::Error::LeaseLost) where the lease has ended before.
    pub async fn complete(&self, receipt: Receipt, result: Option<Payload>) -> Result<Settlement, Error> {
        only(self.settle(vec![(receipt, Outcome::Complete { result })]).await?)
    }

    /// Ends a lease: the attempt failed.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn fail(&self, receipt: Receipt, failure: Failure) -> Result<Settlement, Error> {
        only(self.settle(vec![(receipt, Outcome::Fail(failure))]).await?)
    }

    /// Ends a lease: the job is given back, and the attempt does not count. Without a delay it keeps its place.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn release(&self, receipt: Receipt, delay: Duration) -> Result<Settlement, Error> {
        only(self.settle(vec![(receipt, Outcome::Release { delay_ms: millis_up(delay) })]).await?)
    }

    /// Says how far a leased job has come: 0 to 100 percent, and a note of at most 1 KiB. It is shown with the job until its
    /// next attempt begins. The lease is extended with it, by the length that it began with.
    ///
    /// # Errors
    /// [`LeaseLost`](duetime_core::Error::LeaseLost) where the lease has ended;
    /// [`Invalid`](duetime_core::Error::Invalid) beyond a limit.
    pub async fn progress(&self, receipt: Receipt, percent: u8, note: Option<Arc<str>>) -> Result<Extension, Error> {
        ask!(self.progress(receipt, percent, note))
    }

    /// Moves the end of leases to so many milliseconds from now (`None`: the length that they began with).
    ///
    /// # Errors
    /// Where the call did not reach the engine, or its answer was lost.
    pub async fn extend(&self, leases: Vec<(Receipt, Option<u64>)>) -> Result<Answers<Extension>, Error> {
        forward!(self.extend(leases))
    }
}
