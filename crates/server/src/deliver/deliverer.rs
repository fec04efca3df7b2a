//! The deliverer of one queue: reserves as much as may be under way, has it delivered, and settles what has ended.
//!
//! One loop that awaits nothing but events: calls and deliveries are tasks. It never polls: where nothing is due a
//! reserve waits, and while the target is to be left alone a timer does.

use super::crew::{Crew, Report};
use super::errand::Errand;
use super::outbox::{Group, Outbox};
use super::pace::Pace;
use super::{Event, Means};
use duetime::{Extension, Handout, Outcome, Settlement, Source};
use duetime_core::engine::{Answers, ReserveRequest};
use duetime_core::limits::RESERVE_JOBS_MAX;
use duetime_core::{Error, Receipt};
use futures_util::FutureExt;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Deliveries of a queue that are under way at a time in one process, where the queue has no `max_running`.
const RUNNING_DEFAULT: usize = 256;
/// The same, where it has.
const RUNNING_MAX: usize = RESERVE_JOBS_MAX;
/// How long a reserve waits for jobs.
const WAIT_MS: u64 = 30_000;
/// A lease is as long as a delivery may take and this much more, for what comes before and after.
const LEASE_MARGIN: Duration = Duration::from_secs(30);
/// It is extended rather than longer than this: so soon a crash is noticed.
const LEASE_MAX: Duration = Duration::from_secs(120);
/// A lease is extended when this part of it is over.
const EXTEND_PART: u32 = 3;
/// How often leases are looked at while there are any.
const LOOK: Duration = Duration::from_secs(1);
/// Pause after a reserve that failed.
const RESERVE_PAUSE: Duration = Duration::from_secs(1);
/// How long a stop waits for what is under way.
const STOP_MAX: Duration = Duration::from_secs(10);
/// And then for the last outcomes.
const LEAVE_MAX: Duration = Duration::from_secs(2);
/// Events taken up in one go.
const EVENTS_MAX: usize = 1_024;

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    /// What is under way may finish until then.
    Finishing(Instant),
    /// The rest is being given back until then.
    Leaving(Instant),
}

pub(super) struct Deliverer {
    queue: Arc<str>,
    means: Arc<Means>,
    lease: Duration,
    phase: Phase,
    pace: Pace,
    crew: Crew,
    /// Leases from reserve until the outcome is answered.
    leases: HashMap<Receipt, Lease>,
    outbox: Outbox,
    is_reserving: bool,
    reserve_not_before: Option<Instant>,
    is_failing: bool,
    look_at: Instant,
    stop: CancellationToken,
    events: mpsc::UnboundedReceiver<Event>,
    sender: mpsc::UnboundedSender<Event>,
}

struct Lease {
    extend_at: Instant,
    ends_at: Instant,
}

impl Deliverer {
    pub(super) fn new(
        queue: Arc<str>,
        errand: Errand,
        max_running: Option<u32>,
        means: Arc<Means>,
        stop: CancellationToken,
    ) -> Self {
        let now = Instant::now();
        let max = max_running.map_or(RUNNING_DEFAULT, |max| usize::try_from(max).unwrap_or(RUNNING_MAX));
        let (sender, events) = mpsc::unbounded_channel();
        Self {
            queue,
            lease: (errand.timeout() + LEASE_MARGIN).min(LEASE_MAX),
            phase: Phase::Working,
            pace: Pace::new(max.min(RUNNING_MAX), now),
            crew: Crew::new(means.clone(), Arc::new(errand), sender.clone()),
            means,
            leases: HashMap::new(),
            outbox: Outbox::default(),
            is_reserving: false,
            reserve_not_before: None,
            is_failing: false,
            look_at: now,
            stop,
            events,
            sender,
        }
    }

    /// Delivers until it is stopped, and then what is under way, within a limit.
    pub(super) async fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let now = Instant::now();
            self.reserve(now);
            self.settle(now);
            if self.is_done(now) {
                return;
            }
            let wake = self.wake(now);
            tokio::select! {
                biased;
                () = self.stop.cancelled(), if self.phase == Phase::Working => {
                    self.phase = Phase::Finishing(now + STOP_MAX);
                }
                () = sleep_until(wake.unwrap_or(now)), if wake.is_some() => self.look(Instant::now()),
                _ = self.events.recv_many(&mut events, EVENTS_MAX) => {
                    let now = Instant::now();
                    events.drain(..).for_each(|event| self.handle(event, now));
                }
            }
        }
    }

    fn is_done(&self, now: Instant) -> bool {
        let is_idle = self.crew.running() == 0 && self.outbox.is_empty() && !self.is_reserving;
        match self.phase {
            Phase::Working => false,
            Phase::Leaving(until) if now >= until => true,
            _ => is_idle,
        }
    }

    fn reserve(&mut self, now: Instant) {
        let is_early = self.reserve_not_before.is_some_and(|at| now < at);
        if self.phase != Phase::Working || self.is_reserving || is_early || self.outbox.is_full() {
            return;
        }
        let limit = self.pace.room(now).saturating_sub(self.crew.running());
        if limit == 0 {
            return;
        }
        self.is_reserving = true;
        let request = ReserveRequest {
            from: Source::Queues(vec![self.queue.clone()]),
            limit,
            lease_ms: Some(u64::try_from(self.lease.as_millis()).expect("it is at most two minutes")),
            wait_ms: WAIT_MS,
            request_id: self.means.engine.topology().is_shared().then(|| self.means.request_id()),
        };
        let (engine, stop) = (self.means.engine.clone(), self.stop.clone());
        self.call(async move {
            let again = ReserveRequest { wait_ms: 0, ..request.clone() };
            let reserved = tokio::select! {
                biased;
                reserved = engine.reserve(request) => reserved,
                // What was leased elsewhere in that instant is answered to the same request again.
                () = stop.cancelled() => match again.request_id {
                    Some(_) => engine.reserve(again).await,
                    None => Ok(Handout::default()),
                },
            };
            Event::Reserved(reserved)
        });
    }

    fn settle(&mut self, now: Instant) {
        while let Some(group) = self.outbox.next(now) {
            let engine = self.means.engine.clone();
            self.call(async move {
                let answers = engine.settle(group.clone()).await;
                Event::Settled(group, answers)
            });
        }
    }

    /// When to look at leases, or to go on after a pause; `None` where there is nothing to wait for but events.
    fn wake(&self, now: Instant) -> Option<Instant> {
        let look = (!self.leases.is_empty()).then_some(self.look_at);
        let phase = match self.phase {
            Phase::Working => self.pace.held_until(now).max(self.reserve_not_before.filter(|&at| at > now)),
            Phase::Finishing(until) | Phase::Leaving(until) => Some(until),
        };
        [look, phase, self.outbox.not_before(now)].into_iter().flatten().min()
    }

    fn look(&mut self, now: Instant) {
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.extend(now);
        }
        if let Phase::Finishing(until) = self.phase
            && now >= until
        {
            tracing::warn!(queue = %self.queue, deliveries = self.crew.running(), "deliveries are cut off and given back");
            self.crew.abort_all();
            self.phase = Phase::Leaving(now + LEAVE_MAX);
        }
    }

    fn extend(&mut self, now: Instant) {
        let due = self.leases.iter_mut().filter(|(_, lease)| lease.extend_at <= now);
        let due: Vec<Receipt> = due
            .map(|(receipt, lease)| {
                lease.extend_at = now + self.lease / EXTEND_PART;
                *receipt
            })
            .collect();
        if due.is_empty() {
            return;
        }
        let engine = self.means.engine.clone();
        self.call(async move {
            let answers = engine.extend(due.iter().map(|&receipt| (receipt, None)).collect()).await;
            Event::Extended(due, now, answers)
        });
    }

    /// Calls the engine in a task, and hears what it answers; also that it panicked.
    fn call(&self, call: impl Future<Output = Event> + Send + 'static) {
        let events = self.sender.clone();
        tokio::spawn(async move {
            let event = AssertUnwindSafe(call).catch_unwind().await.unwrap_or(Event::Panicked);
            // Nobody listens once the deliverer has ended.
            let _ = events.send(event);
        });
    }

    fn handle(&mut self, event: Event, now: Instant) {
        match event {
            Event::Reserved(reserved) => self.reserved(reserved, now),
            Event::Ended(Report { receipt, outcome, sign, began }) => {
                self.crew.ended(receipt);
                self.pace.ended(sign, began, now);
                self.outbox.push(receipt, outcome);
            }
            Event::Settled(group, answers) => self.settled(group, answers, now),
            Event::Extended(receipts, asked_at, answers) => self.extended(&receipts, asked_at, answers),
            // The answer will never come; a new deliverer takes over.
            Event::Panicked => panic!("a call of the engine panicked"),
        }
    }

    fn reserved(&mut self, reserved: Result<Handout, Error>, now: Instant) {
        self.is_reserving = false;
        let handout = match reserved {
            Ok(handout) => handout,
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) && self.phase == Phase::Working {
                    tracing::warn!(%error, queue = %self.queue, "no jobs to deliver are handed out: trying again");
                }
                self.reserve_not_before = Some(now + RESERVE_PAUSE);
                return;
            }
        };
        (self.is_failing, self.reserve_not_before) = (false, None);
        // It may be held by now, or be allowed less than when it was asked.
        let room = if self.phase == Phase::Working { self.pace.room(now) } else { 0 };
        let held = self.pace.held_until(now).map_or(Duration::ZERO, |until| until - now);
        let delay_ms = u64::try_from(held.as_millis()).unwrap_or(u64::MAX);
        for lease in handout.leases {
            let receipt = lease.job.receipt();
            let length = Duration::from_millis(lease.lease_ms);
            self.leases.insert(receipt, Lease { extend_at: now + length / EXTEND_PART, ends_at: now + length });
            if self.crew.running() < room {
                self.crew.start(lease.job, now);
            } else {
                self.outbox.push(receipt, Outcome::Release { delay_ms });
            }
        }
    }

    fn settled(&mut self, group: Group, answers: Answers<Settlement>, now: Instant) {
        self.outbox.answered();
        for ((receipt, outcome), answer) in group.into_iter().zip(answers) {
            let may_last = self.leases.get(&receipt).is_some_and(|lease| now < lease.ends_at);
            match answer {
                Err(error) if error.is_retryable() && may_last => {
                    self.outbox.push(receipt, outcome);
                    self.outbox.pause(now);
                }
                Err(error) => {
                    tracing::warn!(%receipt, %error, code = error.code(), queue = %self.queue, "the outcome of a delivery does not count");
                    self.leases.remove(&receipt);
                }
                Ok(_) => drop(self.leases.remove(&receipt)),
            }
        }
    }

    fn extended(&mut self, receipts: &[Receipt], asked_at: Instant, answers: Answers<Extension>) {
        for (receipt, answer) in receipts.iter().zip(answers) {
            match (self.leases.get_mut(receipt), answer) {
                (Some(lease), Ok(_)) => lease.ends_at = asked_at + self.lease,
                // The settle will be told the same.
                (Some(_), Err(error)) => tracing::debug!(%receipt, %error, "a lease could not be extended"),
                (None, _) => {}
            }
        }
    }
}

/// A name that no other request has: random for each process, counted within it.
pub(super) struct RequestIds {
    process: String,
    count: AtomicU64,
}

impl RequestIds {
    pub(super) fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let part = || RandomState::new().hash_one(0_u8);
        Self { process: format!("deliver-{:016x}{:016x}", part(), part()), count: AtomicU64::new(0) }
    }

    pub(super) fn next(&self) -> Arc<str> {
        Arc::from(format!("{}-{}", self.process, self.count.fetch_add(1, Ordering::Relaxed)))
    }
}
