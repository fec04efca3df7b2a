//! Locks: acquire with a wait, renew, release, inspect.
//!
//! A waiting caller sleeps until the store wakes it, or until it is the first in line. A caller that stops waiting gives up
//! its place, also if its future is dropped. A grant whose caller has gone is released.

use crate::api::Span;
use crate::engine::base::Base;
use crate::engine::supervisor::Supervisor;
use crate::engine::waiters::{Registration, Waiters};
use crate::error::Error;
use crate::invalid::Invalid;
use crate::keyed_mutex::{KeyedGuard, KeyedMutex};
use crate::limits::{LOCK_TTL_MS_MAX, LOCK_TTL_MS_MIN, PAGE_LOCKS_MAX, WAIT_MS_MAX};
use crate::model::name::{check_free, check_lock, check_owner};
use crate::ports::{Acquire, Acquired, Grant, Holding, LockList, Locks, Released};
use crate::request::LockRequest;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often ended locks, and ended places in line for them, are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// An owner, and the lock that it claims.
type Claim = (Arc<str>, Arc<str>);

/// Grants locks to callers, who may wait for them.
pub(super) struct LockDesk {
    locks: Arc<dyn Locks>,
    waiters: Arc<Waiters<Claim>>,
    asking: KeyedMutex<Claim>,
    supervisor: Arc<Supervisor>,
}

impl LockDesk {
    pub(super) fn new(base: &Base) -> Self {
        let Base { stores, supervisor, .. } = base;
        Self {
            locks: stores.locks.clone(),
            waiters: Arc::default(),
            asking: KeyedMutex::default(),
            supervisor: supervisor.clone(),
        }
    }

    pub(in crate::engine) async fn acquire(self: &Arc<Self>, request: LockRequest) -> Result<Grant, Error> {
        self.supervisor.check_open()?;
        check_claim(&request.name, &request.owner)?;
        check_ttl(request.ttl)?;
        request.wait.check("wait", 0, WAIT_MS_MAX)?;
        let LockRequest { name, owner, ttl, wait, keep_place } = request;
        let end = Instant::now() + Duration::from(wait);
        let claim = (owner.clone(), name.clone());
        let mut place = PlaceInLine { desk: self, claim: claim.clone(), registration: None };
        loop {
            let is_last = Instant::now() >= end;
            let waiting = !is_last || keep_place;
            if waiting && place.registration.is_none() {
                place.registration = Some(self.waiters.register(vec![claim.clone()]));
            }
            // Registered before the store is asked, so that no wake in between is missed.
            let woken = place.registration.as_ref().map(Registration::woken);
            let acquire = Acquire { name: name.clone(), owner: owner.clone(), ttl_ms: ttl.0, waiting };
            let (expires_in_ms, again_in_ms) = match self.ask(acquire).await? {
                Acquired::Granted { grant, .. } => {
                    place.leave();
                    return Ok(grant);
                }
                Acquired::Held { expires_in_ms, again_in_ms } => (expires_in_ms, again_in_ms),
            };
            if is_last {
                place.leave();
                return Err(Error::LockHeld { name, expires_in: Span(expires_in_ms) });
            }
            let again = Instant::now() + Duration::from_millis(again_in_ms);
            tokio::select! {
                biased;
                () = self.supervisor.stopping().cancelled() => return Err(Error::Stopping),
                () = async { if let Some(woken) = woken { woken.wait().await } } => {}
                () = tokio::time::sleep_until(again.min(end)) => {}
            }
        }
    }

    /// Has the store wake callers here.
    ///
    /// # Errors
    /// Of the store.
    pub(super) async fn begin(&self) -> Result<(), Error> {
        let waiters = self.waiters.clone();
        self.locks.start(Arc::new(move |name, owner| waiters.wake_all(&(owner.clone(), name.clone())))).await
    }

    /// Removes locks that have ended, until the process stops.
    pub(super) async fn sweep(&self) {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            if let Err(error) = self.locks.sweep().await {
                tracing::warn!(%error, "could not remove expired locks; trying again");
            }
        }
    }

    /// Asks once. Runs to completion even if the caller disconnects.
    async fn ask(self: &Arc<Self>, acquire: Acquire) -> Result<Acquired, Error> {
        let answered = self.supervisor.complete(self, |desk| async move {
            let guard = desk.asking.lock((acquire.owner.clone(), acquire.name.clone())).await;
            let answer = desk.locks.acquire(acquire.clone()).await?;
            Ok::<_, Error>(PendingAnswer { answer: Some(answer), acquire, desk, guard: Some(guard) })
        });
        Ok(answered.await?.heard())
    }

    pub(in crate::engine) async fn renew(
        self: &Arc<Self>,
        name: &str,
        owner: &str,
        fence: u64,
        ttl: Span,
    ) -> Result<Grant, Error> {
        self.supervisor.check_open()?;
        check_claim(name, owner)?;
        check_ttl(ttl)?;
        let (name, owner) = (Arc::from(name), Arc::from(owner));
        self.supervisor
            .complete(self, |desk| async move {
                let renewed = desk.locks.renew(&name, &owner, fence, ttl.0).await?;
                renewed.ok_or(Error::LockLost { name, owner, fence })
            })
            .await
    }

    pub(in crate::engine) async fn release_lock(
        self: &Arc<Self>,
        name: &str,
        owner: &str,
        fence: u64,
    ) -> Result<(), Error> {
        self.supervisor.check_open()?;
        check_claim(name, owner)?;
        let (name, owner) = (Arc::from(name), Arc::from(owner));
        self.supervisor
            .complete(self, |desk| async move {
                let is_released = desk.locks.release(&name, &owner, fence).await?;
                if is_released { Ok(()) } else { Err(Error::LockLost { name, owner, fence }) }
            })
            .await
    }

    pub(in crate::engine) async fn release_all(self: &Arc<Self>, owner: &str) -> Result<Released, Error> {
        self.supervisor.check_open()?;
        check_holder(owner)?;
        let owner = Arc::from(owner);
        self.supervisor.complete(self, |desk| async move { desk.locks.release_all(&owner).await }).await
    }

    pub(in crate::engine) async fn inspect(&self, name: &str) -> Result<Option<Holding>, Error> {
        check_lock(name)?;
        self.locks.inspect(&Arc::from(name)).await
    }

    pub(in crate::engine) async fn list_locks(&self, cursor: Option<&str>, limit: usize) -> Result<LockList, Error> {
        self.list_locks_in("", cursor, limit).await
    }

    pub(in crate::engine) async fn list_locks_in(
        &self,
        beginning: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<LockList, Error> {
        if !(1..=PAGE_LOCKS_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("between 1 and {PAGE_LOCKS_MAX}"), limit));
        }
        if let Some(cursor) = cursor {
            check_lock(cursor)
                .map_err(|_| Error::invalid("cursor", "the `next_cursor` of an earlier answer", cursor))?;
        }
        let mut locks = Vec::new();
        let mut after = cursor.map(Arc::from);
        if cursor.is_none_or(|cursor| cursor < beginning) && check_lock(beginning).is_ok() {
            // All others that begin so come after this one.
            let first: Arc<str> = Arc::from(beginning);
            locks.extend(self.locks.inspect(&first).await?);
            after = Some(first);
        }
        if locks.len() == limit {
            return Ok(LockList { locks, next_cursor: Some(beginning.into()) });
        }
        let page = self.locks.list(after.as_ref(), limit - locks.len()).await?;
        locks.extend(page.locks.into_iter().filter(|holding| holding.name.starts_with(beginning)));
        Ok(LockList { locks, next_cursor: page.next_cursor.filter(|name| name.starts_with(beginning)) })
    }
}

fn check_claim(name: &str, owner: &str) -> Result<(), Invalid> {
    check_lock(name)?;
    check_free("lock", name)?;
    check_holder(owner)
}

/// The engine's own locks determine the leader: no caller may hold or release them.
fn check_holder(owner: &str) -> Result<(), Invalid> {
    check_owner(owner)?;
    check_free("owner", owner)
}

fn check_ttl(ttl: Span) -> Result<(), Invalid> {
    ttl.check("ttl", LOCK_TTL_MS_MIN, LOCK_TTL_MS_MAX)
}

/// A place in line, given up when it is dropped.
struct PlaceInLine<'a> {
    desk: &'a Arc<LockDesk>,
    claim: Claim,
    registration: Option<Registration<Claim>>,
}

impl PlaceInLine<'_> {
    /// There is nothing to release.
    fn leave(&mut self) {
        self.registration = None;
    }
}

impl Drop for PlaceInLine<'_> {
    fn drop(&mut self) {
        let Some(registration) = self.registration.take() else { return };
        let (desk, claim) = (self.desk.clone(), self.claim.clone());
        self.desk.supervisor.spawn(async move {
            // After any request of this owner that is under way, which would take a new ticket.
            let _guard = desk.asking.lock(claim.clone()).await;
            if !registration.is_shared()
                && let Err(error) = desk.locks.abandon(&claim.1, &claim.0).await
            {
                tracing::debug!(%error, "a place in line could not be given up; it expires");
            }
        });
    }
}

/// An answer on its way to its caller. If the caller has gone, a new grant is released before the same owner's next request
/// is answered.
struct PendingAnswer {
    answer: Option<Acquired>,
    acquire: Acquire,
    desk: Arc<LockDesk>,
    guard: Option<KeyedGuard<Claim>>,
}

impl PendingAnswer {
    fn heard(mut self) -> Acquired {
        self.answer.take().expect("it is heard once")
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        let Some(Acquired::Granted { grant, is_new: true }) = self.answer else { return };
        let (desk, guard) = (self.desk.clone(), self.guard.take());
        let Acquire { name, owner, .. } = self.acquire.clone();
        self.desk.supervisor.spawn(async move {
            if let Err(error) = desk.locks.release(&name, &owner, grant.fence).await {
                tracing::debug!(%error, "a lock whose caller has gone could not be released; it expires");
            }
            drop(guard);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, pass};
    use crate::model::name::OF_ENGINE;

    #[tokio::test(start_paused = true)]
    async fn a_grant_that_its_caller_did_not_hear_of_is_released() {
        let fixture = Fixture::new().await;
        let desk = &fixture.services.locks;
        for is_heard in [true, false] {
            let acquire = Acquire { name: "l".into(), owner: "o".into(), ttl_ms: 5_000, waiting: false };
            let answer = desk.locks.acquire(acquire.clone()).await.unwrap();
            let answered = PendingAnswer { answer: Some(answer), acquire, desk: desk.clone(), guard: None };
            if is_heard {
                let Acquired::Granted { grant, .. } = answered.heard() else { panic!("it is free") };
                pass(Duration::ZERO).await;
                desk.release_lock("l", "o", grant.fence).await.unwrap();
            } else {
                drop(answered);
                pass(Duration::ZERO).await;
                assert!(desk.inspect("l").await.unwrap().is_none());
            }
        }
    }

    /// Otherwise those behind it would wait until its place expires.
    #[tokio::test(start_paused = true)]
    async fn a_caller_that_stops_waiting_gives_up_its_place() {
        let fixture = Fixture::new().await;
        let desk = &fixture.services.locks;
        let grant = desk.acquire(LockRequest::new("l", "holder")).await.unwrap();
        let waits = desk.acquire(LockRequest::new("l", "gone").wait(Duration::from_secs(50)));
        assert!(tokio::time::timeout(Duration::from_millis(1), waits).await.is_err());
        pass(Duration::ZERO).await;
        desk.release_lock("l", "holder", grant.fence).await.unwrap();
        desk.acquire(LockRequest::new("l", "next")).await.unwrap();
    }

    #[test]
    fn the_locks_of_the_engine_are_its_own() {
        assert!(check_claim("l", "o").is_ok());
        assert!(check_claim(&format!("{OF_ENGINE}leader"), "o").is_err());
        assert!(check_claim("l", &format!("{OF_ENGINE}engine-1")).is_err());
    }
}
