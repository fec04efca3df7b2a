//! Who asks: pushers, workers, meddlers, an operator, and contenders for locks.

use crate::world::{World, queues_from};
use duetime_core::Error;
use duetime_core::engine::{
    Engine, From, JobRef, LockRequest, Outcome, Patch, PushOutcome, QueueSettings, ReserveRequest, TakeRequest,
};
use duetime_core::id::JobId;
use duetime_core::job::{Due, NewJob};
use duetime_core::ports::{Lease, Rate};
use duetime_core::retry::Retry;
use duetime_core::rules::Failure;
use duetime_core::testing::Random;
use duetime_core::testing::account::{Call, Wish};
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// With no limit, at most `FEW` at once, at most so often, and paused now and then.
pub(crate) const QUEUES: [&str; 4] = ["plain", "few", "rated", "paused"];
const FEW: u32 = 3;
const RATE: Rate = Rate { per_second: 25.0, burst: Some(4) };
const LOCKS: [&str; 2] = ["hot", "warm"];
/// Above so many jobs nothing is pushed.
const LIVE_MAX: i64 = 150;
/// Jobs among which meddlers choose.
const RECENT: usize = 60;
/// About when a lease ends, its holder thinks of it.
const ABOUT_MS: u64 = 20;

pub(crate) struct Actor {
    pub(crate) world: Arc<World>,
    pub(crate) engine: Engine,
    pub(crate) random: Random,
    /// Of the engine.
    pub(crate) number: u64,
}

impl Actor {
    /// Asks, and says when.
    async fn ask<T>(&self, question: impl Future<Output = T>) -> (Call, T) {
        let asked = self.world.clock.at();
        let answer = question.await;
        (Call { asked, told: self.world.clock.at() }, answer)
    }

    async fn pause(&mut self, ms_max: u64) {
        let ms = self.random.within(0..ms_max + 1);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// What fails may fail only where that is said to be passing.
    fn check(&self, what: &str, error: &Error) {
        if !error.is_retryable() {
            self.world.account().blame(format!("{what} was answered {error}"));
        }
    }

    fn new_job(&mut self) -> NewJob {
        let random = &mut self.random;
        let due = if random.percent(50) { Due::Now } else { Due::After(random.within(1..2_500)) };
        let queue = Arc::from(*random.of(&["plain", "plain", "plain", "few", "rated", "paused"]));
        let retry = Some(Retry { max_attempts: Some(0), ..Retry::default() });
        let priority = random.within(0..2) as u32 * 1024;
        NewJob { due, queue, retry, priority, ..NewJob::new(*b"{}") }
    }

    pub(crate) async fn push(mut self) {
        while !self.world.is_calm() {
            self.pause(60).await;
            if self.world.live.load(Ordering::Relaxed) > LIVE_MAX {
                continue;
            }
            let count = self.random.within(1..8);
            let jobs: Vec<NewJob> = (0..count).map(|_| self.new_job()).collect();
            let (call, answers) = self.ask(self.engine.push(jobs.clone())).await;
            let answers = answers.unwrap_or_else(|error| vec![Err(error); jobs.len()]);
            for (new, answer) in jobs.iter().zip(answers) {
                match answer {
                    Ok(pushed) => {
                        assert_eq!(pushed.outcome, PushOutcome::Created);
                        self.world.account().pushed(new, pushed.job.id, pushed.job.due_at, call);
                        self.world.live.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => self.check("a push", &error),
                }
            }
        }
    }

    pub(crate) async fn work(mut self) {
        while !self.world.is_over() {
            let request = ReserveRequest {
                from: From::Queues(queues_from(self.random.any() as usize)),
                limit: self.random.within(1..5) as usize,
                lease_ms: Some(self.random.within(1_000..2_500)),
                wait_ms: self.random.within(0..400),
                request_id: self.random.percent(30).then(|| Arc::from(format!("request-{}", self.random.any()))),
            };
            let lease_ms = request.lease_ms.unwrap_or(0);
            let (call, handout) = self.ask(self.engine.reserve(request)).await;
            let handout = match handout {
                Ok(handout) => handout,
                Err(error) => {
                    self.check("a reserve", &error);
                    self.pause(50).await;
                    continue;
                }
            };
            for lease in &handout.leases {
                self.world.account().leased(&lease.job, lease_ms, call);
            }
            let runs: Vec<_> = handout.leases.into_iter().map(|lease| self.run(lease)).collect();
            join_all(runs).await;
        }
    }

    /// Another actor for something that is done at the same time.
    fn other(&mut self) -> Self {
        let random = Random::new(self.random.any());
        Self { world: self.world.clone(), engine: self.engine.clone(), random, number: self.number }
    }

    fn run(&mut self, lease: Lease) -> impl Future<Output = ()> + use<> {
        let other = self.other();
        async move { other.run_one(lease).await }
    }

    async fn run_one(mut self, lease: Lease) {
        let after_ms = self.random.within(0..500);
        let (wish, hold_ms) = match self.random.within(0..100) {
            _ if self.world.is_calm() => (Some(Wish::Complete), 0),
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

    /// Holds it for longer, and thinks of that only about when it ends.
    async fn extend(mut self, lease: Lease) {
        let receipt = lease.job.receipt();
        let mut until = lease.job.lease_until.unwrap_or(0);
        for _ in 0..self.random.within(1..4) {
            let early_ms = self.random.within(0..2 * ABOUT_MS);
            let wait = (until + ABOUT_MS).saturating_sub(early_ms).saturating_sub(self.world.clock.at().wall);
            // Where its clock was set it thinks of it now.
            tokio::time::sleep(Duration::from_millis(wait.min(3_000))).await;
            let lease_ms = self.random.within(1_000..3_000);
            let (call, answer) = self.ask(self.engine.extend(vec![(receipt, Some(lease_ms))])).await;
            let answer = match answer.into_iter().next().expect("an answer for each") {
                Ok(extension) => Some(Ok(extension.lease_until)),
                Err(Error::LeaseLost(_)) => Some(Err(())),
                Err(error) => {
                    self.check("an extend", &error);
                    None
                }
            };
            self.world.account().extended(receipt, lease_ms, call, answer);
            match answer {
                Some(Ok(end)) => until = end,
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
        let failure =
            |is_final, retry_after_ms| Outcome::Fail(Failure { message: "no".into(), is_final, retry_after_ms });
        let outcome = match wish {
            Wish::Complete => Outcome::Complete { result: None },
            Wish::FailFinally => failure(true, None),
            Wish::Again(after_ms) if after_ms % 2 == 0 => Outcome::Release { delay_ms: after_ms },
            Wish::Again(after_ms) => failure(false, Some(after_ms)),
        };
        // One who hears nothing asks again.
        for _ in 0..self.random.within(1..3) {
            let (call, mut answers) = self.ask(self.engine.settle(vec![(receipt, outcome.clone())])).await;
            let answer = answers.pop().expect("an answer for each");
            self.world.account().ended(receipt, wish, call, Some(&answer));
            if let Ok(settlement) = &answer
                && !settlement.state.is_live()
            {
                self.world.live.fetch_sub(1, Ordering::Relaxed);
            }
            if answer.is_ok() || answer.is_err_and(|error| !error.is_retryable()) {
                break;
            }
        }
    }

    fn recent(&mut self) -> Option<JobId> {
        let ids = self.world.account().ids();
        let recent = &ids[ids.len().saturating_sub(RECENT)..];
        (!recent.is_empty()).then(|| *self.random.of(recent))
    }

    /// Cancels, changes and takes.
    pub(crate) async fn meddle(mut self) {
        while !self.world.is_calm() {
            self.pause(120).await;
            let Some(id) = self.recent() else { continue };
            match self.random.within(0..100) {
                0..40 => {
                    let (call, mut answers) = self.ask(self.engine.cancel(vec![JobRef::from(id)])).await;
                    let answer = answers.pop().expect("an answer for each");
                    if let Err(error) = &answer
                        && !matches!(error, Error::NotFound(_))
                    {
                        self.check("a cancel", error);
                    }
                    self.world.account().cancelled(id, call, answer.ok());
                }
                40..70 => {
                    self.world.account().touched(id);
                    let due = Due::After(self.random.within(0..1_500));
                    // Whether it is made is known later, or never.
                    let patch = Patch { due: Some(due), ..Patch::default() };
                    let _ = self.engine.update(JobRef::from(id), patch).await;
                }
                _ => self.take().await,
            }
        }
    }

    async fn take(&mut self) {
        let (from, limit) = (From::Queues(vec!["plain".into()]), self.random.within(1..4) as usize);
        let request = TakeRequest { from, limit, due_from: None, due_to: None, request_id: None };
        let (call, handout) = self.ask(self.engine.take(request)).await;
        match handout {
            Ok(handout) => {
                for lease in &handout.leases {
                    self.world.account().taken(&lease.job, call);
                    self.world.live.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Err(error) => {
                self.check("a take", &error);
                self.world.account().lost_take();
            }
        }
    }

    /// Sets limits and pauses, and lifts them in the end.
    pub(crate) async fn operate(mut self) {
        let free = QueueSettings::default;
        let limits = [
            ("few", QueueSettings { max_running: Some(FEW), ..free() }),
            ("rated", QueueSettings { rate: Some(RATE), ..free() }),
        ];
        for (queue, settings) in limits {
            self.set(queue, &settings).await;
        }
        while !self.world.is_calm() {
            self.set("paused", &QueueSettings { paused: true, ..free() }).await;
            self.pause(1_500).await;
            self.set("paused", &free()).await;
            self.pause(500).await;
        }
        for queue in QUEUES {
            self.set(queue, &free()).await;
        }
    }

    /// Until it is answered.
    async fn set(&mut self, queue: &str, settings: &QueueSettings) {
        loop {
            let (call, answer) = self.ask(self.engine.configure(queue, settings.clone())).await;
            self.world.account().configured(&queue.into(), settings, call, answer.is_ok());
            match answer {
                Ok(_) => return,
                Err(error) => self.check("a queue's settings", &error),
            }
            self.pause(50).await;
        }
    }

    pub(crate) async fn contend(mut self, n: u64) {
        for turn in 0.. {
            if self.world.is_calm() {
                return;
            }
            let name: Arc<str> = Arc::from(*self.random.of(&LOCKS));
            let owner: Arc<str> = Arc::from(format!("{}-{n}-{turn}", self.number));
            let (ttl_ms, wait_ms) = (self.random.within(200..1_500), self.random.within(0..1_500));
            let request = LockRequest { name: name.clone(), owner: owner.clone(), ttl_ms, wait_ms, keep_place: false };
            let (call, grant) = self.ask(self.engine.acquire(request)).await;
            let grant = match grant {
                Ok(grant) => grant,
                Err(error) => {
                    self.check("a lock", &error);
                    continue;
                }
            };
            self.world.account().acquired(&name, grant, ttl_ms, call);
            for _ in 0..self.random.within(0..3) {
                self.pause(ttl_ms).await;
                let (call, answer) = self.ask(self.engine.renew(&name, &owner, grant.fence, ttl_ms)).await;
                let answer = match answer {
                    Ok(grant) => Some(Ok(grant.expires_at)),
                    Err(Error::LockLost { .. }) => Some(Err(())),
                    Err(error) => {
                        self.check("a renewal", &error);
                        None
                    }
                };
                self.world.account().renewed(&name, grant.fence, ttl_ms, call, answer);
            }
            self.pause(ttl_ms / 2).await;
            if self.random.percent(70) {
                let at = self.world.clock.at();
                self.world.account().releasing(&name, grant.fence, at);
                let _ = self.engine.release_lock(&name, &owner, grant.fence).await;
            }
        }
    }
}
