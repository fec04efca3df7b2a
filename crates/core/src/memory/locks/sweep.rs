//! Removal of locks and grants that have ended.

use super::state::{Claim, State};
use super::{Locks, Now};
use crate::error::Error;
use crate::limits::{LOCK_LOST_KEPT_MS, STEP_JOBS_MAX};
use std::ops::Bound;
use std::sync::Arc;

impl Locks {
    /// Looks at every lock and grant, in steps.
    pub(super) async fn sweep_all(&self) -> Result<(), Error> {
        let mut after = None;
        while let Some(last) = self.with(|state, now| state.sweep_lines(after.as_ref(), now)) {
            after = Some(last);
            tokio::task::yield_now().await;
        }
        let mut after = None;
        loop {
            let step = self.with(|state, now| state.sweep_grants(after.as_ref(), now));
            for (owner, name) in step.ended {
                self.free(&owner, &name).await?;
            }
            if step.last.is_none() {
                return Ok(());
            }
            after = step.last;
            tokio::task::yield_now().await;
        }
    }

    /// Removes a lock whose holder's time to live is over from the registry. Otherwise a restart would restore it.
    async fn free(&self, owner: &Arc<str>, name: &Arc<str>) -> Result<(), Error> {
        let _guard = self.one_at_a_time.lock(name.clone()).await;
        if self.with(|state, now| state.is_over(owner, name, now)) {
            self.record.remove(name).await?;
            self.with(|state, _| state.freed(name));
        }
        Ok(())
    }
}

/// The result of a step over the grants.
struct SweepStep {
    /// Holders whose time to live is over.
    ended: Vec<Claim>,
    /// The position to continue from.
    last: Option<Claim>,
}

impl State {
    /// Drops tickets that have lapsed, and returns where to continue.
    fn sweep_lines(&mut self, after: Option<&Arc<str>>, now: Now) -> Option<Arc<str>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let step = self.locks.range::<Arc<str>, _>((from, Bound::Unbounded)).take(STEP_JOBS_MAX);
        let names: Vec<Arc<str>> = step.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.trim(name, None, now));
        if names.len() == STEP_JOBS_MAX { names.last().cloned() } else { None }
    }

    /// Finds holders whose time to live is over, and removes grants that need not be remembered any longer.
    fn sweep_grants(&mut self, after: Option<&Claim>, now: Now) -> SweepStep {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let step = self.grants.range::<Claim, _>((from, Bound::Unbounded)).take(STEP_JOBS_MAX);
        let (mut count, mut last, mut over) = (0, None, Vec::new());
        for (claim, given) in step {
            count += 1;
            last = Some(claim.clone());
            if given.ends <= now.mono {
                over.push((claim.clone(), given.ends));
            }
        }
        let mut ended = Vec::new();
        for (claim, ends) in over {
            if self.locks.get(&claim.1).is_some_and(|lock| lock.holder.as_ref() == Some(&claim.0)) {
                ended.push(claim);
            } else if ends.saturating_add(LOCK_LOST_KEPT_MS) <= now.mono {
                self.grants.remove(&claim);
            }
        }
        SweepStep { ended, last: last.filter(|_| count == STEP_JOBS_MAX) }
    }

    /// Whether this owner was the last holder, and its time is over.
    fn is_over(&self, owner: &Arc<str>, name: &Arc<str>, now: Now) -> bool {
        let holds = self.locks.get(name).is_some_and(|lock| lock.holder.as_ref() == Some(owner));
        let given = self.grants.get(&(owner.clone(), name.clone()));
        holds && given.is_none_or(|given| given.ends <= now.mono)
    }

    /// The lock is free. Its last grant stays, to be counted as lost.
    fn freed(&mut self, name: &Arc<str>) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        lock.holder = None;
        if lock.is_idle() {
            self.locks.remove(name);
        }
    }
}
