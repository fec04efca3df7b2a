//! The actors: pushers, workers, meddlers, an operator, and contenders for locks. Their requests and the answers go into the
//! account.

use super::system::System;
use super::{At, Call, Field, Wish};
use crate::engine::{LockRequest, Outcome, Patch, QueueSettings, ReserveRequest, Source, TakeRequest};
use crate::error::Error;
use crate::json::{Span, Timestamp};
use crate::model::follow_up::FollowUp;
use crate::model::id::JobId;
use crate::model::job::{Due, NewJob};
use crate::model::options::JobOptions;
use crate::model::retry::Retry;
use crate::ports::{Lease, Rate};
use crate::rules::Failure;
use crate::testing::edits::Edits;
use crate::testing::{Random, adds_a_job};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;

/// The queues: unlimited, at most three at once, rate-limited, and paused now and then.
pub const QUEUES: [&str; 4] = ["plain", "few", "rated", "paused"];
const FEW: u32 = 3;
const RATE: Rate = Rate { per_second: 25.0, burst: Some(4) };
const LOCKS: [&str; 2] = ["hot", "warm"];
/// Above this many live jobs nothing is pushed.
const LIVE_MAX: i64 = 150;
/// How many of a hundred jobs name others that follow.
const FOLLOWED_PERCENT: u64 = 15;
/// How many recent jobs meddlers choose from.
const RECENT: usize = 60;
/// How many pairs of edits of one job follow each other.
const PAIRS: usize = 5;
/// A holder extends its lease this close to its end, before or after.
const ABOUT_MS: u64 = 20;
/// Bytes of the payload and of the result of a large job.
const LARGE_BYTES: usize = 12 << 10;
/// How many failures of a large job are large, and the bytes of their messages. More would pass what a link lets through.
const LARGE_FAILURES: u32 = 3;
const LARGE_MESSAGE_BYTES: usize = 10 << 10;

/// An actor.
pub(super) struct Actor {
    pub(super) field: Arc<Field>,
    pub(super) system: Arc<dyn System>,
    pub(super) random: Random,
    /// The system's errors.
    pub(super) number: u64,
}

impl Actor {
    /// Sends a request, and notes when it was sent and answered.
    async fn ask<T>(&self, question: impl Future<Output = T>) -> (Call, T) {
        let asked = self.field.at();
        let answer = question.await;
        (Call { asked, answered: self.field.at() }, answer)
    }

    async fn pause(&mut self, ms_max: u64) {
        let ms = self.random.within(0..ms_max + 1);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// An operation may fail only with an error that is retryable.
    fn check(&self, what: &str, error: &Error) {
        if !error.is_retryable() {
            self.field.account().blame(format!("{what} was answered {error}"));
        }
    }

    fn new_job(&mut self) -> NewJob {
        let random = &mut self.random;
        let due = if random.percent(50) { Due::Now } else { Due::After(Span(random.within(1..2_500))) };
        let queue = Arc::from(*random.of(&["plain", "plain", "plain", "few", "rated", "paused"]));
        let options = Retry { max_attempts: Some(0), ..Retry::default() }.into();
        let priority = random.within(0..2) as u32 * 1024;
        let payload = if random.percent(self.field.large_percent) { vec![b' '; LARGE_BYTES] } else { b"{}".to_vec() };
        let mut job = NewJob { due, queue, options, priority, ..NewJob::new(payload) };
        if self.random.percent(FOLLOWED_PERCENT) {
            let mut list = || {
                let count = self.random.within(0..3);
                let jobs: Vec<FollowUp> = (0..count).map(|_| self.follow_up(&job.options)).collect();
                (!jobs.is_empty()).then(|| Arc::from(jobs))
            };
            (job.options.then, job.options.otherwise) = (list(), list());
        }
        job
    }

    /// One that follows another job, with these options.
    fn follow_up(&mut self, options: &JobOptions) -> FollowUp {
        let due = if self.random.percent(50) { Due::Now } else { Due::After(Span(self.random.within(1..500))) };
        let queue = Arc::from(*self.random.of(&QUEUES));
        let job = NewJob { due, queue, options: options.clone(), ..NewJob::new(*b"{}") };
        FollowUp::from(&job)
    }

    pub(super) async fn push(mut self) {
        while !self.field.is_calm() {
            self.pause(60).await;
            if self.field.live.load(Ordering::Relaxed) > LIVE_MAX {
                continue;
            }
            let count = self.random.within(1..8);
            let mut jobs: Vec<NewJob> = (0..count).map(|_| self.new_job()).collect();
            // Answered or not, some are repeated.
            let pushes = if self.random.percent(50) { self.random.within(2..4) } else { 1 };
            if pushes > 1 {
                let push = self.random.any();
                (0..).zip(&mut jobs).for_each(|(n, job)| job.origin = Some(Arc::from(format!("{push}-{n}"))));
            }
            let first = self.field.at();
            for _ in 0..pushes {
                self.push_once(&jobs, first).await;
                self.pause(60).await;
            }
        }
    }

    /// Pushes these jobs, which an earlier attempt may have pushed already.
    async fn push_once(&self, jobs: &[NewJob], first: At) {
        let (call, answers) = self.ask(self.system.push(jobs.to_vec())).await;
        let call = Call { asked: first, ..call };
        let answers = answers.unwrap_or_else(|error| vec![Err(error); jobs.len()]);
        for (new, answer) in jobs.iter().zip(answers) {
            match answer {
                Ok((id, due_at)) => {
                    let is_new = self.field.account().pushed(new, id, due_at, call);
                    self.field.live.fetch_add(i64::from(is_new), Ordering::Relaxed);
                }
                Err(error) => self.check("a push", &error),
            }
        }
    }

    pub(super) async fn work(mut self) {
        while !self.field.is_over() {
            let request = ReserveRequest {
                from: Source::Queues(self.queues()),
                limit: self.random.within(1..5) as usize,
                free: None,
                lease: Some(Span(self.random.within(1_000..2_500))),
                wait: Span(self.random.within(0..400)),
                request_id: self.random.percent(30).then(|| Arc::from(format!("request-{}", self.random.any()))),
                worker: None,
            };
            let lease_ms = request.lease.unwrap_or_default().0;
            let (call, reservation) = self.ask(self.system.reserve(request)).await;
            let reservation = match reservation {
                Ok(reservation) => reservation,
                Err(error) => {
                    self.check("a reserve", &error);
                    self.pause(50).await;
                    continue;
                }
            };
            for lease in &reservation.leases {
                self.field.account().leased(&lease.job, lease_ms, call);
            }
            let mut runs = JoinSet::new();
            for lease in reservation.leases {
                runs.spawn(self.other().run(lease));
            }
            while let Some(run) = runs.join_next().await {
                run.expect("no actor panics");
            }
        }
    }

    /// Another actor for a concurrent task.
    fn other(&mut self) -> Self {
        let random = Random::new(self.random.any());
        Self { field: self.field.clone(), system: self.system.clone(), random, number: self.number }
    }

    async fn run(mut self, lease: Lease) {
        let after_ms = self.random.within(0..500);
        let (wish, hold_ms) = match self.random.within(0..100) {
            _ if self.field.is_calm() => (Some(Wish::Complete), 0),
            // Odd: a failure.
            0..60 if is_large(&lease) && lease.job.attempt <= LARGE_FAILURES => (Some(Wish::Again(after_ms | 1)), 0),
            0..35 => (Some(Wish::Complete), self.random.within(0..60)),
            35..45 => (Some(Wish::Again(after_ms)), self.random.within(0..60)),
            45..50 => (Some(Wish::FailFinally), self.random.within(0..60)),
            50..60 => (Some(Wish::Complete), self.random.within(0..2_500)),
            60..90 => return self.extend(lease).await,
            // It has died.
            _ => (None, 0),
        };
        self.pause(hold_ms).await;
        if let Some(wish) = wish {
            self.end(&lease, wish).await;
        }
    }

    /// Extends a lease, but only about when it ends.
    async fn extend(mut self, lease: Lease) {
        let receipt = lease.job.receipt();
        let mut until = lease.job.lease_until.unwrap_or(Timestamp(0));
        for _ in 0..self.random.within(1..4) {
            let early_ms = self.random.within(0..2 * ABOUT_MS);
            let wait = (until.0 + ABOUT_MS).saturating_sub(early_ms).saturating_sub(self.field.at().wall);
            // If its clock was set, it notices now.
            tokio::time::sleep(Duration::from_millis(wait.min(3_000))).await;
            let lease_ms = self.random.within(1_000..3_000);
            let (call, answer) = self.ask(self.system.extend(receipt, lease_ms)).await;
            let answer = match answer {
                Ok(until) => Some(Ok(until)),
                Err(Error::LeaseLost(_)) => Some(Err(())),
                Err(error) => {
                    self.check("an extend", &error);
                    None
                }
            };
            self.field.account().extended(receipt, lease_ms, call, answer);
            match answer {
                Some(Ok(end)) => until = Timestamp(end),
                Some(Err(())) => return,
                None => {}
            }
            if self.random.percent(40) {
                break;
            }
        }
        self.pause(900).await;
        if self.random.percent(70) {
            self.end(&lease, Wish::Complete).await;
        }
    }

    async fn end(&mut self, lease: &Lease, wish: Wish) {
        let receipt = lease.job.receipt();
        let has_large_message = is_large(lease) && lease.job.attempt <= LARGE_FAILURES;
        let message: Arc<str> =
            if has_large_message { "no".repeat(LARGE_MESSAGE_BYTES / 2).into() } else { "no".into() };
        let failure =
            |is_final, retry_after| Outcome::Fail(Failure { message: message.clone(), is_final, retry_after });
        let outcome = match wish {
            Wish::Complete => {
                let options = JobOptions { then: None, otherwise: None, ..lease.job.options().clone() };
                let then = adds_a_job(receipt).then(|| Arc::from([self.follow_up(&options)]));
                Outcome::Complete { result: is_large(lease).then(|| vec![b'r'; LARGE_BYTES].into()), then }
            }
            Wish::FailFinally => failure(true, None),
            Wish::Again(after_ms) if after_ms % 2 == 0 => Outcome::release(Span(after_ms)),
            Wish::Again(after_ms) => failure(false, Some(Span(after_ms))),
        };
        // Without an answer it asks again.
        for _ in 0..self.random.within(1..3) {
            let (call, answer) = self.ask(self.system.settle(receipt, outcome.clone())).await;
            self.field.account().ended(receipt, wish, call, Some(&answer));
            if let Ok(settlement) = &answer
                && !settlement.state.is_live()
            {
                self.field.live.fetch_sub(1, Ordering::Relaxed);
            }
            if answer.is_ok() || answer.is_err_and(|error| !error.is_retryable()) {
                break;
            }
        }
    }

    /// The queues, as a reserve names them, beginning with any.
    fn queues(&mut self) -> Vec<Arc<str>> {
        let mut queues: Vec<Arc<str>> = QUEUES.iter().map(|&queue| Arc::from(queue)).collect();
        queues.rotate_left(self.random.within(0..QUEUES.len() as u64) as usize);
        queues
    }

    fn recent(&mut self) -> Option<JobId> {
        let ids = self.field.account().ids();
        let recent = &ids[ids.len().saturating_sub(RECENT)..];
        (!recent.is_empty()).then(|| *self.random.of(recent))
    }

    /// Cancels, changes and takes.
    pub(super) async fn meddle(mut self) {
        while !self.field.is_calm() {
            self.pause(120).await;
            let Some(id) = self.recent() else { continue };
            match self.random.within(0..100) {
                0..40 => {
                    let (call, answer) = self.ask(self.system.cancel(id)).await;
                    // A job that is being taken counts as running.
                    if let Err(error) = &answer
                        && !matches!(error, Error::NotFound(_) | Error::Running(_))
                    {
                        self.check("a cancel", error);
                    }
                    self.field.account().cancelled(id, call, answer.ok());
                }
                40..55 => self.edit_twice(id).await,
                55..75 => {
                    self.field.account().touched(id);
                    let due = Due::After(Span(self.random.within(0..1_500)));
                    // Whether the change is made is known later, or never.
                    let patch = Patch { due: Some(due), ..Patch::default() };
                    let _ = self.system.update(id, patch).await;
                }
                _ => self.take().await,
            }
        }
    }

    /// Two edits at once, decided from one reading perhaps; again and again, as long as the job can be changed.
    async fn edit_twice(&mut self, id: JobId) {
        self.field.account().touched(id);
        for _ in 0..PAIRS {
            let [a, b] = Edits::pair(&mut self.random);
            let (first, second) =
                tokio::join!(self.ask(self.system.update(id, a.clone())), self.ask(self.system.update(id, b.clone())),);
            let is_over = first.1.is_err() || second.1.is_err();
            for (patch, (call, answer)) in [(a, first), (b, second)] {
                self.field.account().edited(id, &patch, call, answer.is_ok());
            }
            if is_over {
                return;
            }
        }
    }

    async fn take(&mut self) {
        let (from, limit) = (Source::Queues(vec!["plain".into()]), self.random.within(1..4) as usize);
        let request = TakeRequest { from, limit, due_from: None, due_to: None, request_id: None };
        let (call, reservation) = self.ask(self.system.take(request)).await;
        match reservation {
            Ok(reservation) => {
                for lease in &reservation.leases {
                    self.field.account().taken(&lease.job, call);
                    self.field.live.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Err(error) => {
                self.check("a take", &error);
                self.field.account().lost_take();
            }
        }
    }

    /// Sets limits and pauses, and lifts them in the end.
    pub(super) async fn operate(mut self) {
        let free = QueueSettings::default;
        let limits = [
            ("few", QueueSettings { max_running: Some(FEW), ..free() }),
            ("rated", QueueSettings { rate: Some(RATE), ..free() }),
        ];
        for (queue, settings) in limits {
            self.set(queue, &settings).await;
        }
        while !self.field.is_calm() {
            self.set("paused", &QueueSettings { paused: true, ..free() }).await;
            self.pause(1_500).await;
            self.set("paused", &free()).await;
            self.pause(500).await;
        }
        for queue in QUEUES {
            self.set(queue, &free()).await;
        }
    }

    /// Repeats the request until it is answered.
    async fn set(&mut self, queue: &str, settings: &QueueSettings) {
        loop {
            let (call, answer) = self.ask(self.system.configure(queue, settings.clone())).await;
            self.field.account().configured(&queue.into(), settings, call, answer.is_ok());
            match answer {
                Ok(_) => return,
                Err(error) => self.check("a queue's settings", &error),
            }
            self.pause(50).await;
        }
    }

    pub(super) async fn contend(mut self, n: u64) {
        for turn in 0.. {
            if self.field.is_calm() {
                return;
            }
            let name: Arc<str> = Arc::from(*self.random.of(&LOCKS));
            let owner: Arc<str> = Arc::from(format!("{}-{n}-{turn}", self.number));
            let (ttl_ms, wait_ms) = (self.random.within(200..1_500), self.random.within(0..1_500));
            let request = LockRequest {
                name: name.clone(),
                owner: owner.clone(),
                ttl: Span(ttl_ms),
                wait: Span(wait_ms),
                keep_place: false,
            };
            let (call, grant) = self.ask(self.system.acquire(request)).await;
            let grant = match grant {
                Ok(grant) => grant,
                Err(error) => {
                    self.check("a lock", &error);
                    continue;
                }
            };
            self.field.account().acquired(&name, grant, ttl_ms, call);
            for _ in 0..self.random.within(0..3) {
                self.pause(ttl_ms).await;
                let (call, answer) = self.ask(self.system.renew(&name, &owner, grant.fence, ttl_ms)).await;
                let answer = match answer {
                    Ok(grant) => Some(Ok(grant.expires_at.0)),
                    Err(Error::LockLost { .. }) => Some(Err(())),
                    Err(error) => {
                        self.check("a renewal", &error);
                        None
                    }
                };
                self.field.account().renewed(&name, grant.fence, ttl_ms, call, answer);
            }
            self.pause(ttl_ms / 2).await;
            if self.random.percent(70) {
                let at = self.field.at();
                self.field.account().releasing(&name, grant.fence, at);
                let _ = self.system.release_lock(&name, &owner, grant.fence).await;
            }
        }
    }
}

/// Whether the job was pushed as a large one, and has this payload still.
fn is_large(lease: &Lease) -> bool {
    lease.job.payload.len() == LARGE_BYTES
}
