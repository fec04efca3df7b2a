//! A broker in memory that several engines share, and locks beside it: a model of Redis and its failures. It may be emptied,
//! fall back to an earlier copy of itself, come back with another clock, or be unavailable.

use crate::clock::{Clock, Millis};
use crate::error::Error;
use crate::memory::{self, Memory};
use crate::model::id::{JobId, floor};
use crate::model::job::Job;
use crate::ports::{
    Beginning, Broker, BrokerClock, Counts, Detail, Edit, Edited, Expired, Extend, Extended, HandOut, Host, Lease,
    Limits, Listing, Outbox, OutboxEntry, Outcomes, Put, Queues, Reading, Reserve, Reserved, Room, Settle, Settled,
    Take, Taken, Tally,
};
use crate::testing::shared_locks::locks_from;
use crate::testing::skewed::Skewed;
use crate::testing::{TokioClock, heads};
use async_trait::async_trait;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// The duration of a call whose answer is lost.
const MUTE_FOR: Duration = Duration::from_millis(1_200);
/// When to look again in a memory that has not begun.
const NOT_YET_MS: u64 = 500;

/// The engines that use it, all of which are woken.
#[derive(Clone, Default)]
struct Hosts(Arc<Mutex<Vec<Arc<dyn Host>>>>);

impl Hosts {
    fn add(&self, host: Arc<dyn Host>) {
        self.0.lock().expect("no panic under this lock").push(host);
    }
}

#[async_trait]
impl Host for Hosts {
    async fn beginning(&self) -> Result<Beginning, Error> {
        unreachable!("the engine that finds the memory is asked")
    }

    fn wake(&self, queue: Option<&Arc<str>>) {
        let hosts = self.0.lock().expect("no panic under this lock").clone();
        hosts.iter().for_each(|host| host.wake(queue));
    }
}

/// Called with each new lease.
type OnLease = Arc<dyn Fn(&Lease, bool, &Shared) + Send + Sync>;

/// Called with each newly granted lock, and its fence.
pub(super) type OnGrant = Arc<dyn Fn(&str, u64) + Send + Sync>;

/// The broker and its locks. Clones share them: one for each engine.
pub struct Shared {
    clock: Arc<TokioClock>,
    parts: Arc<Mutex<Parts>>,
    hosts: Hosts,
    on_lease: Arc<OnceLock<OnLease>>,
    pub(super) on_grant: Arc<OnceLock<OnGrant>>,
    /// The engine.
    host: OnceLock<Arc<dyn Host>>,
    /// The last memory that this engine heard from.
    known: AtomicU64,
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        let Self { clock, parts, hosts, on_lease, on_grant, .. } = self;
        let (clock, parts, hosts) = (clock.clone(), parts.clone(), hosts.clone());
        let (on_lease, on_grant) = (on_lease.clone(), on_grant.clone());
        let known = AtomicU64::new(parts.lock().expect("no panic under this lock").number);
        Self { clock, parts, hosts, on_lease, on_grant, host: OnceLock::new(), known }
    }
}

struct Parts {
    memory: Arc<Memory>,
    clock: Arc<Skewed>,
    /// None until the memory has begun.
    locks: Option<Arc<memory::Locks>>,
    /// The number of the current memory.
    number: u64,
    copy: Option<(Memory, Arc<Skewed>)>,
    presence: Presence,
    /// The bounds of its clock that callers assume, behind and ahead.
    unknown_ms: (u64, u64),
    /// Jobs that a put found missing.
    new_puts: u64,
}

/// Whether it is available.
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
        let (hosts, own) = (Hosts::default(), Skewed::new(&clock, 0));
        let parts = Parts {
            memory: watched(Memory::new(own.clone()), &hosts),
            clock: own,
            locks: None,
            number: 1,
            copy: None,
            presence: Presence::There,
            unknown_ms: (0, 0),
            new_puts: 0,
        };
        let (on_lease, on_grant, host) = (Arc::default(), Arc::default(), OnceLock::new());
        let (parts, known) = (Arc::new(Mutex::new(parts)), AtomicU64::new(1));
        Self { clock, parts, hosts, on_lease, on_grant, host, known }
    }

    /// Reports every lease that begins and whether a take began it, even if its holder never gets the answer.
    pub fn on_lease(&self, tell: OnLease) {
        assert!(self.on_lease.set(tell).is_ok(), "one listens");
    }

    /// Reports every newly granted lock, even if its holder never gets the answer.
    pub fn on_grant(&self, tell: OnGrant) {
        assert!(self.on_grant.set(tell).is_ok(), "one listens");
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().expect("no panic under this lock")
    }

    /// Empties it.
    pub fn flush(&self) {
        self.flush_by(0);
    }

    /// The same, and its clock is ahead of that of the first memory by this much.
    pub fn flush_by(&self, by_ms: i64) {
        let clock = Skewed::new(&self.clock, by_ms);
        self.replace(Memory::new(clock.clone()), clock);
    }

    /// Copies the current state to a replica.
    pub fn copy(&self) {
        let mut parts = self.parts();
        let clock = Skewed::new(&self.clock, parts.clock.by_ms.load(Ordering::SeqCst));
        parts.copy = Some((parts.memory.copy(clock.clone()), clock));
    }

    /// Fails over to the replica, if there is one; returns whether there was.
    pub fn fall_back(&self) -> bool {
        self.fall_back_by(0)
    }

    /// The same, and its clock is ahead of that of the first memory by this much.
    pub fn fall_back_by(&self, by_ms: i64) -> bool {
        let copy = self.parts().copy.take();
        let Some((memory, clock)) = copy else { return false };
        clock.by_ms.store(by_ms, Ordering::SeqCst);
        self.replace(memory, clock);
        true
    }

    /// Locks are lost in any case, as the last grants always are.
    fn replace(&self, memory: Memory, clock: Arc<Skewed>) {
        let mut parts = self.parts();
        parts.memory = watched(memory, &self.hosts);
        parts.number += 1;
        (parts.clock, parts.locks, parts.copy) = (clock, None, None);
        drop(parts);
        // Clients connect again.
        self.hosts.wake(None);
    }

    /// Makes it unavailable, or available again.
    pub fn set_presence(&self, presence: Presence) {
        self.parts().presence = presence;
    }

    /// From now on its clock is only known to lie within these bounds around what it reads.
    pub fn blur_clock(&self, behind_ms: u64, ahead_ms: u64) {
        self.parts().unknown_ms = (behind_ms, ahead_ms);
    }

    /// The current incarnation of its memory.
    pub fn incarnation_now(&self) -> String {
        format!("memory {}", self.parts().number)
    }

    /// The number of puts of jobs that it did not hold.
    pub fn new_puts(&self) -> u64 {
        self.parts().new_puts
    }

    /// The memory that is there now.
    pub fn memory(&self) -> Arc<Memory> {
        self.parts().memory.clone()
    }

    async fn call<T, F>(&self, verb: impl FnOnce(Arc<Memory>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let (memory, presence) = {
            let parts = self.parts();
            if parts.presence != Presence::Away {
                self.known.store(parts.number, Ordering::SeqCst);
            }
            (parts.memory.clone(), parts.presence)
        };
        match presence {
            Presence::There => verb(memory).await,
            Presence::Away => Err(Error::Unavailable("the broker was taken away".into())),
            Presence::Mute | Presence::Stalled => {
                if presence == Presence::Mute {
                    drop(verb(memory).await);
                }
                tokio::time::sleep(MUTE_FOR).await;
                Err(Error::Unavailable("the broker does not answer; trying again".into()))
            }
        }
    }

    /// The same, once the memory has begun.
    async fn call_begun<T, F>(&self, verb: impl FnOnce(Arc<Memory>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        self.make_ready().await?;
        let is_ready = self.parts().locks.is_some();
        self.call(|memory| begun(is_ready.then(|| verb(memory)))).await
    }

    pub(super) async fn call_locks<T, F>(&self, verb: impl FnOnce(Arc<memory::Locks>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        self.make_ready().await?;
        let locks = self.parts().locks.clone();
        self.call(|_| begun(locks.map(verb))).await
    }

    /// Begins the current memory, by whichever caller finds that it has not begun. Of two at once the first counts.
    async fn make_ready(&self) -> Result<(), Error> {
        let (number, clock, is_ready, presence) = {
            let parts = self.parts();
            (parts.number, parts.clock.clone(), parts.locks.is_some(), parts.presence)
        };
        if is_ready || presence != Presence::There {
            return Ok(());
        }
        let host = self.host.get().ok_or_else(|| Error::Unavailable("the broker has no host".into()))?;
        host.compare(0, &format!("memory {number}")).await?;
        let beginning = host.beginning().await?;
        let locks = locks_from(clock, floor(beginning.generation)).await?;
        let mut parts = self.parts();
        if parts.number == number && parts.locks.is_none() {
            parts.memory.begin_with(beginning);
            parts.locks = Some(locks);
        }
        Ok(())
    }
}

/// The answer of a verb that needs a memory which has begun.
async fn begun<T>(answer: Option<impl Future<Output = Result<T, Error>>>) -> Result<T, Error> {
    match answer {
        Some(answer) => answer.await,
        None => Err(Error::Unavailable("the broker begins again".into())),
    }
}

fn watched(memory: Memory, hosts: &Hosts) -> Arc<Memory> {
    memory.watch(Arc::new(hosts.clone()));
    Arc::new(memory)
}

impl BrokerClock for Shared {
    fn now(&self) -> Millis {
        let parts = self.parts();
        parts.clock.wall() - parts.unknown_ms.0
    }

    fn now_at_most(&self) -> Millis {
        let parts = self.parts();
        parts.clock.wall() + parts.unknown_ms.1
    }

    fn reading(&self) -> Reading {
        Reading { at: self.now(), memory: self.known.load(Ordering::SeqCst) }
    }
}

#[async_trait]
impl Outbox for Shared {
    async fn outcomes(&self, which: Outcomes) -> Result<Vec<OutboxEntry>, Error> {
        self.call(|memory| async move { memory.outcomes(which).await }).await
    }

    async fn forget(&self, noted: &[(JobId, u64)], watermark: Millis) -> Result<Vec<JobId>, Error> {
        self.call(|memory| async move { memory.forget(noted, watermark).await }).await
    }

    fn backlog(&self) -> usize {
        self.memory().backlog()
    }
}

impl Shared {
    async fn hand_out(&self, request: HandOut<'_>) -> Result<Taken, Error> {
        if let Err(error) = self.make_ready().await {
            tracing::debug!(%error, "nothing is handed out yet");
        }
        let again_at = self.now() + NOT_YET_MS;
        self.call(|memory| async move {
            if self.parts().locks.is_none() {
                let reserved = Reserved { next_at: Some(again_at), ..Reserved::default() };
                return Ok(Taken { reserved, ..Taken::default() });
            }
            let taken = match request {
                HandOut::Take(take) => memory.take(take.clone()).await?,
                HandOut::Reserve(reserve) => {
                    Taken { reserved: memory.reserve(reserve.clone()).await?, ..Taken::default() }
                }
            };
            if let Some(tell) = self.on_lease.get() {
                taken.reserved.leases.iter().for_each(|lease| tell(lease, request.takes(), self));
            }
            Ok(taken)
        })
        .await
    }
}

#[async_trait]
impl Broker for Shared {
    fn is_shared(&self) -> bool {
        true
    }

    async fn incarnation(&self) -> Result<String, Error> {
        self.call(|_| async { Ok(self.incarnation_now()) }).await
    }

    async fn begin(&self, host: Arc<dyn Host>) -> Result<(), Error> {
        self.hosts.add(host.clone());
        assert!(self.host.set(host.clone()).is_ok(), "a broker is begun by one engine");
        let number = self.parts().number;
        if self.parts().locks.is_none() && host.compare(0, &format!("memory {number}")).await.is_err() {
            // It begins later.
            return Ok(());
        }
        self.make_ready().await
    }

    async fn put(&self, jobs: Vec<Job>, reading: Reading, room: Room) -> Result<Vec<Put>, Error> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        self.call(|memory| async move {
            if reading.memory < self.parts().number {
                return Ok(vec![Put::Stale; ids.len()]);
            }
            let before = memory.get(&ids, Detail::Head).await?;
            let puts = memory.put(jobs, reading, room).await?;
            let new = before.iter().zip(&puts).filter(|(before, put)| before.is_none() && **put == Put::Held);
            self.parts().new_puts += new.count() as u64;
            Ok(puts)
        })
        .await
    }

    async fn reserve(&self, reserve: Reserve) -> Result<Reserved, Error> {
        Ok(self.hand_out(HandOut::Reserve(&reserve)).await?.reserved)
    }

    async fn take(&self, take: Take) -> Result<Taken, Error> {
        self.hand_out(HandOut::Take(&take)).await
    }

    async fn next_due(&self, queue: &Arc<str>) -> Result<Option<Millis>, Error> {
        self.call(|memory| async move { memory.next_due(queue).await }).await
    }

    async fn extend(&self, leases: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        self.call_begun(|memory| async move { memory.extend(leases).await }).await
    }

    async fn settle(&self, settles: Vec<Settle>) -> Result<Settled, Error> {
        self.call_begun(|memory| async move { memory.settle(settles).await }).await.map(heads::of_settled)
    }

    async fn expired(&self, limit: usize) -> Result<Expired, Error> {
        self.call_begun(|memory| async move { memory.expired(limit).await }).await.map(heads::of_expired)
    }

    async fn edit(&self, edits: Vec<Edit>) -> Result<(Vec<Edited>, Vec<OutboxEntry>), Error> {
        self.call_begun(|memory| async move { memory.edit(edits).await }).await
    }

    async fn bar(&self, rows: &[(JobId, u64)]) -> Result<Vec<JobId>, Error> {
        self.call_begun(|memory| async move { memory.bar(rows).await }).await
    }

    async fn get(&self, ids: &[JobId], detail: Detail) -> Result<Vec<Option<Job>>, Error> {
        let jobs = self.call(|memory| async move { memory.get(ids, detail).await }).await?;
        Ok(if detail == Detail::Head { heads::of(jobs) } else { jobs })
    }

    async fn list(&self, listing: Listing) -> Result<Vec<Job>, Error> {
        self.call(|memory| async move { memory.list(listing).await }).await
    }

    async fn counts(&self, queues: Queues) -> Result<Vec<(Arc<str>, Counts, Option<Tally>)>, Error> {
        self.call(|memory| async move { memory.counts(queues).await }).await
    }

    async fn limit(&self, queue: &Arc<str>, limits: Limits, version: u64) -> Result<(), Error> {
        self.call_begun(|memory| async move { memory.limit(queue, limits, version).await }).await
    }

    async fn remove_queue(&self, queue: &Arc<str>, version: u64) -> Result<bool, Error> {
        self.call_begun(|memory| async move { memory.remove_queue(queue, version).await }).await
    }

    async fn set_watermark(&self, watermark: Millis) -> Result<(), Error> {
        self.call(|memory| async move { memory.set_watermark(watermark).await }).await
    }
}
