//! The holders and waiters of locks: decisions are made here, under one lock, without waiting for anything.

use super::record::GrantRecord;
use crate::clock::Millis;
use crate::json::Timestamp;
use crate::limits::{LOCK_REFRESH_MS, LOCK_TICKET_MS, LOCK_TICKETS_MAX, STEP_JOBS_MAX};
use crate::memory::job_table::Now;
use crate::model::id::next_fence;
use crate::ports::{Acquire, Acquired, Grant, Holding, LockList};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// An owner and a lock's name.
pub(super) type Claim = (Arc<str>, Arc<str>);

/// All locks.
#[derive(Debug, Default)]
pub(super) struct State {
    /// By name; a lock that is neither held nor waited for is removed.
    pub(super) locks: BTreeMap<Arc<str>, Lock>,
    /// By owner and name: held locks, and locks that expired unreleased a moment ago.
    pub(super) grants: BTreeMap<Claim, LiveGrant>,
    /// No fence above this has been given.
    pub(super) last_fence: u64,
    /// The lock, and the first owner in its line.
    pub(super) to_wake: Vec<(Arc<str>, Arc<str>)>,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    /// The last holder. Its time may be over.
    pub(super) holder: Option<Arc<str>>,
    line: VecDeque<Ticket>,
}

#[derive(Debug)]
struct Ticket {
    owner: Arc<str>,
    /// By the monotonic clock, like all ends in this module.
    ends: Millis,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LiveGrant {
    pub(super) fence: u64,
    pub(super) ttl_ms: u64,
    pub(super) ends: Millis,
    /// The end by the wall clock at the time of the grant.
    expires_at: Millis,
}

impl LiveGrant {
    fn new(fence: u64, ttl_ms: u64, now: Now) -> Self {
        Self { fence, ttl_ms, ends: now.mono + ttl_ms, expires_at: now.wall.saturating_add(ttl_ms) }
    }

    /// The end by the current wall clock. The same each time unless that was set: each clock is read to the millisecond
    /// only.
    fn shown_end(&self, now: Now) -> Millis {
        let expires_at = now.wall.saturating_add(self.ends - now.mono);
        if expires_at.abs_diff(self.expires_at) <= 2 { self.expires_at } else { expires_at }
    }
}

/// The answer to a request for a lock.
pub(super) enum Answer {
    /// It may be granted under this fence.
    Free { fence: u64 },
    /// The owner has it.
    Holds { fence: u64, ttl_ms: u64 },
    /// Not now.
    Held(Acquired),
}

impl State {
    pub(super) fn len(&self) -> usize {
        self.locks.len().max(self.grants.len())
    }

    pub(super) fn knows(&self, name: &Arc<str>) -> bool {
        self.locks.contains_key(name)
    }

    /// A grant of an earlier process gets its full time to live again.
    pub(super) fn restore(&mut self, name: Arc<str>, written: GrantRecord, now: Now) {
        let GrantRecord { owner, fence, ttl_ms } = written;
        self.locks.entry(name.clone()).or_default().holder = Some(owner.clone());
        self.grants.insert((owner, name), LiveGrant::new(fence, ttl_ms, now));
    }

    /// The holder whose time to live is not over, and its grant.
    fn live(&self, name: &Arc<str>, now: Now) -> Option<(&Arc<str>, LiveGrant)> {
        let owner = self.locks.get(name)?.holder.as_ref()?;
        let given = *self.grants.get(&(owner.clone(), name.clone()))?;
        (given.ends > now.mono).then_some((owner, given))
    }

    /// The time to live, if this owner holds it under this fence.
    pub(super) fn held_by(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, now: Now) -> Option<u64> {
        let (holder, given) = self.live(name, now)?;
        (holder == owner && given.fence == fence).then_some(given.ttl_ms)
    }

    /// Also takes, refreshes or drops the ticket. Nothing is granted yet.
    pub(super) fn ask(&mut self, acquire: &Acquire, now: Now) -> Answer {
        let Acquire { name, owner, waiting, .. } = acquire;
        let held_ms = match self.live(name, now) {
            Some((holder, given)) if holder == owner => {
                return Answer::Holds { fence: given.fence, ttl_ms: given.ttl_ms };
            }
            Some((_, given)) => given.ends - now.mono,
            None => 0,
        };
        let lock = self.locks.entry(name.clone()).or_default();
        let first = lock.first();
        lock.line.retain(|ticket| ticket.ends > now.mono);
        let place = lock.line.iter().position(|ticket| ticket.owner == *owner);
        if held_ms == 0 && (lock.line.is_empty() || place == Some(0)) {
            self.last_fence = next_fence(self.last_fence, now.wall);
            return Answer::Free { fence: self.last_fence };
        }
        let ends = now.mono + LOCK_TICKET_MS;
        let place = match (place, *waiting) {
            (Some(place), true) => {
                lock.line[place].ends = ends;
                place
            }
            (Some(place), false) => {
                lock.line.remove(place);
                place
            }
            (None, _) => {
                let place = lock.line.len();
                if *waiting && place < LOCK_TICKETS_MAX {
                    lock.line.push_back(Ticket { owner: owner.clone(), ends });
                }
                place
            }
        };
        let ahead_ms = lock.line.iter().take(place).map(|ticket| ticket.ends - now.mono).max().unwrap_or(0);
        self.moved(name, first.as_ref(), Some(owner));
        let expires_in_ms = if held_ms > 0 { held_ms } else { ahead_ms.max(1) };
        let again_in_ms = held_ms.max(ahead_ms).clamp(1, LOCK_REFRESH_MS);
        Answer::Held(Acquired::Held { expires_in_ms, again_in_ms })
    }

    /// Makes the owner the holder, or extends its grant, from now on.
    pub(super) fn grant(&mut self, acquire: &Acquire, fence: u64, now: Now) -> Grant {
        let Acquire { name, owner, ttl_ms, .. } = acquire;
        let lock = self.locks.entry(name.clone()).or_default();
        let first = lock.first();
        lock.holder = Some(owner.clone());
        lock.line.retain(|ticket| ticket.owner != *owner);
        let given = LiveGrant::new(fence, *ttl_ms, now);
        let before = self.grants.insert((owner.clone(), name.clone()), given);
        // The first in line counts on the end that it was told.
        let is_nearer = before.is_some_and(|before| before.fence == fence && before.ends > given.ends);
        self.moved(name, first.as_ref().filter(|_| !is_nearer), Some(owner));
        Grant { fence, expires_at: Timestamp(given.expires_at) }
    }

    /// Frees a lock that the owner holds.
    pub(super) fn release(&mut self, name: &Arc<str>, owner: &Arc<str>, now: Now) {
        self.grants.remove(&(owner.clone(), name.clone()));
        let Some(lock) = self.locks.get_mut(name) else { return };
        lock.holder = None;
        lock.line.retain(|ticket| ticket.ends > now.mono);
        self.moved(name, None, None);
    }

    /// Drops tickets that have lapsed, and that of an owner who leaves.
    pub(super) fn trim(&mut self, name: &Arc<str>, leaves: Option<&Arc<str>>, now: Now) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        let first = lock.first();
        lock.line.retain(|ticket| ticket.ends > now.mono && leaves != Some(&ticket.owner));
        self.moved(name, first.as_ref(), None);
    }

    /// Wakes the first in line if it has changed, unless it is the caller. Removes a lock that nobody holds or waits for.
    fn moved(&mut self, name: &Arc<str>, before: Option<&Arc<str>>, asks: Option<&Arc<str>>) {
        let Some(lock) = self.locks.get(name) else { return };
        match lock.first() {
            Some(first) if before != Some(&first) && asks != Some(&first) => self.to_wake.push((name.clone(), first)),
            None if lock.holder.is_none() => drop(self.locks.remove(name)),
            _ => {}
        }
    }

    /// Grants of an owner, after this lock, in a step.
    pub(super) fn grants_of(&self, owner: &Arc<str>, after: Option<&Arc<str>>) -> Vec<(Arc<str>, u64)> {
        let from = after.map_or(Bound::Included((owner.clone(), Arc::from(""))), |after| {
            Bound::Excluded((owner.clone(), after.clone()))
        });
        let of_owner = self.grants.range((from, Bound::Unbounded)).take_while(|((of, _), _)| of == owner);
        of_owner.take(STEP_JOBS_MAX).map(|((_, name), given)| (name.clone(), given.fence)).collect()
    }

    /// Removes a grant that has ended, and returns whether there was one.
    pub(super) fn forget_lost(&mut self, name: &Arc<str>, owner: &Arc<str>, fence: u64, now: Now) -> bool {
        let claim = (owner.clone(), name.clone());
        let is_lost = self.grants.get(&claim).is_some_and(|given| given.fence == fence && given.ends <= now.mono);
        if is_lost {
            self.grants.remove(&claim);
        }
        is_lost
    }

    pub(super) fn holding(&self, name: &Arc<str>, now: Now) -> Option<Holding> {
        let (owner, given) = self.live(name, now)?;
        let grant = Grant { fence: given.fence, expires_at: Timestamp(given.shown_end(now)) };
        let waiting = self.locks.get(name).map_or(0, |lock| lock.line.len());
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        Some(Holding { name: name.clone(), owner: owner.clone(), grant, waiting })
    }

    pub(super) fn page(&self, after: Option<&Arc<str>>, limit: usize, now: Now) -> LockList {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names: Vec<&Arc<str>> =
            self.locks.range::<Arc<str>, _>((from, Bound::Unbounded)).map(|(name, _)| name).take(limit).collect();
        let next_cursor = if names.len() == limit { names.last().map(|&name| name.clone()) } else { None };
        LockList { locks: names.into_iter().filter_map(|name| self.holding(name, now)).collect(), next_cursor }
    }
}

impl Lock {
    pub(super) fn is_idle(&self) -> bool {
        self.holder.is_none() && self.line.is_empty()
    }

    fn first(&self) -> Option<Arc<str>> {
        self.line.front().map(|ticket| ticket.owner.clone())
    }
}
