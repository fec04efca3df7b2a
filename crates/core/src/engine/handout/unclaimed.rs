//! Leases whose caller has disconnected: they are given back, and their attempts do not count. Nor does `max_age` end such a
//! job, since it has not run.
//!
//! Why this is hard: a caller that disconnects is a future that is dropped, at any `await`. Workers wait up to a minute and are
//! stopped at any time, so it happens all the time. Three places need care:
//!
//! - *While the broker leases.* Its call must not be cut off: jobs would be leased by nobody until their leases expire. So it
//!   is a separate future ([`Call`]). If its caller goes, it runs to its end in a task, and what it leased is given back.
//! - *While the leases are noted* (one process), and from then until the answer is written. They are in an [`Unclaimed`], which
//!   gives them back when it is dropped. Only the edge knows that an answer went out, so only the edge calls
//!   [`claim`](Unclaimed::claim).
//! - *While the engine stops.* The tasks that give back run to completion before it has stopped (`finish_alone`).
//!
//! An answer that was written and never read cannot be told from one that was. Such a lease expires. Or the caller sends a
//! `request_id`: a repeat of the same request gets the same leases, so those of a request with an id are not given back. They
//! belong to the repeat; if there is none, they expire.

use crate::engine::handout::Handout;
use crate::engine::observation::Observation;
use crate::error::Error;
use crate::ports::{HandOut, Lease, Reserve, Reserved};
use crate::request::{Ending, Reservation};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

/// Leases on their way to the caller. Dropped, they are given back.
#[must_use = "dropped, it is given back"]
pub struct Unclaimed {
    handout: Arc<Handout>,
    reservation: Reservation,
    may_be_repeated: bool,
}

impl Unclaimed {
    pub(super) fn new(handout: &Arc<Handout>, leases: Vec<Lease>, may_be_repeated: bool) -> Self {
        let reservation = Reservation { leases, ..Reservation::default() };
        Self { handout: handout.clone(), reservation, may_be_repeated }
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
        self.handout.release_all_of(leases).await;
    }
}

impl std::fmt::Debug for Unclaimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unclaimed").field("reservation", &self.reservation).finish_non_exhaustive()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if self.reservation.leases.is_empty() || self.may_be_repeated {
            return;
        }
        let (handout, leases) = (self.handout.clone(), std::mem::take(&mut self.reservation.leases));
        self.handout.supervisor.finish_alone(async move { handout.release_all_of(leases).await });
    }
}

impl Handout {
    /// Asks the broker once. If the caller disconnects meanwhile, the call still runs to completion, and its leases are given back.
    pub(super) async fn reserve_once(self: &Arc<Self>, reserve: Reserve, free: usize) -> Result<Reserved, Error> {
        let (handout, may_be_repeated) = (self.clone(), reserve.request_id.is_some());
        let future = Box::pin(async move {
            let reserve = Reserve { limit: handout.limit_of(&reserve, free), ..reserve };
            let ask = || handout.broker.reserve(reserve.clone());
            let mut reserved = handout.with_overflow(HandOut::Reserve(&reserve), ask).await?;
            handout.publisher.observe_jobs(reserved.leases.iter().map(|lease| &lease.job), Observation::started);
            handout.keep_startable(&mut reserved, free).await;
            Ok(reserved)
        });
        let mut call = Call { handout: self, future: Some(future), may_be_repeated };
        let reserved = poll_fn(|context| call.future.as_mut().expect("it goes with this").as_mut().poll(context)).await;
        call.future = None;
        reserved
    }

    pub(super) async fn release_all_of(&self, leases: Vec<Lease>) {
        let release = |lease: Lease| (lease.job.receipt(), Ending::Unclaimed);
        self.settler.end_leases(leases.into_iter().map(release).collect()).await;
    }
}

type ReserveFuture = Pin<Box<dyn Future<Output = Result<Reserved, Error>> + Send>>;

/// A call of the broker that runs for a caller.
struct Call<'a> {
    handout: &'a Arc<Handout>,
    /// `None` once it is done.
    future: Option<ReserveFuture>,
    may_be_repeated: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let Some(future) = self.future.take() else { return };
        let (handout, may_be_repeated) = (self.handout.clone(), self.may_be_repeated);
        self.handout.supervisor.finish_alone(async move {
            if let Ok(reserved) = future.await {
                drop(handout.note_leases(reserved, may_be_repeated).await);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::tests::{Fixture, QUEUE, job, pass};
    use crate::request::{Outcome, ReserveRequest};
    use std::time::Duration;

    async fn reserve(fixture: &Fixture, request: ReserveRequest) -> super::Unclaimed {
        fixture.services.handout.reserve(request, Into::into).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn leases_that_nobody_claims_are_given_back_and_their_attempts_do_not_count() {
        let fixture = Fixture::new().await;
        let pushed = fixture.push(job()).await;
        let unclaimed = reserve(&fixture, ReserveRequest::new(QUEUE)).await;
        assert_eq!(unclaimed.leases().len(), 1);
        drop(unclaimed);
        pass(Duration::ZERO).await;
        let again = fixture.lease(1).await.remove(0);
        assert_eq!((again.id, again.attempt, again.crashes), (pushed.id, 1, 0));
        pass(Duration::ZERO).await;
        assert!(fixture.lease(1).await.is_empty(), "it was claimed");
    }

    #[tokio::test(start_paused = true)]
    async fn leases_of_a_request_that_may_be_repeated_belong_to_the_repeat() {
        let fixture = Fixture::new().await;
        let pushed = fixture.push(job()).await;
        let request = || ReserveRequest::new(QUEUE).request_id("r");
        drop(reserve(&fixture, request()).await);
        pass(Duration::ZERO).await;
        assert!(fixture.lease(1).await.is_empty(), "nobody else gets it");
        let repeat = reserve(&fixture, request()).await.claim();
        assert_eq!(repeat.leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [pushed.id]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeat_whose_leases_have_ended_does_not_wait() {
        let fixture = Fixture::new().await;
        fixture.push(job()).await;
        let request = || ReserveRequest::new(QUEUE).request_id("r");
        let lease = reserve(&fixture, request()).await.claim().leases.remove(0);
        fixture.settle(lease.job.receipt(), Outcome::release(Duration::ZERO)).await.unwrap();
        let waiting = reserve(&fixture, request().wait(Duration::from_secs(60)));
        let repeat = tokio::time::timeout(Duration::from_secs(1), waiting).await.expect("at once");
        assert_eq!(repeat.leases().len(), 0);
        assert_eq!(fixture.lease(1).await.len(), 1, "the job is there for a new request");
    }

    /// A caller may go at any await: here before the broker has answered.
    #[tokio::test(start_paused = true)]
    async fn a_call_that_leased_for_a_caller_who_has_gone_gives_back() {
        let fixture = Fixture::new().await;
        fixture.push(job()).await;
        fixture.life.freeze(Duration::from_secs(2));
        let handout = fixture.services.handout.clone();
        let asked = async { handout.reserve(ReserveRequest::new(QUEUE), Into::into).await.map(drop) };
        assert!(tokio::time::timeout(Duration::from_secs(1), asked).await.is_err());
        pass(Duration::from_secs(1)).await;
        assert_eq!(fixture.base.metrics.stores.reserve.counts().iter().sum::<u64>(), 1, "it went on to its end");
        assert_eq!(fixture.lease(1).await.remove(0).attempt, 1);
    }
}
