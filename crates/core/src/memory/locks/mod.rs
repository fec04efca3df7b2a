//! Locks of one process, which outlive it: for an embedded store, or all clients of one server.
//!
//! Times to live use the monotonic clock, so setting the wall clock ends no lock. A new grant is recorded in the registry
//! before it is answered, and removed when it is released; a renewal is not recorded. So after a restart every holder gets a
//! full time to live.
//!
//! Changes of a lock's holder are made one at a time, so the registry sees them in their order.

mod record;
mod state;
mod sweep;

use super::job_table::Now;
use crate::clock::Clock;
use crate::error::Error;
use crate::keyed_mutex::KeyedMutex;
use crate::ports::{Acquire, Acquired, Grant, Holding, LockList, Locks as Port, Registry, Released, TurnWake};
use async_trait::async_trait;
use record::Record;
use state::{Answer, State};
use std::sync::{Arc, Mutex, OnceLock};

/// Most locks that are known at a time: held, waited for, or ended a moment ago.
const LOCKS_MAX: usize = 100_000;

/// Locks in memory.
pub struct Locks {
    clock: Arc<dyn Clock>,
    record: Record,
    state: Mutex<State>,
    one_at_a_time: KeyedMutex<Arc<str>>,
    wake: OnceLock<TurnWake>,
}

impl Locks {
    /// Locks that use this clock and are recorded in this registry.
    pub fn new(clock: Arc<dyn Clock>, registry: Arc<dyn Registry>) -> Self {
        let record = Record::new(registry);
        Self { clock, record, state: Mutex::default(), one_at_a_time: KeyedMutex::default(), wake: OnceLock::new() }
    }

    /// Runs a function under the lock of the state, and then wakes the waiters whose turn may have come.
    fn with<R>(&self, act: impl FnOnce(&mut State, Now) -> R) -> R {
        let mut state = self.state.lock().expect("no panic leaves the locks half changed");
        let answer = act(&mut state, Now::of(self.clock.as_ref()));
        let to_wake = std::mem::take(&mut state.to_wake);
        drop(state);
        if let Some(wake) = self.wake.get() {
            to_wake.iter().for_each(|(name, owner)| wake(name, owner));
        }
        answer
    }
}

#[async_trait]
impl Port for Locks {
    async fn start(&self, wake: TurnWake) -> Result<(), Error> {
        assert!(self.wake.set(wake).is_ok(), "locks are started by one engine");
        let (grants, fence) = self.record.read().await?;
        self.with(|state, now| {
            state.last_fence = fence;
            grants.into_iter().for_each(|(name, written)| state.restore(name, written, now));
        });
        Ok(())
    }

    async fn acquire(&self, acquire: Acquire) -> Result<Acquired, Error> {
        let _guard = self.one_at_a_time.lock(acquire.name.clone()).await;
        let asked = self.with(|state, now| {
            if state.len() >= LOCKS_MAX && !state.knows(&acquire.name) {
                return Err(Error::LimitReached(format!(
                    "{LOCKS_MAX} locks are held or waited for, the limit; release some, or use Redis"
                )));
            }
            Ok(state.ask(&acquire, now))
        })?;
        let (fence, is_new, is_recorded) = match asked {
            Answer::Held(held) => return Ok(held),
            Answer::Holds { fence, ttl_ms } => (fence, false, ttl_ms == acquire.ttl_ms),
            Answer::Free { fence } => (fence, true, false),
        };
        if !is_recorded {
            self.record.write(&acquire, fence).await?;
        }
        let grant = self.with(|state, now| state.grant(&acquire, fence, now));
        Ok(Acquired::Granted { grant, is_new })
    }

    async fn abandon(&self, name: &Arc<str>, owner: &Arc<str>) -> Result<(), Error> {
        self.with(|state, now| state.trim(name, Some(owner), now));
        Ok(())
    }

    async fn renew(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl_ms: u64) -> Result<Option<Grant>, Error> {
        let _guard = self.one_at_a_time.lock(name.clone()).await;
        let acquire = Acquire { name: name.clone(), owner: owner.clone(), ttl_ms, waiting: false };
        match self.with(|state, now| state.held_by(name, owner, fence, now)) {
            None => return Ok(None),
            Some(held_ms) if held_ms == ttl_ms => {}
            Some(_) => self.record.write(&acquire, fence).await?,
        }
        // The lock may have expired while the record was written.
        Ok(self.with(|state, now| {
            state.held_by(name, owner, fence, now).is_some().then(|| state.grant(&acquire, fence, now))
        }))
    }

    async fn release(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<bool, Error> {
        let _guard = self.one_at_a_time.lock(name.clone()).await;
        if self.with(|state, now| state.held_by(name, owner, fence, now)).is_none() {
            return Ok(false);
        }
        self.record.remove(name).await?;
        self.with(|state, now| state.release(name, owner, now));
        Ok(true)
    }

    async fn release_all(&self, owner: &Arc<str>) -> Result<Released, Error> {
        let mut all = Released::default();
        let mut after = None;
        loop {
            let step = self.with(|state, _| state.grants_of(owner, after.as_ref()));
            let Some((last, _)) = step.last() else { return Ok(all) };
            after = Some(last.clone());
            for (name, fence) in step {
                if self.release(&name, owner, fence).await? {
                    all.released += 1;
                } else if self.with(|state, now| state.forget_lost(&name, owner, fence, now)) {
                    all.lost += 1;
                }
            }
        }
    }

    async fn inspect(&self, name: &Arc<str>) -> Result<Option<Holding>, Error> {
        Ok(self.with(|state, now| state.holding(name, now)))
    }

    async fn list(&self, after: Option<&Arc<str>>, limit: usize) -> Result<LockList, Error> {
        Ok(self.with(|state, now| state.page(after, limit, now)))
    }

    async fn sweep(&self) -> Result<(), Error> {
        self.sweep_all().await
    }
}
