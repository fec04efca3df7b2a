//! The dispatcher: one loop that never blocks and never awaits a call. Calls are tasks on a separate runtime, handlers are
//! tasks of the caller's runtime; both report back as events. Workers and deliveries to targets share it.

use super::calls::Calls;
use super::executor::{Executor, Report};
use super::handlers::Handlers;
use super::leases::Leases;
use super::outbox::Outbox;
use super::prefetch::{Prefetch, WAIT_MAX};
use super::{Plan, Room};
use crate::error::Error;
use duetime_core::Job;
use duetime_core::api::Span;
use duetime_core::engine::Outcome;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tracing::warn;

/// How often leases and waiting jobs are checked while there are any.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum number of reports processed at once.
const REPORTS_MAX: usize = 1_024;
/// The delay with which a job of an unknown kind is released.
pub(super) const UNKNOWN_DELAY: Span = Span(5_000);
/// Maximum number of unknown kinds remembered as logged.
const UNKNOWN_LOGGED_MAX: usize = 1_000;
/// Time limit for aborted handlers to end and for the last outcomes to be acknowledged.
const LEAVE: Duration = Duration::from_secs(2);

/// A summary of a worker's run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
pub(super) enum Phase {
    Working,
    /// Waits for handlers to finish.
    Finishing(Instant),
    /// The handlers' tokens are cancelled.
    Heeding(Instant),
    /// The handlers are aborted.
    Leaving(Instant),
}

/// The state of a worker. Calls and their answers are in [`calls`](super::calls).
pub(super) struct Dispatcher {
    pub(super) goal: Goal,
    pub(super) phase: Phase,
    pub(super) prefetch: Prefetch,
    pub(super) executor: Executor,
    pub(super) leases: Leases,
    pub(super) outbox: Outbox,
    pub(super) calls: Calls,
    /// The last reserve found nothing, and nothing has been settled since it was sent.
    pub(super) is_dry: bool,
    pub(super) summary: Summary,
    /// An error that does not go away by itself.
    pub(super) error: Option<Error>,
    /// Whether any reserve was ever answered, and if not, the last error.
    pub(super) was_answered: bool,
    pub(super) unanswered: Option<Error>,
    pub(super) room: Room,
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
            calls: Calls::new(plan.client.detached(), plan.queues(), plan.name.clone(), plan.lease),
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
        let mut reports = Vec::with_capacity(REPORTS_MAX);
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
            let Some(job) = self.prefetch.next() else { return };
            let receipt = job.receipt();
            if let Some(handler) = self.handlers.of(&job) {
                let running = self.executor.start(handler, job, now);
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
                self.summary.lost += 1;
            }
        }
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
    pub(super) fn give_back(&mut self, jobs: Vec<Job>, now: Instant) {
        let is_endless = self.goal == Goal::Endless && self.phase == Phase::Working;
        let held = if is_endless { (self.room)(now).err() } else { None };
        let delay = held.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        for job in jobs {
            self.outbox.push(job.receipt(), Outcome::release(delay));
        }
    }

    /// Stops reserving, and releases jobs that have not started.
    pub(super) fn stop(&mut self, limit: Duration) {
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
            let overdue = self.prefetch.overdue(now);
            self.give_back(overdue, now);
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
    pub(super) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
        self.stop(self.stop_limit);
    }
}
