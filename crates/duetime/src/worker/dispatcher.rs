//! The dispatcher: one loop that never blocks and never awaits a call. Calls are tasks on a separate runtime, handlers are
//! tasks of the caller's runtime; both report back as events. Workers and deliveries to targets share it.

use super::executor::{Executor, Report};
use super::handlers::Handlers;
use super::leases::Leases;
use super::outbox::{Group, Outbox};
use super::prefetch::{Prefetch, WAIT_MAX};
use super::turns::Turns;
use super::{Plan, Room};
use crate::client::Client;
use crate::error::{Answers, Error};
use crate::request_id;
use duetime_core::api::Span;
use duetime_core::engine::{Extension, Outcome, Reservation, ReserveRequest, Settlement, Source};
use duetime_core::rules::Failure;
use duetime_core::{Error as CoreError, Job, Receipt};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

/// How long a reserve waits for jobs.
const WAIT: Span = Span(20_000);
/// Maximum number of leases extended in one call.
const EXTEND_MAX: usize = 1_000;
/// How often leases and waiting jobs are checked while there are any.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum number of reports processed at once, and room for how many is kept: a server has a worker for each queue with a target.
const REPORTS_MAX: usize = 1_024;
const REPORTS_KEPT: usize = 16;
/// The delay with which a job of an unknown kind is released.
pub(super) const UNKNOWN_DELAY: Span = Span(5_000);
/// The delay with which a job is released if its kind has as many handlers as it may have.
const FULL_DELAY: Span = Span(1_000);
/// Maximum number of unknown kinds remembered as logged.
const UNKNOWN_LOGGED_MAX: usize = 1_000;
/// Time limit for aborted handlers to end and for the last outcomes to be acknowledged.
const LEAVE: Duration = Duration::from_secs(2);

/// A summary of a worker's run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Attempts that succeeded.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Jobs that were released.
    pub released: u64,
    /// Attempts whose outcome does not count, because the lease had ended or the outcome could not be delivered.
    pub lost: u64,
}

/// When the worker is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// On a signal.
    Endless,
    /// When nothing is due.
    Once,
}

/// The phase of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    /// Waits for handlers to finish.
    Finishing(Instant),
    /// The handlers' tokens are cancelled.
    Heeding(Instant),
    /// The handlers are aborted.
    Leaving(Instant),
}

/// The state of a worker.
pub(super) struct Dispatcher {
    goal: Goal,
    phase: Phase,
    prefetch: Prefetch,
    executor: Executor,
    leases: Leases,
    outbox: Outbox,
    calls: Calls,
    /// The last reserve found nothing, and nothing has been settled since it was sent.
    is_dry: bool,
    summary: Summary,
    /// An error that does not go away by itself.
    error: Option<Error>,
    /// Whether any reserve was ever answered, and if not, the last error.
    was_answered: bool,
    unanswered: Option<Error>,
    room: Room,
    heed: Duration,
    stop_limit: Duration,
    handlers: Handlers,
    unknown_logged: HashSet<Arc<str>>,
    reports: mpsc::UnboundedReceiver<Report>,
    look_at: Instant,
}

impl Dispatcher {
    pub(super) fn new(plan: Plan, goal: Goal, handlers: Handle) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        Self {
            goal,
            phase: Phase::Working,
            prefetch: Prefetch::new(plan.is_ahead),
            executor: Executor::new(plan.client.clone(), handlers, sender),
            leases: Leases::default(),
            outbox: Outbox::default(),
            calls: Calls::new(plan.client.detached(), plan.turns(), plan.name.clone(), plan.lease),
            is_dry: false,
            summary: Summary::default(),
            error: None,
            was_answered: false,
            unanswered: None,
            room: plan.room,
            heed: plan.heed,
            stop_limit: plan.stop_limit,
            handlers: plan.handlers,
            unknown_logged: HashSet::new(),
            reports,
            look_at: Instant::now(),
        }
    }

    pub(super) async fn run(mut self, mut stopped: watch::Receiver<bool>) -> Result<Summary, Error> {
        let mut reports = Vec::new();
        let mut listens = true;
        while !self.is_done() {
            let now = Instant::now();
            self.start_jobs(now);
            self.settle(now);
            self.reserve(now);
            let wake = self.wake(now);
            tokio::select! {
                // A stop is handled before everything else, and leases before the rest, which can wait.
                biased;
                told = stopped.changed(), if listens => {
                    // A dropped sender means that no caller waits for the worker any more.
                    listens = told.is_ok();
                    self.stop(if told.is_ok() { self.stop_limit } else { Duration::ZERO });
                }
                () = sleep_until(wake.unwrap_or(now)), if wake.is_some() => self.look(Instant::now()),
                _ = self.reports.recv_many(&mut reports, REPORTS_MAX) => self.finished(&mut reports),
                answer = self.calls.next(), if !self.calls.is_empty() => if let Some(answer) = answer {
                    self.answered(answer);
                },
            }
        }
        match self.error.or(self.unanswered) {
            Some(error) => Err(error),
            None => Ok(self.summary),
        }
    }

    fn is_done(&self) -> bool {
        let is_idle = self.executor.running() == 0 && self.outbox.is_empty() && self.calls.is_empty();
        match self.phase {
            Phase::Working => self.goal == Goal::Once && self.is_dry && self.leases.is_empty() && is_idle,
            Phase::Leaving(until) if Instant::now() >= until => {
                let running = self.executor.running();
                warn!(
                    running,
                    "stopped while handlers were running or outcomes were not acknowledged; their jobs will run \
                 again"
                );
                true
            }
            _ => is_idle,
        }
    }

    /// Starts waiting jobs while handlers are free.
    fn start_jobs(&mut self, now: Instant) {
        let room = (self.room)(now).unwrap_or(0);
        while self.executor.running() < room {
            let Some(job) = self.prefetch.next(|job| self.handlers.has_slot(job)) else { return };
            let receipt = job.receipt();
            if let Some(handler) = self.handlers.of(&job) {
                let running = self.executor.start(handler, self.handlers.slot(&job), job, now);
                self.leases.started(receipt, running);
            } else {
                self.log_unknown(&job);
                self.outbox.push(receipt, Outcome::release(UNKNOWN_DELAY));
            }
        }
    }

    fn log_unknown(&mut self, job: &Job) {
        if self.unknown_logged.len() < UNKNOWN_LOGGED_MAX && self.unknown_logged.insert(job.kind.clone()) {
            warn!(kind = %job.kind, queue = %job.queue, job = %job.id, "no handler for this kind; its jobs are released");
        }
    }

    /// Handles reports of ended handlers.
    fn finished(&mut self, reports: &mut Vec<Report>) {
        self.prefetch.finished(reports.len(), Instant::now());
        for Report { receipt, outcome } in reports.drain(..) {
            self.executor.reported();
            let Some(outcome) = outcome else { continue };
            if self.leases.finished(receipt) {
                let outcome = self.after_stop(outcome);
                self.outbox.push(receipt, outcome);
            } else {
                warn!(%receipt, code = "lease_lost", "the lease was lost before the handler ended; its outcome does not count");
                self.lost();
            }
        }
        reports.shrink_to(REPORTS_KEPT);
    }

    /// An outcome does not count.
    fn lost(&mut self) {
        self.summary.lost += 1;
        #[cfg(feature = "metrics")]
        crate::measure::lost();
    }

    /// A handler that fails after it was asked to stop is assumed to fail because of that, so its job is released.
    fn after_stop(&self, outcome: Outcome) -> Outcome {
        let was_told = matches!(self.phase, Phase::Heeding(_) | Phase::Leaving(_));
        match outcome {
            Outcome::Fail(failure) if was_told && !failure.is_final => Outcome::release(Span(0)),
            outcome => outcome,
        }
    }

    /// Releases jobs that have not started. If no handler may run until some time, they are delayed until then.
    fn give_back(&mut self, jobs: Vec<Job>, now: Instant) {
        let is_endless = self.goal == Goal::Endless && self.phase == Phase::Working;
        let held = if is_endless { (self.room)(now).err() } else { None };
        let delay = held.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        for job in jobs {
            self.outbox.push(job.receipt(), Outcome::release(delay));
        }
    }

    /// Releases jobs whose kinds have as many handlers as they may have. A worker that is to run everything gets them again at
    /// once.
    fn give_back_full(&mut self, jobs: Vec<Job>) {
        let delay = if self.goal == Goal::Endless { FULL_DELAY } else { Span(0) };
        for job in jobs {
            self.outbox.push(job.receipt(), Outcome::release(delay));
        }
    }

    /// Stops reserving, and releases jobs that have not started.
    fn stop(&mut self, limit: Duration) {
        self.calls.stop_reserving();
        let now = Instant::now();
        self.phase = match self.phase {
            // A second stop may shorten the limit.
            Phase::Working | Phase::Finishing(_) => Phase::Finishing(now + limit),
            later => later,
        };
        let waiting = self.prefetch.drain();
        self.give_back(waiting, now);
    }

    /// When to check leases, waiting jobs and the stop, or to retry a call; `None` if there is nothing to do.
    fn wake(&self, now: Instant) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Working => (self.room)(now).err(),
            Phase::Finishing(until) | Phase::Heeding(until) | Phase::Leaving(until) => Some(until),
        };
        let look = (!self.leases.is_empty()).then_some(self.look_at);
        [look, phase, self.outbox.not_before(now), self.prefetch.not_before(now)].into_iter().flatten().min()
    }

    fn look(&mut self, now: Instant) {
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.leases.cancel_over(now);
            self.extend(now);
            let (startable, full) = self.prefetch.overdue(now).into_iter().partition(|job| self.handlers.has_slot(job));
            self.give_back(startable, now);
            self.give_back_full(full);
            // Their handlers stay counted as running until the runtime responds, so no further jobs are reserved for it.
            for receipt in self.leases.take_unbegun(now, WAIT_MAX) {
                self.outbox.push(receipt, Outcome::release(Span(0)));
            }
        }
        self.phase = match self.phase {
            Phase::Finishing(until) if now >= until => {
                self.leases.cancel_all();
                Phase::Heeding(now + self.heed.min(self.stop_limit))
            }
            Phase::Heeding(until) if now >= until => {
                warn!(running = self.executor.running(), "handlers are aborted and their jobs released");
                self.leases.abort_all();
                Phase::Leaving(now + LEAVE)
            }
            phase => phase,
        };
    }

    /// Handles an error that does not go away by itself: the worker stops gracefully and returns it.
    fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
        self.stop(self.stop_limit);
    }

    /// Reserves jobs for handlers that are free, or soon will be.
    fn reserve(&mut self, now: Instant) {
        let is_enough = self.goal == Goal::Once && self.is_dry;
        if self.phase != Phase::Working || self.calls.reserving.is_some() || is_enough || self.outbox.is_full() {
            return;
        }
        let Ok(room) = (self.room)(now) else { return };
        let idle = room.saturating_sub(self.executor.running());
        let limit = self.prefetch.wanted(idle, now);
        if limit == 0 {
            return;
        }
        let mut request = ReserveRequest::new(Source::Queues(self.calls.turns.order())).limit(limit);
        let free = self.prefetch.free(idle);
        request.free = (free < limit).then_some(free);
        request.lease = self.calls.lease;
        request.wait = if self.goal == Goal::Once || free == 0 { Span(0) } else { WAIT };
        request.request_id = self.calls.client.is_remote().then(request_id::next);
        request.worker = self.calls.worker.clone();
        self.calls.has_settled = false;
        let call = self.calls.reserve(request.clone());
        self.calls.reserving = Some((call, request));
    }

    /// Sends waiting outcomes, as many as are allowed in flight.
    fn settle(&mut self, now: Instant) {
        while let Some(group) = self.outbox.next(now) {
            let client = self.calls.client.clone();
            self.calls.tasks.spawn(async move {
                let result = client.leases().settle(group.clone()).await;
                Answer::Settled(group, result)
            });
        }
    }

    /// Extends the leases of which a third has passed.
    fn extend(&mut self, now: Instant) {
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
        let leases = receipts.iter().map(|&receipt| (receipt, self.leases.length(receipt))).collect();
        self.calls.tasks.spawn(async move {
            let result = client.leases().extend(leases).await;
            Answer::Extended(receipts, now, result)
        });
    }

    fn answered(&mut self, answer: Answer) {
        let now = Instant::now();
        match answer {
            Answer::Reserved(result) => self.reserved(result, now),
            Answer::Settled(group, result) => self.settled(group, result, now),
            Answer::Extended(receipts, asked_at, result) => self.extended(&receipts, asked_at, result, now),
        }
    }

    fn reserved(&mut self, result: Result<Reservation, Error>, now: Instant) {
        let request = self.calls.reserving.take().map(|(_, request)| request);
        // If it got fewer jobs than that, no more were due.
        let free = request.as_ref().map_or(1, |request| request.free.unwrap_or(request.limit));
        if let (Some(request), Ok(reservation)) = (request, &result) {
            self.calls.turns.handed_out(free, reservation.leases.iter().map(|lease| &lease.job.queue));
            self.prefetch.got(reservation.leases.len(), request.limit);
        }
        self.was_answered |= result.is_ok();
        self.unanswered = result.as_ref().err().filter(|_| !self.was_answered).cloned();
        match result {
            Ok(reservation) => {
                if self.prefetch.answered() {
                    info!("jobs are handed out again");
                }
                self.is_dry = reservation.leases.is_empty() && free > 0 && !self.calls.has_settled;
                for lease in reservation.leases {
                    self.leases.insert(&lease.job, lease.length.0, now);
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
        if matches!((error.core(), &outcome), (Some(CoreError::Invalid { .. }), Outcome::Complete { .. })) {
            let message = Arc::from(format!("the outcome was refused: {error}"));
            self.outbox.push(receipt, Outcome::Fail(Failure::new(message)));
            return;
        }
        self.leases.remove(receipt);
        self.lost();
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
                Err(error) if matches!(error.core(), Some(CoreError::LeaseLost(_) | CoreError::NotFound(_))) => {
                    if self.leases.lost(receipt) {
                        warn!(%receipt, code = "lease_lost", "a lease is lost; its handler is asked to stop");
                    }
                }
                Err(_) => self.leases.not_extended(receipt, now),
            }
        }
    }
}

/// The answer to a call.
enum Answer {
    Reserved(Result<Reservation, Error>),
    Settled(Group, Result<Answers<Settlement>, Error>),
    Extended(Vec<Receipt>, Instant, Result<Answers<Extension>, Error>),
}

/// Calls in flight.
struct Calls {
    client: Client,
    turns: Turns,
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
    pub(super) fn new(client: Client, turns: Turns, worker: Option<Arc<str>>, lease: Option<Span>) -> Self {
        Self {
            client,
            turns,
            worker,
            lease,
            tasks: JoinSet::new(),
            reserving: None,
            has_settled: false,
            extending: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The next answer; `None` if the call was cancelled. Call it only while calls are in flight.
    async fn next(&mut self) -> Option<Answer> {
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
    fn stop_reserving(&mut self) {
        let Some((call, request)) = self.reserving.take() else { return };
        call.abort();
        if self.client.is_remote() {
            self.reserve(request.wait(Span(0)));
        }
    }
}
