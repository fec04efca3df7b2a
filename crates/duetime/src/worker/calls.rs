//! The dispatcher's calls, and what it makes of their answers.

use super::dispatcher::{Dispatcher, Goal, Phase};
use super::outbox::Group;
use crate::client::Client;
use crate::error::{Answers, Error};
use crate::request_id;
use duetime_core::engine::{Extension, Outcome, Reservation, ReserveRequest, Settlement, Source};
use duetime_core::rules::Failure;
use duetime_core::{Error as CoreError, Receipt};
use std::sync::Arc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tracing::{error, info, warn};

/// How long a reserve waits for jobs.
const WAIT_MS: u64 = 20_000;
/// Leases extended in one call.
const EXTEND_MAX: usize = 1_000;

/// A call that has come back.
pub(super) enum Answer {
    Reserved(Result<Reservation, Error>),
    Settled(Group, Result<Answers<Settlement>, Error>),
    Extended(Vec<Receipt>, Instant, Result<Answers<Extension>, Error>),
}

/// Calls on their way.
pub(super) struct Calls {
    client: Client,
    queues: Vec<Arc<str>>,
    worker: Option<Arc<str>>,
    lease_ms: Option<u64>,
    tasks: JoinSet<Answer>,
    reserving: Option<(AbortHandle, ReserveRequest)>,
    /// Whether something was settled since the last reserve was sent, which may not have seen what follows from it.
    has_settled: bool,
    extending: bool,
}

impl Calls {
    pub(super) fn new(client: Client, queues: Vec<Arc<str>>, worker: Option<Arc<str>>, lease_ms: Option<u64>) -> Self {
        Self {
            client,
            queues,
            worker,
            lease_ms,
            tasks: JoinSet::new(),
            reserving: None,
            has_settled: false,
            extending: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The next call that comes back; `None` where it was called off. To be asked only while there are any.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        match self.tasks.join_next().await? {
            Ok(answer) => Some(answer),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => None,
        }
    }

    fn reserve(&mut self, request: ReserveRequest) -> AbortHandle {
        let client = self.client.clone();
        self.tasks.spawn(async move { Answer::Reserved(client.reserve(request).await) })
    }

    /// Calls off the reserve that waits. A server may have leased jobs in that instant, and its answer be lost: the
    /// same request, repeated without a wait, is answered with them.
    pub(super) fn stop_reserving(&mut self) {
        let Some((call, request)) = self.reserving.take() else { return };
        call.abort();
        if self.client.is_remote() {
            self.reserve(ReserveRequest { wait_ms: 0, ..request });
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
            lease_ms: self.calls.lease_ms,
            wait_ms: if self.goal == Goal::Once { 0 } else { WAIT_MS },
            request_id: self.calls.client.is_remote().then(request_id::next),
            worker: self.calls.worker.clone(),
        };
        self.calls.has_settled = false;
        let call = self.calls.reserve(request.clone());
        self.calls.reserving = Some((call, request));
    }

    /// Sends outcomes, where some wait and may go.
    pub(super) fn settle(&mut self, now: Instant) {
        while let Some(group) = self.outbox.next(now) {
            let client = self.calls.client.clone();
            self.calls.tasks.spawn(async move {
                let result = client.settle(group.clone()).await;
                Answer::Settled(group, result)
            });
        }
    }

    /// Extends the leases whose third is over.
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
        // The length is named: a broker that was started anew no longer knows with which one a lease began.
        let leases = receipts.iter().map(|&receipt| (receipt, self.leases.lease_ms(receipt))).collect();
        self.calls.tasks.spawn(async move {
            let result = client.extend(leases).await;
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
            // What was asked for in vain while stopping is asked for no more.
            Err(_) if self.phase != Phase::Working => {}
            Err(error) if self.goal == Goal::Once || !self.passes(&error) => self.fail(error),
            Err(error) => {
                if self.prefetch.failed(now) {
                    warn!(%error, code = error.code(), "no jobs are handed out; trying again");
                }
            }
        }
    }

    /// Whether waiting may mend it. An engine in this process that was stopped does not come back.
    fn passes(&self, error: &Error) -> bool {
        let is_closed = matches!(error, Error::Core(CoreError::Stopping)) && !self.calls.client.is_remote();
        error.is_retryable() && !is_closed
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

    /// Some outcomes of a group, or all, were not taken, and are to be tried again after a pause.
    fn unsettled(&mut self, error: &Error, now: Instant) {
        if self.outbox.failed(now) {
            warn!(%error, code = error.code(), "outcomes cannot be delivered; trying again");
        }
    }

    fn counted(&mut self, receipt: Receipt, outcome: &Outcome) {
        self.leases.remove(receipt);
        match outcome {
            Outcome::Complete { .. } => self.summary.succeeded += 1,
            Outcome::Fail(_) => self.summary.failed += 1,
            Outcome::Release { .. } => self.summary.released += 1,
        }
    }

    /// An outcome was not taken: it is repeated for as long as the lease may last.
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
