//! The account of a real system: requests of clients and their answers about jobs and locks, and whether these keep the
//! promises.
//!
//! The simulation sees each step as it happens. Through a real server, a client sees only when it sent a request and got the
//! answer. So everything is judged in the end: by the timestamps of the store (the start and the promised end of a lease),
//! by the order of requests and answers, and by the final content of the store.
//!
//! It complains only if no order of the steps in between can explain a result: it never blames a correct system.

mod actors;
mod dropped;
mod field;
mod follow_ups;
mod jobs;
mod limits;
mod locks;
mod span;
mod system;

pub use actors::QUEUES;
pub use field::Field;
pub use system::System;

use crate::clock::Millis;
use crate::engine::{CancelOutcome, QueueSettings, Settlement};
use crate::error::Error;
use crate::json::Timestamp;
use crate::model::id::{JobId, Receipt};
use crate::model::job::{Due, Job, NewJob, State};
use crate::ports::Grant;
use crate::request::Patch;
use crate::testing::edits::Edits;
use span::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest difference of two readings of a clock that are cut to milliseconds.
const CUT_MS: u64 = 2;

/// An instant: by the wall clock of the store, and by a monotonic clock of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The wall clock.
    pub wall: Millis,
    /// The monotonic one.
    pub mono: Millis,
}

/// A request: from before it was sent until there was an answer, or it was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Before it was sent.
    pub asked: At,
    /// After it was answered.
    pub answered: At,
}

/// A loss of data in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The broker lost all that it held.
    Emptied,
    /// The broker is back in an earlier state: another server took over, for example. This is over once it was compared with
    /// the ledger.
    FellBack,
    /// Its clock was set.
    ClockSet,
    /// A process that holds leases in memory was killed. The leases that it answered last may not be recorded.
    Killed,
}

/// The way in which a holder wants to end its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The job is done.
    Complete,
    /// It has failed for good.
    FailFinally,
    /// It comes back after this many milliseconds at the earliest.
    Again(u64),
}

/// All that clients have observed.
#[derive(Debug, Default)]
pub struct Account {
    /// Whether acknowledged changes are in a ledger, which outlives the broker.
    has_ledger: bool,
    jobs: BTreeMap<JobId, Life>,
    /// The job that each push has made, by queue and origin.
    origins: BTreeMap<(Arc<str>, Arc<str>), JobId>,
    locks: BTreeMap<Arc<str>, Vec<locks::Hold>>,
    settings: BTreeMap<Arc<str>, Vec<limits::Setting>>,
    losses: Vec<(Loss, Millis, Millis)>,
    dropped: Vec<dropped::Dropped>,
    /// Takes without an answer: jobs may be taken that no client got.
    lost_takes: u64,
    wrong: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

/// The history of a job.
#[derive(Debug, Default)]
struct Life {
    /// When its push was requested and acknowledged, when it was due, and after which delay.
    pushed: Option<(Call, Millis, u64)>,
    /// Whether a change of it was requested.
    is_touched: bool,
    /// By epoch.
    leases: BTreeMap<u64, HeldLease>,
    /// Answered as cancelled.
    cancelled: Vec<Call>,
    /// The first request to cancel it.
    cancel_asked: Option<Call>,
    edits: Edits,
}

/// A lease, or a take, which is over when it is answered.
#[derive(Debug)]
struct HeldLease {
    queue: Arc<str>,
    due_at: Millis,
    started_at: Millis,
    is_take: bool,
    span: Span,
    ends: Vec<End>,
}

/// An attempt to end a lease.
#[derive(Debug)]
struct End {
    wish: Wish,
    call: Call,
    answered: Answer,
}

/// The answer to the end of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The state that the job is in now, and whether that is recorded.
    State(State, bool),
    /// The lease had ended before.
    Refused,
    /// Nothing.
    Nothing,
}

impl Account {
    /// An empty one.
    pub fn new(has_ledger: bool) -> Self {
        Self { has_ledger, ..Self::default() }
    }

    /// The counts, by word.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Counts something.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Notes a violation.
    pub fn blame(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// Notes a loss of the store between these instants of the monotonic clock.
    pub fn lost(&mut self, loss: Loss, begin: Millis, end: Millis) {
        self.losses.push((loss, begin, end));
    }

    /// All jobs whose push was acknowledged, or that were handed out.
    pub fn ids(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    /// A push was acknowledged with this job; returns whether that is new. An earlier attempt may have made it, so the start
    /// of its delay is unknown for a push with an origin.
    pub fn pushed(&mut self, new: &NewJob, id: JobId, due_at: Millis, call: Call) -> bool {
        if let Some(origin) = &new.origin {
            let first = *self.origins.entry((new.queue.clone(), origin.clone())).or_insert(id);
            if first != id && self.has_ledger {
                self.blame(format!("a push made {first}, and its repeat {id}"));
            }
            let life = self.jobs.entry(id).or_default();
            let is_new = life.pushed.is_none();
            life.pushed.get_or_insert((call, 0, 0));
            self.count(if is_new { "jobs pushed" } else { "pushes repeated" });
            return is_new;
        }
        self.count("jobs pushed");
        let delay_ms = if let Due::After(delay) = new.due { delay.0 } else { 0 };
        self.jobs.entry(id).or_default().pushed = Some((call, due_at, delay_ms));
        true
    }

    /// A lease was handed out. A repeat of the same request is not noted again.
    pub fn leased(&mut self, job: &Job, lease_ms: u64, call: Call) {
        self.count("leases");
        let until = job.lease_until.unwrap_or(Timestamp(0));
        self.handed_out(job, Span::new(call, lease_ms, until.0), false, call);
    }

    /// A job was taken.
    pub fn taken(&mut self, job: &Job, call: Call) {
        self.count("jobs taken");
        self.handed_out(job, Span::new(call, 0, job.started_at.map_or(0, |at| at.0)), true, call);
        let answered = Answer::State(State::Succeeded, true);
        self.held(job.receipt()).ends.push(End { wish: Wish::Complete, call, answered });
    }

    /// A take was requested, and its outcome is unknown.
    pub fn lost_take(&mut self) {
        self.lost_takes += 1;
    }

    fn handed_out(&mut self, job: &Job, span: Span, is_take: bool, call: Call) {
        let (id, epoch, due_at) = (job.id, job.epoch, job.due_at);
        let started_at = job.started_at.unwrap_or(Timestamp(0));
        if started_at < due_at {
            self.blame(format!("{id}.{epoch} began at {started_at}, and was due at {due_at}"));
        }
        let held = HeldLease {
            queue: job.queue.clone(),
            due_at: due_at.0,
            started_at: started_at.0,
            is_take,
            span,
            ends: Vec::new(),
        };
        if let Some(before) = self.jobs.entry(id).or_default().leases.insert(epoch, held) {
            self.blame(format!("the receipt {id}.{epoch} was given twice: {call:?}, and before {before:?}"));
        }
    }

    /// A holder asked for this many milliseconds more, with the answer; `None` if there was no answer.
    pub fn extended(&mut self, receipt: Receipt, lease_ms: u64, call: Call, answer: Option<Result<Millis, ()>>) {
        self.count(match answer {
            Some(Ok(_)) => "leases extended",
            Some(Err(())) => "extends refused",
            None => "extends without an answer",
        });
        self.held(receipt).span.extended(call, lease_ms, answer);
    }

    /// A holder asked for the end of its lease, with the answer, if any.
    pub fn ended(&mut self, receipt: Receipt, wish: Wish, call: Call, answer: Option<&Result<Settlement, Error>>) {
        let answered = match answer {
            Some(Ok(settlement)) => Answer::State(settlement.state, settlement.recorded),
            Some(Err(Error::LeaseLost(_))) => Answer::Refused,
            Some(Err(error)) if !error.is_retryable() => {
                self.blame(format!("{wish:?} of {receipt} was answered {error}"));
                Answer::Nothing
            }
            Some(Err(_)) | None => Answer::Nothing,
        };
        self.count(match answered {
            Answer::State(..) => "leases ended",
            Answer::Refused => "ends refused",
            Answer::Nothing => "ends without an answer",
        });
        self.held(receipt).ends.push(End { wish, call, answered });
    }

    /// The cancellation of a job was requested, with the answer, if any.
    pub fn cancelled(&mut self, id: JobId, call: Call, answer: Option<CancelOutcome>) {
        let life = self.jobs.entry(id).or_default();
        life.cancel_asked.get_or_insert(call);
        if answer == Some(CancelOutcome::Cancelled) {
            life.cancelled.push(call);
            self.count("jobs cancelled");
        }
    }

    /// A change of a job was requested.
    pub fn touched(&mut self, id: JobId) {
        self.jobs.entry(id).or_default().is_touched = true;
        self.count("jobs changed");
    }

    /// An edit of a job was requested; `is_made` if that was answered.
    pub(crate) fn edited(&mut self, id: JobId, patch: &Patch, call: Call, is_made: bool) {
        let made = is_made.then_some(call.answered.mono);
        self.jobs.entry(id).or_default().edits.asked(patch, call.asked.mono, made);
        if is_made {
            self.count("jobs edited");
        }
    }

    /// Settings of a queue hold from now on; `is_known` if that was answered.
    pub fn configured(&mut self, queue: &Arc<str>, settings: &QueueSettings, call: Call, is_known: bool) {
        self.count("settings of queues");
        let setting = limits::Setting { limits: settings.limits(), call, is_known };
        self.settings.entry(queue.clone()).or_default().push(setting);
    }

    /// A lock was acquired.
    pub fn acquired(&mut self, name: &Arc<str>, grant: Grant, ttl_ms: u64, call: Call) {
        self.count("locks acquired");
        let span = Span::new(call, ttl_ms, grant.expires_at.0);
        let hold = locks::Hold { fence: grant.fence, call, ttl_ms, span, release: None };
        self.locks.entry(name.clone()).or_default().push(hold);
    }

    /// A holder asked for a renewal of its lock; as [`extended`](Self::extended).
    pub fn renewed(
        &mut self,
        name: &Arc<str>,
        fence: u64,
        ttl_ms: u64,
        call: Call,
        answer: Option<Result<Millis, ()>>,
    ) {
        let holds = self.locks.get_mut(name).expect("it was acquired");
        let hold = holds.iter_mut().rfind(|hold| hold.fence == fence).expect("it was acquired");
        hold.span.extended(call, ttl_ms, answer);
    }

    /// A holder asks for its lock to be released.
    pub fn releasing(&mut self, name: &Arc<str>, fence: u64, at: At) {
        let holds = self.locks.get_mut(name).expect("it was acquired");
        let hold = holds.iter_mut().rfind(|hold| hold.fence == fence).expect("it was acquired");
        hold.release.get_or_insert(at);
    }

    fn held(&mut self, receipt: Receipt) -> &mut HeldLease {
        let life = self.jobs.get_mut(&receipt.id).expect("it was handed out");
        life.leases.get_mut(&receipt.epoch).expect("it was handed out")
    }

    /// The violations, given the final content of the store, after all jobs have been worked off.
    pub fn judge(&self, records: &BTreeMap<JobId, Job>) -> Vec<String> {
        let mut wrong = self.wrong.clone();
        for (&id, life) in &self.jobs {
            let found = self.judge_job(id, life, records.get(&id));
            if !found.is_empty() {
                wrong.extend(found);
                wrong.push(format!("    of {id}: {life:?}\n    recorded as {:?}", records.get(&id)));
            }
        }
        wrong.extend(self.judge_follow_ups(records));
        wrong.extend(self.judge_limits());
        wrong.extend(self.judge_locks());
        if !wrong.is_empty() {
            wrong.push(format!("    what befell the store: {:?}", self.losses));
        }
        wrong
    }

    /// Whether one of these losses happened between these instants.
    fn befell(&self, what: &[Loss], one: At, other: At) -> bool {
        let (from, to) = (one.mono.min(other.mono), one.mono.max(other.mono));
        let overlaps = |begin: Millis, end: Millis| begin <= to && from <= end;
        self.losses.iter().any(|&(loss, begin, end)| what.contains(&loss) && overlaps(begin, end))
    }

    /// Whether a loss may have ended a holder's lease or lock.
    fn is_memory_lost(&self, span: &Span, to: At) -> bool {
        self.befell(&[Loss::Emptied, Loss::FellBack, Loss::ClockSet], span.call.asked, to) || self.is_grant_killed(span)
    }

    /// Whether the process was killed before the lease was written, because the disk was full, for example. The receipt
    /// before it is then valid again.
    fn is_grant_killed(&self, span: &Span) -> bool {
        span.answered().any(|call| self.befell(&[Loss::Killed], call.asked, call.answered))
    }

    fn is_clock_set(&self, from: At, to: At) -> bool {
        self.befell(&[Loss::ClockSet], from, to)
    }
}

fn earlier(one: At, other: At) -> At {
    if one.mono <= other.mono { one } else { other }
}

fn later(one: At, other: At) -> At {
    if one.mono >= other.mono { one } else { other }
}
