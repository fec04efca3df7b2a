//! The actors: pushers, workers, and a meddler.

use super::history::{History, LEASE_MS_LONGEST, RESCHEDULED, Shared};
use super::moment::{At, RequestTime};
use crate::api::Span;
use crate::clock::{Clock, Millis};
use crate::engine::{
    BulkAction, CancelOutcome, Engine, JobRef, Outcome, Patch, Precondition, PushOutcome, Pushed, Query, QueueSettings,
    ReserveRequest, Source, TakeRequest, WhenFull,
};
use crate::json::Timestamp;
use crate::limits::{HOUR_MS, INSTANT_MS_MIN, MINUTE_MS, SECOND_MS};
use crate::model::follow_up::FollowUp;
use crate::model::id::{JobId, Receipt};
use crate::model::job::{Due, KeyUntil, NewJob, OnConflict, State};
use crate::model::options::JobOptions;
use crate::model::retry::{Backoff, Retry, WhenExhausted};
use crate::ports::Lease;
use crate::request::Pause;
use crate::rules::Failure;
use crate::schedule::{Schedule, Timing};
use crate::testing::edits::Edits;
use crate::testing::{ModelLedger, Random, TokioClock, adds_a_job};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

pub(super) const QUEUES: [&str; 3] = ["orders", "mail", "dead"];
/// Schedules that one actor edits.
const SCHEDULES: [&str; 2] = ["first", "second"];
/// Queues that are deleted now and then, while others use them.
const REMOVED: [&str; 2] = [QUEUES[1], QUEUES[2]];
/// A queue that only one actor uses, which never dies.
const TYPING_ERROR: &str = "mial";
/// How often it is deleted at the end, a second apart, while stores are away or jobs are just ending.
const DELETE_TRIES: usize = 600;
/// A queue whose limits only one actor sets, which never dies.
pub(super) const LIMITED: &str = "limited";

/// The pace of a world, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Some jobs are due within this time.
    pub(super) soon: u64,
    /// And some within this.
    pub(super) late: u64,
    /// Changed jobs are due within this.
    pub(super) changed: u64,
    /// The meddler sometimes sleeps for this long.
    pub(super) nap: u64,
    /// Whether there is one process only; then the meddler also steps the clock and makes the ledger unavailable.
    pub(super) is_alone: bool,
}

impl Pace {
    /// The pace of one process; simulated time costs little.
    pub(super) const SLOW: Self =
        Self { soon: 10 * MINUTE_MS, late: 3 * HOUR_MS, changed: 40 * MINUTE_MS, nap: 20 * MINUTE_MS, is_alone: true };
    /// The pace of several processes, which always check on each other.
    pub(super) const BRISK: Self = Self {
        soon: 2 * MINUTE_MS,
        late: 12 * MINUTE_MS,
        changed: 12 * MINUTE_MS,
        nap: 5 * SECOND_MS,
        is_alone: false,
    };
}

/// An actor, in one life of the process.
#[derive(Clone)]
pub(super) struct Actor {
    pub(super) engine: Engine,
    pub(super) history: Shared,
    pub(super) ledger: ModelLedger,
    pub(super) clock: Arc<TokioClock>,
    pub(super) random: Random,
    /// The life of the process, or the memory of the broker.
    pub(super) life: Arc<AtomicU64>,
    pub(super) pace: Pace,
}

impl Actor {
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().expect("no panic under this lock")
    }

    pub(super) fn at(&self) -> At {
        let life = self.life.load(Ordering::SeqCst);
        At { wall: self.engine.now(), mono: self.clock.mono(), life, wall_steps: self.clock.wall_steps() }
    }

    fn asked(&self, id: JobId) -> RequestTime {
        self.history().asked(id, self.at())
    }

    async fn pause(&mut self, ms_max: u64) {
        let ms = self.random.within(0..ms_max + 1);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn queue(&mut self) -> Arc<str> {
        let queues = [QUEUES[0], QUEUES[1], if self.pace.is_alone { QUEUES[0] } else { LIMITED }];
        Arc::from(*self.random.of(&queues))
    }

    fn new_job(&mut self) -> NewJob {
        let due = match self.random.within(0..10) {
            0..4 => Due::Now,
            4..7 => Due::After(Span(self.random.within(0..10 * SECOND_MS))),
            7..9 => Due::After(Span(self.random.within(0..self.pace.soon))),
            _ => Due::After(Span(self.random.within(0..self.pace.late))),
        };
        let random = &mut self.random;
        let key = random.percent(30).then(|| Arc::from(format!("key-{}", random.within(0..4))));
        let exhausted = [WhenExhausted::Keep, WhenExhausted::Drop, WhenExhausted::Restart];
        let moved = WhenExhausted::Move(Arc::from(QUEUES[2]));
        let when_exhausted = if random.percent(20) { moved } else { random.of(&exhausted).clone() };
        let retry = Retry {
            backoff: Some(Backoff::Steps(vec![Span(SECOND_MS), Span(2 * SECOND_MS)])),
            when_exhausted: Some(when_exhausted),
            ..Retry::default()
        };
        let number = random.any();
        NewJob {
            due,
            key,
            priority: random.within(0..3) as u32,
            on_conflict: *random.of(&[OnConflict::Keep, OnConflict::Replace, OnConflict::Reject]),
            key_until: *random.of(&[KeyUntil::Finished, KeyUntil::Started]),
            tags: vec![Arc::from(format!("tag-{}", random.within(0..5)))],
            lease: Some(Span(random.within(1..5) * SECOND_MS)),
            options: Self::options(random, retry),
            expires: random.percent(10).then(|| random.within(1..60) * SECOND_MS).map(Span),
            queue: self.queue(),
            ..NewJob::new(number.to_be_bytes())
        }
    }

    fn options(random: &mut Random, retry: Retry) -> JobOptions {
        // A copy in another queue would have what follows.
        let may_lead = !matches!(retry.when_exhausted, Some(WhenExhausted::Move(_)));
        let mut list = |kind: &str| {
            let lease = Some(Span(2 * SECOND_MS));
            let next = NewJob { kind: kind.into(), queue: QUEUES[0].into(), lease, ..NewJob::new(*b"next") };
            let count = if may_lead && random.percent(30) { random.within(1..3) } else { 0 };
            (count > 0).then(|| (0..count).map(|_| FollowUp::from(&next)).collect())
        };
        let (then, otherwise) = (list("then"), list("otherwise"));
        let options: JobOptions = if random.percent(50) { retry.into() } else { JobOptions::default() };
        JobOptions { then, otherwise, ..options }
    }

    pub(super) async fn push_for_ever(mut self) {
        loop {
            let count = if self.random.percent(70) { 1 } else { self.random.within(2..20) };
            let mut jobs: Vec<NewJob> = (0..count).map(|_| self.new_job()).collect();
            // Repeated as if it had not been answered.
            let pushes = if self.random.percent(30) { self.random.within(2..4) } else { 1 };
            if pushes > 1 {
                let push = self.random.any();
                (0..).zip(&mut jobs).for_each(|(n, job)| job.origin = Some(Arc::from(format!("{push}-{n}"))));
            }
            for _ in 0..pushes {
                let at = self.at();
                self.history().replacing.begin(&jobs);
                jobs.iter().for_each(|new| self.history().removing.pushing(new));
                let answers = self.engine.push(jobs.clone()).await.unwrap_or_default();
                for (new, pushed) in jobs.iter().zip(answers) {
                    self.history().replacing.answered(new, &pushed);
                    self.history().removing.answered(new, &pushed);
                    // If the clock is set meanwhile, it cannot be known what is early.
                    let due = if self.pace.is_alone { Due::Now } else { new.due };
                    match pushed {
                        Ok(Pushed { job, outcome: PushOutcome::Created }) => self.history().pushed(job, due, at),
                        Ok(Pushed { job, outcome: PushOutcome::Repeated }) => self.history().pushed(job, Due::Now, at),
                        _ => {}
                    }
                }
                self.pause(3 * SECOND_MS).await;
            }
        }
    }

    /// Works until it dies; a `calm` worker completes everything.
    pub(super) async fn work_for_ever(mut self, calm: bool) {
        loop {
            let mut queues: Vec<Arc<str>> = QUEUES.iter().chain([&LIMITED]).map(|queue| Arc::from(*queue)).collect();
            let first = self.random.within(0..4) as usize;
            queues.rotate_left(first);
            let request = ReserveRequest {
                from: Source::Queues(queues),
                limit: self.random.within(1..6) as usize,
                free: None,
                lease: None,
                wait: Span(self.random.within(0..60) * SECOND_MS),
                request_id: None,
                worker: None,
            };
            let Ok(reservation) = self.engine.reserve(request).await else {
                self.pause(SECOND_MS).await;
                continue;
            };
            let at = self.at();
            if self.pace.is_alone {
                reservation.leases.iter().for_each(|lease| self.history().handed_out(lease, at));
            }
            reservation.leases.iter().for_each(|lease| self.history().claimed(lease.job.receipt()));
            for lease in reservation.leases {
                self.work(lease, calm).await;
            }
        }
    }

    async fn work(&mut self, lease: Lease, calm: bool) {
        let receipt = lease.job.receipt();
        if !calm {
            self.pause(2 * SECOND_MS).await;
        }
        let outcome = match self.random.within(0..100) {
            _ if calm => completed(receipt),
            0..45 => completed(receipt),
            45..63 => Outcome::Fail(Failure {
                message: "no".into(),
                is_final: self.random.percent(20),
                retry_after: self.random.percent(20).then_some(Span(500)),
            }),
            63..70 => Outcome::release(Span(self.random.within(0..3) * SECOND_MS)),
            70..90 => return self.hold_on(&lease).await,
            // It crashed.
            _ => return,
        };
        if self.random.percent(20) {
            // It is cancelled while its end is on its way to the ledger.
            tokio::join!(self.settle(receipt, outcome), self.cancel(receipt.id.into()));
        } else {
            self.settle(receipt, outcome).await;
        }
    }

    async fn settle(&self, receipt: Receipt, outcome: Outcome) {
        self.history().settling(receipt);
        let asked = self.asked(receipt.id);
        if let Some(Ok(settlement)) = self.engine.settle(vec![(receipt, outcome)]).await.pop() {
            let at = self.at();
            self.history().settled(receipt, asked, settlement.state, &self.ledger, at);
            self.history().ended(receipt.id, asked, settlement.state, settlement.recorded, at);
        }
    }

    /// Extends a lease about when it ends, perhaps after the reaper has seen it, and gives up some time.
    async fn hold_on(&mut self, lease: &Lease) {
        let left_ms = lease.job.lease_until.map_or(0, |until| until.0.saturating_sub(self.engine.now()));
        let mut until = self.clock.mono() + left_ms.min(lease.length.0);
        while self.random.percent(80) {
            let at = until + self.random.within(0..10);
            tokio::time::sleep(Duration::from_millis(at.saturating_sub(self.clock.mono()))).await;
            let receipt = lease.job.receipt();
            let lease_ms = self.random.within(1..LEASE_MS_LONGEST / SECOND_MS) * SECOND_MS;
            let asked = self.asked(receipt.id);
            until = self.clock.mono() + lease_ms;
            self.history().extending(receipt, until);
            let Some(Ok(_)) = self.engine.extend(vec![(receipt, Some(lease_ms))]).await.pop() else { return };
            let at = self.at();
            self.history().extended(receipt, asked, until, at);
        }
    }

    /// Cancels, changes, retries, deletes and pauses jobs; steps the clock and makes the ledger unavailable.
    pub(super) async fn meddle_for_ever(mut self) {
        loop {
            self.pause(2 * SECOND_MS).await;
            let ids = self.history().ids();
            if ids.is_empty() {
                continue;
            }
            let target = JobRef::from(*self.random.of(&ids));
            match self.random.within(0..100) {
                0..25 => self.cancel(target).await,
                25..45 => self.update(target).await,
                45..55 => {
                    self.history().touched(target.id, false, true);
                    drop(self.engine.retry(vec![target]).await);
                    self.history().revived(target.id);
                }
                55..60 => {
                    self.history().touched(target.id, true, false);
                    drop(self.engine.delete(vec![target]).await);
                }
                60..62 => {
                    let queue: Arc<str> = Arc::from(*self.random.of(&REMOVED));
                    let force = self.random.percent(50);
                    self.history().removing.begin(&queue, force.then(|| self.engine.now_at_most()));
                    drop(self.engine.delete_queue(&queue, force).await);
                }
                67..70 => {
                    let tag = Arc::from(format!("tag-{}", self.random.within(0..5)));
                    let query = Query { queue: Some(self.queue()), tag: Some(tag), ..Query::default() };
                    let due = Due::After(Span(self.random.within(0..self.pace.changed)));
                    let is_moved = query.tag.as_deref() == Some(RESCHEDULED);
                    let action = if is_moved { BulkAction::Reschedule(due) } else { BulkAction::Cancel };
                    drop(self.engine.bulk(&query, action).await);
                }
                70..75 => {
                    let queue: Arc<str> = Arc::from(*self.random.of(&QUEUES[..2]));
                    drop(self.engine.pause(&queue, Pause::UntilResumed).await);
                    self.pause(5 * SECOND_MS).await;
                    drop(self.engine.resume(&queue).await);
                }
                75..80 if self.pace.is_alone => {
                    self.ledger.set_away(true);
                    self.pause(5 * SECOND_MS).await;
                    self.ledger.set_away(false);
                }
                80..83 if self.pace.is_alone => self.step_clock(),
                83..88 => self.pause(self.pace.nap).await,
                _ => {
                    let found = self.engine.job(target.id).await;
                    if let Ok(job) = found {
                        let at = self.at();
                        self.history().saw(&job, at);
                    }
                }
            }
        }
    }

    async fn cancel(&self, target: JobRef) {
        let asked = self.asked(target.id);
        self.history().removing.cancelling(target.id);
        let answer = self.engine.cancel(vec![target]).await.pop();
        let at = self.at();
        match answer {
            Some(Ok(CancelOutcome::Cancelled)) => {
                self.history().ended(target.id, asked, State::Cancelled, true, at);
            }
            Some(Ok(CancelOutcome::CancelRequested)) => self.history().stopped(target.id, asked, at),
            // A shared broker keeps outcomes that are not recorded yet.
            Some(Ok(CancelOutcome::AlreadyFinished)) if self.pace.is_alone => {
                let ledger = self.ledger.clone();
                self.history().found_ended(target.id, asked, &ledger, at);
            }
            _ => {}
        }
    }

    async fn update(&mut self, target: JobRef) {
        self.history().touched(target.id, false, false);
        let due = Due::After(Span(self.random.within(0..self.pace.changed)));
        // Two at once, decided from one reading perhaps.
        let [a, b] = Edits::pair(&mut self.random);
        let a = Patch { due: Some(due), ..a };
        let (asked, other) = (self.at().mono, JobRef::from(target.id));
        tokio::join!(self.make(target, a, asked), self.make(other, b, asked));
    }

    async fn make(&self, target: JobRef, patch: Patch, asked: Millis) {
        let answer = self.engine.update(target, patch.clone()).await;
        let at = self.at();
        let mut history = self.history();
        history.edited(target.id, &patch, asked, answer.is_ok(), at);
        if let Ok(job) = answer {
            history.saw(&job, at);
        }
    }

    /// Takes until it dies, and repeats requests as if they had not been answered.
    pub(super) async fn take_for_ever(mut self) {
        loop {
            self.pause(4 * SECOND_MS).await;
            let number = self.random.any();
            let request = TakeRequest {
                from: Source::Queues(vec![self.queue()]),
                limit: self.random.within(1..4) as usize,
                due_from: None,
                due_to: None,
                request_id: self.random.percent(80).then(|| Arc::from(format!("take-{number}"))),
            };
            for _ in 0..self.random.within(1..4) {
                let revivals = self.history().revivals();
                if let Ok(reservation) = self.engine.take(request.clone()).await {
                    let at = self.at();
                    let jobs = reservation.leases.iter().map(|lease| &lease.job);
                    jobs.for_each(|job| self.history().taken(job, request.request_id.as_ref(), &revivals, at));
                }
                self.pause(2 * SECOND_MS).await;
            }
        }
    }

    fn step_clock(&mut self) {
        let step = (self.random.within(0..2 * HOUR_MS) as i64) - HOUR_MS as i64;
        self.clock.step_wall(step);
    }

    /// Pushes into the queue that has limits, so that jobs wait there whenever the limits might not hold.
    pub(super) async fn fill_for_ever(mut self) {
        loop {
            let new = NewJob { queue: Arc::from(LIMITED), ..NewJob::new(self.random.any().to_be_bytes()) };
            let at = self.at();
            for pushed in self.engine.push(vec![new.clone()]).await.into_iter().flatten() {
                self.history().removing.answered(&new, &pushed);
                if let Ok(Pushed { job, outcome: PushOutcome::Created }) = pushed {
                    self.history().pushed(job, Due::Now, at);
                }
            }
            self.pause(SECOND_MS).await;
        }
    }

    /// Keeps changing the limits of the queue that has some.
    pub(super) async fn limit_for_ever(mut self) {
        loop {
            let max_running = self.random.percent(60).then(|| self.random.within(1..4) as u32);
            let max_waiting = self.random.percent(50).then(|| self.random.within(1..20) as u32);
            let when_full = max_waiting.map(|_| *self.random.of(&[WhenFull::Refuse, WhenFull::Drop]));
            let paused = self.random.percent(40);
            let settings = QueueSettings { paused, max_running, max_waiting, when_full, ..QueueSettings::default() };
            self.history().given.limits = None;
            let limits = self.engine.configure(LIMITED, settings).await.ok().map(|settings| settings.limits());
            self.history().given.limits = limits;
            self.pause(8 * SECOND_MS).await;
        }
    }

    /// Keeps making a queue that nobody else uses, and deleting it: then it does not come back.
    pub(super) async fn remove_for_ever(mut self) {
        let queue: Arc<str> = Arc::from(TYPING_ERROR);
        loop {
            let new = NewJob {
                queue: queue.clone(),
                due: self.new_job().due,
                ..NewJob::new(self.random.any().to_be_bytes())
            };
            drop(self.engine.push(vec![new]).await);
            if self.random.percent(50) {
                drop(self.engine.pause(&queue, Pause::For(Span(self.random.within(1..5 * SECOND_MS)))).await);
            }
            self.pause(SECOND_MS).await;
            while self.engine.delete_queue(&queue, true).await.is_err() {
                self.pause(SECOND_MS).await;
            }
            for _ in 0..8 {
                self.pause(2 * SECOND_MS).await;
                let is_back =
                    self.ledger.jobs().iter().any(|job| job.queue == queue) || self.ledger.has_settings(&queue);
                if is_back {
                    let at = self.at();
                    self.history().violations.push(format!("a deleted queue has come back by itself ({at:?})"));
                }
            }
        }
    }

    /// Sets, pauses, resumes and deletes schedules, until it dies.
    pub(super) async fn schedule_for_ever(mut self) {
        loop {
            let name = *self.random.of(&SCHEDULES);
            match self.random.within(0..10) {
                0..5 => {
                    // They meet at many instants.
                    let timing = Timing::Every(Span(self.random.within(2..5) * SECOND_MS));
                    let lease_ms = Some(2 * SECOND_MS);
                    let job = NewJob { queue: self.queue(), lease: lease_ms.map(Span), ..NewJob::new(*b"tick") };
                    let schedule = Schedule { start: Some(Timestamp(INSTANT_MS_MIN)), ..Schedule::new(timing, job) };
                    drop(self.engine.set_schedule(name, schedule).await);
                }
                5..7 => drop(self.engine.pause_schedule(name, Pause::UntilResumed, Precondition::Anything).await),
                7..9 => drop(self.engine.resume_schedule(name, Precondition::Anything).await),
                _ => drop(self.engine.delete_schedule(name).await),
            }
            self.pause(3 * SECOND_MS).await;
        }
    }

    /// Waits until every job has ended and all is recorded; returns whether that came within this time.
    pub(super) async fn settle_down(&self, time_max: Duration) -> bool {
        for queue in QUEUES {
            drop(self.engine.resume(queue).await);
        }
        for name in SCHEDULES {
            drop(self.engine.delete_schedule(name).await);
        }
        // Nobody works there.
        let mut tries = 0;
        while let Err(error) = self.engine.delete_queue(TYPING_ERROR, true).await {
            tries += 1;
            if tries == DELETE_TRIES {
                self.history().violations.push(format!("the queue {TYPING_ERROR} cannot be deleted: {error}"));
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.history().given.limits = None;
        drop(self.engine.configure(LIMITED, QueueSettings::default()).await);
        for _ in 0..time_max.as_secs() / 10 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let pending: Vec<JobId> = self.ledger.jobs().iter().filter(|j| j.is_pending()).map(|j| j.id).collect();
            if pending.is_empty() && self.engine.health().backlog == 0 {
                return true;
            }
        }
        false
    }
}

/// The end of a job that is done, and of some that add another one.
fn completed(receipt: Receipt) -> Outcome {
    let added = NewJob { queue: QUEUES[0].into(), lease: Some(Span(2 * SECOND_MS)), ..NewJob::new(*b"added") };
    let then = adds_a_job(receipt).then(|| Arc::from([FollowUp::from(&added)]));
    Outcome::Complete { result: None, then }
}
