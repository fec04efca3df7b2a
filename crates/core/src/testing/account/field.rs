//! State that all actors share: the account, the clocks, and the progress of the run.

use super::actors::Actor;
use super::system::System;
use super::{Account, At};
use crate::testing::Random;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::task::JoinSet;

/// Workers, pushers, meddlers and contenders of each system.
const WORKERS: u64 = 16;
const PUSHERS: u64 = 2;
const MEDDLERS: u64 = 2;
const CONTENDERS: u64 = 4;

/// State that all actors share.
pub struct Field {
    account: Mutex<Account>,
    clock: Box<dyn Fn() -> At + Send + Sync>,
    /// Live jobs, about.
    pub(super) live: AtomicI64,
    /// Pushers and meddlers that have not ended: their last call may still make a job live.
    makers: AtomicUsize,
    is_calm: AtomicBool,
    is_over: AtomicBool,
    /// How many of a hundred jobs are large.
    pub(super) large_percent: u64,
}

impl Field {
    /// A field with this clock.
    pub fn new(account: Account, clock: impl Fn() -> At + Send + Sync + 'static) -> Arc<Self> {
        Self::with_large_jobs(account, 0, clock)
    }

    /// The same, where so many of a hundred jobs are large, in their payloads, their kept errors and their results.
    pub fn with_large_jobs(
        account: Account,
        large_percent: u64,
        clock: impl Fn() -> At + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            account: Mutex::new(account),
            clock: Box::new(clock),
            live: AtomicI64::new(0),
            makers: AtomicUsize::new(0),
            is_calm: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            large_percent,
        })
    }

    /// The account.
    pub fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().expect("no panic under this lock")
    }

    /// The readings of the clocks.
    pub fn at(&self) -> At {
        (self.clock)()
    }

    /// From now on nothing is pushed, limits are lifted, and all remaining jobs are worked off.
    pub fn be_calm(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
    }

    /// Whether a call that was begun before the calm may still make a job live. Until then, that no job is left means nothing.
    pub fn makes_jobs(&self) -> bool {
        self.makers.load(Ordering::SeqCst) > 0
    }

    /// Ends all requests.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::SeqCst)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Starts actors on these systems, which share their jobs.
    pub fn begin(self: &Arc<Self>, systems: &[Arc<dyn System>], random: &mut Random) -> JoinSet<()> {
        let mut actors = JoinSet::new();
        for (system, number) in systems.iter().zip(0..) {
            let mut actor =
                || Actor { field: self.clone(), system: system.clone(), random: Random::new(random.any()), number };
            (0..WORKERS).for_each(|_| drop(actors.spawn(actor().work())));
            (0..PUSHERS).for_each(|_| drop(actors.spawn(self.clone().making(actor().push()))));
            (0..MEDDLERS).for_each(|_| drop(actors.spawn(self.clone().making(actor().meddle()))));
            (0..CONTENDERS).for_each(|n| drop(actors.spawn(actor().contend(n))));
            if number == 0 {
                actors.spawn(actor().operate());
            }
        }
        actors
    }

    /// Counts an actor that makes jobs live until it ends.
    fn making(self: Arc<Self>, actor: impl Future<Output = ()>) -> impl Future<Output = ()> {
        self.makers.fetch_add(1, Ordering::SeqCst);
        async move {
            actor.await;
            self.makers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
