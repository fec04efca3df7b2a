//! The dispatcher's calls and how their answers are handled.

use super::dispatcher::{Dispatcher, Goal, Phase};
use super::outbox::Group;
use crate::client::Client;
use crate::error::{Answers, Error};
use crate::request_id;
use duetime_core::api::Span;
use duetime_core::engine::{Extension, Outcome, Reservation, ReserveRequest, Settlement, Source};
use duetime_core::rules::Failure;
use duetime_core::{Error as CoreError, Receipt};
use std::sync::Arc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tracing::{error, info, warn};

/// How long a reserve waits for jobs.
const WAIT: Span = Span(20_000);
/// Maximum number of leases extended in one call.
const EXTEND_MAX: usize = 1_000;

/// The answer to a call.
pub(super) enum Answer {
    Reserved(Result<Reservation, Error>),
    Settled(Group, Result<Answers<Settlement>, Error>),
    Extended(Vec<Receipt>, Instant, Result<Answers<Extension>, Error>),
}

/// Calls in flight.
pub(super) struct Calls {
    client: Client,
    queues: Vec<Arc<str>>,
    worker: Option<Arc<str>>,
    lease: Option<Span>,
    tasks: JoinSet<Answer>,
    reserving: Option<(AbortHandle, ReserveRequest)>,
    /// Whether an outcome was settled since the last reserve was sent. That reserve may have missed jobs that became due as
    /// a result.
    has_settled: bool,
    extending: bool,
}

impl Calls {
    pub(super) fn new(client: Client, queues: Vec<Arc<str>>, worker: Option<Arc<str>>, lease: Option<Span>) -> Self {
        Self {
            client,
            queues,
            worker,
            lease,
            tasks: JoinSet::new(),
            reserving: None,
            has_settled: false,
            extending: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The next answer; `None` if the call was cancelled. Call it only while calls are in flight.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        match self.tasks.join_next().await? {
            Ok(answer) => Some(answer),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => None,
        }
    }

    fn reserve(&mut self, request: ReserveRequest) -> AbortHandle {
        let client = self.client.clone();
        self.tasks.spawn(async move { Answer::Reserved(client.leases().reserve(request).await) })
    }

    /// Cancels the waiting reserve. A server may have leased jobs at that moment, and its answer may be lost. Repeating the
    /// same request without a wait returns those leases.
    pub(super) fn stop_reserving(&mut self) {
        let Some((call, request)) = self.reserving.take() else { return };
        call.abort();
        if self.client.is_remote() {
            self.reserve(ReserveRequest { wait: Span(0), ..request });
        }
    }
}

impl Dispatcher {
    /// Reserves jobs for handlers that are free, or soon will be.
    pub(super) fn reserve(&mut self, now: Instant) {
        let is_enough = self.goal == Goal::Once && self.is_dry;
        if self.phase != Phase::Working || self.calls.reserving.is_some() || is_enough || self.outbox.is_full() {
            return;
        }
        let Ok(room) = (self.room)(now) else { return };
        let limit = self.prefetch.wanted(room.saturating_sub(self.executor.running()), now);
        if limit == 0 {
            return;
        }
        let request = ReserveRequest {
            from: Source::Queues(self.calls.queues.clone()),
            limit,
            lease: self.calls.lease,
            wait: if self.goal == Goal::Once { Span(0) } else { WAIT },
            request_id: self.calls.client.is_remote().then(request_id::next),
            worker: self.calls.worker.clone(),
        };
        self.calls.has_settled = false;
        let call = self.calls.reserve(request.clone());
        self.calls.reserving = Some((call, request));
    }

    /// Sends waiting outcomes, as many as are allowed in flight.
    pub(super) fn settle(&mut self, now: Instant) {
        while let Some(group) = self.outbox.next(now) {
            let client = self.calls.client.clone();
            self.calls.tasks.spawn(async move {
                let result = client.leases().settle(group.clone()).await;
                Answer::Settled(group, result)
            });
        }
    }

    /// Extends the leases of which a third has passed.
    pub(super) fn extend(&mut self, now: Instant) {
        if self.calls.extending {
            return;
        }
        let receipts = self.leases.take_due(now, EXTEND_MAX);
        if receipts.is_empty() {
            return;
        }
        self.calls.extending = true;
        let client = self.calls.client.clone();
        // The length is sent explicitly: a restarted broker no longer has the original length of a lease.
        let leases = receipts.iter().map(|&receipt| (receipt, self.leases.lease_ms(receipt))).collect();
        self.calls.tasks.spawn(async move {
            let result = client.leases().extend(leases).await;
            Answer::Extended(receipts, now, result)
        });
    }

    pub(super) fn answered(&mut self, answer: Answer) {
        let now = Instant::now();
        match answer {
            Answer::Reserved(result) => self.reserved(result, now),
            Answer::Settled(group, result) => self.settled(group, result, now),
            Answer::Extended(receipts, asked_at, result) => self.extended(&receipts, asked_at, result, now),
        }
    }

    fn reserved(&mut self, result: Result<Reservation, Error>, now: Instant) {
        self.calls.reserving = None;
        self.was_answered |= result.is_ok();
        self.unanswered = result.as_ref().err().filter(|_| !self.was_answered).cloned();
        match result {
            Ok(reservation) => {
                if self.prefetch.answered() {
                    info!("jobs are handed out again");
                }
                self.is_dry = reservation.leases.is_empty() && !self.calls.has_settled;
                for lease in reservation.leases {
                    self.leases.insert(&lease.job, lease.lease_ms, now);
                    if self.phase == Phase::Working {
                        self.prefetch.add(lease.job, now);
                    } else {
                        self.give_back(vec![lease.job], now);
                    }
                }
            }
            // A reserve that fails during a stop is not retried.
            Err(_) if self.phase != Phase::Working => {}
            Err(error) if self.goal == Goal::Once || !self.passes(&error) => self.fail(error),
            Err(error) => {
                if self.prefetch.failed(now) {
                    warn!(%error, code = error.code(), "no jobs are handed out; trying again");
                }
            }
        }
    }

    fn passes(&self, error: &Error) -> bool {
        self.calls.client.passes(error)
    }

    fn settled(&mut self, group: Group, result: Result<Answers<Settlement>, Error>, now: Instant) {
        self.is_dry = false;
        self.calls.has_settled = true;
        match result {
            Ok(answers) => {
                let mut unmade = None;
                for ((receipt, outcome), answer) in group.into_iter().zip(answers) {
                    match answer {
                        Ok(_) => self.counted(receipt, &outcome),
                        Err(error) => {
                            self.refused(receipt, outcome, &error, now);
                            unmade = Some(error).filter(|error| self.passes(error)).or(unmade);
                        }
                    }
                }
                match unmade {
                    None => self.outbox.answered(),
                    Some(error) => self.unsettled(&error, now),
                }
            }
            Err(error) => {
                self.unsettled(&error, now);
                for (receipt, outcome) in group {
                    self.refused(receipt, outcome, &error, now);
                }
            }
        }
    }

    /// Some or all outcomes of a group were not accepted; they are retried after a pause.
    fn unsettled(&mut self, error: &Error, now: Instant) {
        if self.outbox.failed(now) {
            warn!(%error, code = error.code(), "outcomes cannot be delivered; trying again");
        }
    }

    fn counted(&mut self, receipt: Receipt, outcome: &Outcome) {
        self.leases.remove(receipt);
        match outcome {
            Outcome::Complete { .. } => self.summary.succeeded += 1,
            Outcome::Fail(_) | Outcome::Park(_) => self.summary.failed += 1,
            Outcome::Release(_) => self.summary.released += 1,
        }
    }

    /// Handles an outcome that was not accepted: it is retried until the lease must have expired.
    fn refused(&mut self, receipt: Receipt, outcome: Outcome, error: &Error, now: Instant) {
        if self.passes(error) && !self.leases.is_over(receipt, now) {
            self.outbox.push(receipt, outcome);
            return;
        }
        if matches!((error, &outcome), (Error::Core(CoreError::Invalid { .. }), Outcome::Complete { .. })) {
            let message = Arc::from(format!("the outcome was refused: {error}"));
            self.outbox.push(receipt, Outcome::Fail(Failure { message, ..Failure::default() }));
            return;
        }
        self.leases.remove(receipt);
        self.summary.lost += 1;
        warn!(%receipt, %error, code = error.code(), "an outcome was refused because the lease is lost");
    }

    fn extended(
        &mut self,
        receipts: &[Receipt],
        asked_at: Instant,
        result: Result<Answers<Extension>, Error>,
        now: Instant,
    ) {
        self.calls.extending = false;
        let answers = match result {
            Ok(answers) => answers,
            Err(error) => {
                error!(%error, code = error.code(), leases = receipts.len(), "leases cannot be extended; trying again");
                receipts.iter().for_each(|&receipt| self.leases.not_extended(receipt, now));
                return;
            }
        };
        for (&receipt, answer) in receipts.iter().zip(answers) {
            match answer {
                Ok(extension) => self.leases.extended(receipt, asked_at, extension.cancel_asked),
                Err(Error::Core(CoreError::LeaseLost(_) | CoreError::NotFound(_))) => {
                    if self.leases.lost(receipt) {
                        warn!(%receipt, code = "lease_lost", "a lease is lost; its handler is asked to stop");
                    }
                }
                Err(_) => self.leases.not_extended(receipt, now),
            }
        }
    }
}
