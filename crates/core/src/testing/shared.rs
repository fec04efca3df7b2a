//! A broker in memory that several engines share, and locks beside it: what a Redis would be, with its misfortunes.
//! It may be emptied, fall back to an earlier copy of itself, or be away.

use crate::clock::{Clock, Millis};
use crate::error::Error;
use crate::id::JobId;
use crate::job::Job;
use crate::memory::{self, Memory};
use crate::ports::{
    Acquire, Acquired, Broker, Counts, Edit, Edited, Expired, Extend, Extended, Grant, Holding, Lease, Limits, Listing,
    LockPage, Locks, Note, Outcomes, Put, Queues, Released, Reserve, Reserved, Settle, Settled, TurnWake, Wake,
};
use crate::testing::{ModelLedger, TokioClock};
use async_trait::async_trait;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// How long a call takes whose answer is lost.
const MUTE_FOR: Duration = Duration::from_millis(1_200);

type Wakes = Arc<Mutex<Vec<Wake>>>;

/// Told of what was leased, as it is leased.
type OnLease = Arc<dyn Fn(&Lease) + Send + Sync>;

/// The broker and its locks. Clones share them: one for each engine.
#[derive(Clone)]
pub struct Shared {
    clock: Arc<TokioClock>,
    parts: Arc<Mutex<Parts>>,
    wakes: Wakes,
    on_lease: Arc<OnceLock<OnLease>>,
}

struct Parts {
    memory: Arc<Memory>,
    locks: Arc<memory::Locks>,
    /// Of the memory that is there now.
    number: u64,
    began: Millis,
    copy: Option<(Memory, Millis)>,
    presence: Presence,
    /// How far behind and ahead of its clock those who ask take it to be.
    unknown_ms: (u64, u64),
    /// Jobs that a put found missing.
    new_puts: u64,
}

/// Whether it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It does.
    There,
    /// Every call fails, and changes nothing.
    Away,
    /// Every call is carried out, and its answer is lost.
    Mute,
    /// Every call changes nothing, and its answer is waited for.
    Stalled,
}

impl Shared {
    /// An empty one.
    pub fn new(clock: Arc<TokioClock>) -> Self {
        let wakes = Wakes::default();
        let parts = Parts {
            memory: watched(Memory::new(clock.clone()), &wakes),
            locks: new_locks(&clock),
            number: 1,
            began: 0,
            copy: None,
            presence: Presence::There,
            unknown_ms: (0, 0),
            new_puts: 0,
        };
        Self { clock, parts: Arc::new(Mutex::new(parts)), wakes, on_lease: Arc::default() }
    }

    /// Tells of every lease that begins, whether or not its holder ever hears of it.
    pub fn on_lease(&self, tell: OnLease) {
        assert!(self.on_lease.set(tell).is_ok(), "one listens");
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().expect("no panic under this lock")
    }

    /// All that it holds is gone.
    pub fn flush(&self) {
        let (memory, began) = (Memory::new(self.clock.clone()), self.clock.wall());
        self.replace(memory, began);
    }

    /// A replica has all that is held now.
    pub fn copy(&self) {
        let mut parts = self.parts();
        parts.copy = Some((parts.memory.copy(), parts.began));
    }

    /// The replica takes over, where there is one; answers whether there was.
    pub fn fall_back(&self) -> bool {
        let copy = self.parts().copy.take();
        let Some((memory, began)) = copy else { return false };
        self.replace(memory, began);
        true
    }

    /// Locks are lost in any case: what was granted last always is.
    fn replace(&self, memory: Memory, began: Millis) {
        let mut parts = self.parts();
        parts.memory = watched(memory, &self.wakes);
        parts.locks = new_locks(&self.clock);
        parts.number += 1;
        (parts.began, parts.copy) = (began, None);
        drop(parts);
        // Connections are made anew.
        let wakes = self.wakes.lock().expect("no panic under this lock").clone();
        wakes.iter().for_each(|wake| wake(None));
    }

    /// Takes it away, or brings it back.
    pub fn set_presence(&self, presence: Presence) {
        self.parts().presence = presence;
    }

    /// From now on its clock is only known to lie within these bounds around what it reads.
    pub fn blur_clock(&self, behind_ms: u64, ahead_ms: u64) {
        self.parts().unknown_ms = (behind_ms, ahead_ms);
    }

    /// What its memory is known by now.
    pub fn stamp_now(&self) -> String {
        format!("memory {}", self.parts().number)
    }

    /// How many jobs were put that it did not hold.
    pub fn new_puts(&self) -> u64 {
        self.parts().new_puts
    }

    /// The memory that is there now.
    pub fn memory(&self) -> Arc<Memory> {
        self.parts().memory.clone()
    }

    async fn call<T, F>(&self, verb: impl FnOnce(Arc<Memory>, Arc<memory::Locks>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let (memory, locks, presence) = {
            let parts = self.parts();
            (parts.memory.clone(), parts.locks.clone(), parts.presence)
        };
        match presence {
            Presence::There => verb(memory, locks).await,
            Presence::Away => Err(Error::Unavailable("the broker was taken away".into())),
            Presence::Mute | Presence::Stalled => {
                if presence == Presence::Mute {
                    drop(verb(memory, locks).await);
                }
                tokio::time::sleep(MUTE_FOR).await;
                Err(Error::Unavailable("the broker gave no answer".into()))
            }
        }
    }
}

fn watched(memory: Memory, wakes: &Wakes) -> Arc<Memory> {
    let wakes = wakes.clone();
    memory.watch(Arc::new(move |queue| {
        let wakes = wakes.lock().expect("no panic under this lock").clone();
        wakes.iter().for_each(|wake| wake(queue));
    }));
    Arc::new(memory)
}

fn new_locks(clock: &Arc<TokioClock>) -> Arc<memory::Locks> {
    Arc::new(memory::Locks::new(clock.clone(), Arc::new(ModelLedger::default())))
}

#[async_trait]
impl Broker for Shared {
    fn now(&self) -> Millis {
        self.clock.wall() - self.parts().unknown_ms.0
    }

    fn now_at_most(&self) -> Millis {
        self.clock.wall() + self.parts().unknown_ms.1
    }

    fn is_volatile(&self) -> bool {
        false
    }

    async fn stamp(&self) -> Result<String, Error> {
        self.call(|_, _| async { Ok(self.stamp_now()) }).await
    }

    fn watch(&self, wake: Wake) {
        self.wakes.lock().expect("no panic under this lock").push(wake);
    }

    async fn put(&self, jobs: Vec<Job>, read_at: Millis) -> Result<Vec<Put>, Error> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        self.call(|memory, _| async move {
            if read_at <= self.parts().began {
                return Ok(vec![Put::Stale; ids.len()]);
            }
            let before = memory.get(&ids).await?;
            let puts = memory.put(jobs, read_at).await?;
            let new = before.iter().zip(&puts).filter(|(before, put)| before.is_none() && **put == Put::Held);
            self.parts().new_puts += new.count() as u64;
            Ok(puts)
        })
        .await
    }

    async fn reserve(&self, reserve: Reserve) -> Result<Reserved, Error> {
        self.call(|memory, _| async move {
            let is_take = reserve.take;
            let reserved = memory.reserve(reserve).await?;
            if let Some(tell) = self.on_lease.get().filter(|_| !is_take) {
                reserved.leases.iter().for_each(|lease| tell(lease));
            }
            Ok(reserved)
        })
        .await
    }

    async fn extend(&self, leases: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        self.call(|memory, _| async move { memory.extend(leases).await }).await
    }

    async fn settle(&self, settles: Vec<Settle>) -> Result<Settled, Error> {
        self.call(|memory, _| async move { memory.settle(settles).await }).await
    }

    async fn expired(&self, limit: usize) -> Result<Expired, Error> {
        self.call(|memory, _| async move { memory.expired(limit).await }).await
    }

    async fn edit(&self, edits: Vec<Edit>) -> Result<(Vec<Edited>, Vec<Note>), Error> {
        self.call(|memory, _| async move { memory.edit(edits).await }).await
    }

    async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
        self.call(|memory, _| async move { memory.get(ids).await }).await
    }

    async fn list(&self, listing: Listing) -> Result<Vec<Job>, Error> {
        self.call(|memory, _| async move { memory.list(listing).await }).await
    }

    async fn counts(&self, queues: Queues) -> Result<Vec<(Arc<str>, Counts)>, Error> {
        self.call(|memory, _| async move { memory.counts(queues).await }).await
    }

    async fn limit(&self, queue: &Arc<str>, limits: Limits, version: u64) -> Result<(), Error> {
        self.call(|memory, _| async move { memory.limit(queue, limits, version).await }).await
    }

    async fn outcomes(&self, which: Outcomes) -> Result<Vec<Note>, Error> {
        self.call(|memory, _| async move { memory.outcomes(which).await }).await
    }

    async fn set_frontier(&self, frontier: Millis) -> Result<(), Error> {
        self.call(|memory, _| async move { memory.set_frontier(frontier).await }).await
    }

    async fn forget(&self, noted: &[(JobId, u64)], frontier: Millis) -> Result<Vec<JobId>, Error> {
        self.call(|memory, _| async move { memory.forget(noted, frontier).await }).await
    }

    fn backlog(&self) -> usize {
        self.memory().backlog()
    }
}

#[async_trait]
impl Locks for Shared {
    async fn start(&self, _: TurnWake) -> Result<(), Error> {
        Ok(())
    }

    async fn acquire(&self, acquire: Acquire) -> Result<Acquired, Error> {
        self.call(|_, locks| async move { locks.acquire(acquire).await }).await
    }

    async fn abandon(&self, name: &Arc<str>, owner: &Arc<str>) -> Result<(), Error> {
        self.call(|_, locks| async move { locks.abandon(name, owner).await }).await
    }

    async fn renew(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl_ms: u64) -> Result<Option<Grant>, Error> {
        self.call(|_, locks| async move { locks.renew(name, owner, fence, ttl_ms).await }).await
    }

    async fn release(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<bool, Error> {
        self.call(|_, locks| async move { locks.release(name, owner, fence).await }).await
    }

    async fn release_all(&self, owner: &Arc<str>) -> Result<Released, Error> {
        self.call(|_, locks| async move { locks.release_all(owner).await }).await
    }

    async fn inspect(&self, name: &Arc<str>) -> Result<Option<Holding>, Error> {
        self.call(|_, locks| async move { locks.inspect(name).await }).await
    }

    async fn list(&self, after: Option<&Arc<str>>, limit: usize) -> Result<LockPage, Error> {
        self.call(|_, locks| async move { locks.list(after, limit).await }).await
    }

    async fn sweep(&self) -> Result<(), Error> {
        self.call(|_, locks| async move { locks.sweep().await }).await
    }
}
