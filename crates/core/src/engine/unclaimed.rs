//! Leases whose caller has disconnected: they are given back, and their attempts do not count. Nor does `max_age` end such a
//! job, since it has not run.
//!
//! A repeat of the same request gets the same leases, so those of a request with an id are not given back. They belong to
//! the repeat; if there is none, they expire.

use super::parts::observed::Observed;
use super::{Ending, Engine, Reservation};
use crate::error::Error;
use crate::ports::{Lease, Reserve, Reserved};
use std::future::{Future, poll_fn};
use std::pin::Pin;

/// Leases on their way to the caller. Dropped, they are given back.
#[derive(Debug)]
#[must_use = "dropped, it is given back"]
pub struct Unclaimed {
    engine: Engine,
    reservation: Reservation,
    may_be_repeated: bool,
}

impl Unclaimed {
    pub(super) fn new(engine: &Engine, leases: Vec<Lease>, may_be_repeated: bool) -> Self {
        let reservation = Reservation { leases, ..Reservation::default() };
        Self { engine: engine.clone(), reservation, may_be_repeated }
    }

    pub(super) fn with(mut self, reservation: Reservation) -> Self {
        let leases = std::mem::take(&mut self.reservation.leases);
        self.reservation = Reservation { leases, ..reservation };
        self
    }

    /// The leases, to look at.
    pub fn leases(&self) -> &[Lease] {
        &self.reservation.leases
    }

    /// The leases, for a caller that is still connected.
    pub fn claim(mut self) -> Reservation {
        std::mem::take(&mut self.reservation)
    }

    /// Gives them back now, whether or not the request may be repeated.
    pub async fn give_back(mut self) {
        let leases = std::mem::take(&mut self.reservation.leases);
        self.engine.release_all_of(leases).await;
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if self.reservation.leases.is_empty() || self.may_be_repeated {
            return;
        }
        let (engine, leases) = (self.engine.clone(), std::mem::take(&mut self.reservation.leases));
        self.engine.finish_alone(async move { engine.release_all_of(leases).await });
    }
}

impl Engine {
    /// Leases once. If the caller disconnects meanwhile, the step still runs to completion, and its leases are given back.
    pub(super) async fn lease(&self, reserve: Reserve) -> Result<Reserved, Error> {
        let (engine, may_be_repeated) = (self.clone(), reserve.request_id.is_some());
        let step = Box::pin(async move {
            let reserved = engine.reserve_due(reserve).await?;
            engine.observe_jobs(reserved.leases.iter().map(|lease| &lease.job), Observed::started);
            Ok(reserved)
        });
        let mut step = Step { engine: self, step: Some(step), may_be_repeated };
        let reserved = poll_fn(|context| step.step.as_mut().expect("it goes with this").as_mut().poll(context)).await;
        step.step = None;
        reserved
    }

    async fn release_all_of(&self, leases: Vec<Lease>) {
        let release = |lease: Lease| (lease.job.receipt(), Ending::Unclaimed);
        self.end_leases(leases.into_iter().map(release).collect()).await;
    }

    /// Runs background work; the engine does not stop before it is done.
    pub(super) fn finish_alone(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(work, &self.runtime);
    }
}

type Leasing = Pin<Box<dyn Future<Output = Result<Reserved, Error>> + Send>>;

/// A step of the broker that runs for a caller.
struct Step<'a> {
    engine: &'a Engine,
    /// `None` once it is done.
    step: Option<Leasing>,
    may_be_repeated: bool,
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        let Some(step) = self.step.take() else { return };
        let (engine, may_be_repeated) = (self.engine.clone(), self.may_be_repeated);
        self.engine.finish_alone(async move {
            if let Ok(reserved) = step.await {
                drop(engine.handed_out(reserved, may_be_repeated).await);
            }
        });
    }
}
