//! Locks: acquire with a wait, renew, release, inspect.
//!
//! A waiting caller sleeps until the store wakes it, or until it is the first in line. A caller that stops waiting gives up
//! its place, also if its future is dropped. A grant whose caller has gone is released.

use super::parts::Claim;
use super::parts::waiters::Registration;
use super::{Engine, LockRequest};
use crate::api::Span;
use crate::error::Error;
use crate::invalid::Invalid;
use crate::keyed_mutex::KeyedGuard;
use crate::limits::{LOCK_TTL_MS_MAX, LOCK_TTL_MS_MIN, PAGE_LOCKS_MAX, WAIT_MS_MAX};
use crate::model::name::{check_free, check_lock, check_owner};
use crate::ports::{Acquire, Acquired, Grant, Holding, Released};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A page of locks that are held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LockPage))]
pub struct LockList {
    /// By name.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::api::LockBody>))]
    pub locks: Vec<Holding>,
    /// The start of the next page; `None` at the end.
    #[cfg_attr(feature = "openapi", schema(required, value_type = Option<crate::json::schema::Cursor>))]
    pub next_cursor: Option<String>,
}

impl Engine {
    /// Acquires a lock, waiting for it if it is held: first come, first served. The owner who holds it already gets the same
    /// fence again, and its time to live restarts. A call that is dropped while it waits has acquired nothing.
    ///
    /// # Errors
    /// [`Error::LockHeld`] if it could not be acquired within the wait; [`Error::Invalid`] beyond a limit;
    /// [`Error::Stopping`].
    pub async fn acquire(&self, request: LockRequest) -> Result<Grant, Error> {
        self.check_open()?;
        check_claim(&request.name, &request.owner)?;
        check_ttl(request.ttl_ms)?;
        Span(request.wait_ms).check("wait", 0, WAIT_MS_MAX)?;
        let LockRequest { name, owner, ttl_ms, wait_ms, keep_place } = request;
        let end = Instant::now() + Duration::from_millis(wait_ms);
        let claim = (owner.clone(), name.clone());
        let mut place = PlaceInLine { engine: self, claim: claim.clone(), registration: None };
        loop {
            let is_last = Instant::now() >= end;
            let waiting = !is_last || keep_place;
            if waiting && place.registration.is_none() {
                place.registration = Some(self.lock_waiters.register(vec![claim.clone()]));
            }
            // Registered before the store is asked, so that no wake in between is missed.
            let woken = place.registration.as_ref().map(Registration::woken);
            let acquire = Acquire { name: name.clone(), owner: owner.clone(), ttl_ms, waiting };
            let (expires_in_ms, again_in_ms) = match self.ask(acquire).await? {
                Acquired::Granted { grant, .. } => {
                    place.leave();
                    return Ok(grant);
                }
                Acquired::Held { expires_in_ms, again_in_ms } => (expires_in_ms, again_in_ms),
            };
            if is_last {
                place.leave();
                return Err(Error::LockHeld { name, expires_in_ms });
            }
            let again = Instant::now() + Duration::from_millis(again_in_ms);
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return Err(Error::Stopping),
                () = async { if let Some(woken) = woken { woken.wait().await } } => {}
                () = tokio::time::sleep_until(again.min(end)) => {}
            }
        }
    }

    /// Asks once. Runs to completion even if the caller disconnects.
    async fn ask(&self, acquire: Acquire) -> Result<Acquired, Error> {
        let answered = self.run_to_completion(|engine| async move {
            let guard = engine.asking.lock((acquire.owner.clone(), acquire.name.clone())).await;
            let answer = engine.locks.acquire(acquire.clone()).await?;
            Ok::<_, Error>(Answered { answer: Some(answer), acquire, engine, guard: Some(guard) })
        });
        Ok(answered.await?.heard())
    }

    /// Gives a lock this time to live from now on.
    ///
    /// # Errors
    /// [`Error::LockLost`] if it is not held by this owner under this fence, or no longer; [`Error::Invalid`].
    pub async fn renew(&self, name: &str, owner: &str, fence: u64, ttl_ms: u64) -> Result<Grant, Error> {
        self.check_open()?;
        check_claim(name, owner)?;
        check_ttl(ttl_ms)?;
        let (name, owner) = (Arc::from(name), Arc::from(owner));
        self.run_to_completion(|engine| async move {
            let renewed = engine.locks.renew(&name, &owner, fence, ttl_ms).await?;
            renewed.ok_or(Error::LockLost { name, owner, fence })
        })
        .await
    }

    /// Frees a lock.
    ///
    /// # Errors
    /// As [`renew`](Self::renew).
    pub async fn release_lock(&self, name: &str, owner: &str, fence: u64) -> Result<(), Error> {
        self.check_open()?;
        check_claim(name, owner)?;
        let (name, owner) = (Arc::from(name), Arc::from(owner));
        self.run_to_completion(|engine| async move {
            let is_released = engine.locks.release(&name, &owner, fence).await?;
            if is_released { Ok(()) } else { Err(Error::LockLost { name, owner, fence }) }
        })
        .await
    }

    /// Frees all locks of an owner; returns how many, and how many it had lost within the last minute.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn release_all(&self, owner: &str) -> Result<Released, Error> {
        self.check_open()?;
        check_holder(owner)?;
        let owner = Arc::from(owner);
        self.run_to_completion(|engine| async move { engine.locks.release_all(&owner).await }).await
    }

    /// The holder of a lock; `None` if it is free.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn inspect(&self, name: &str) -> Result<Option<Holding>, Error> {
        check_lock(name)?;
        self.locks.inspect(&Arc::from(name)).await
    }

    /// A page of the locks that are held, by name. `limit` is 1 to 1000; a page may be short, and still have a next.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn list_locks(&self, cursor: Option<&str>, limit: usize) -> Result<LockList, Error> {
        self.list_locks_in("", cursor, limit).await
    }

    /// The same for locks with this prefix. The cursor names no other lock either.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn list_locks_in(&self, beginning: &str, cursor: Option<&str>, limit: usize) -> Result<LockList, Error> {
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
            return Ok(LockList { locks, next_cursor: Some(beginning.to_owned()) });
        }
        let page = self.locks.list(after.as_ref(), limit - locks.len()).await?;
        locks.extend(page.locks.into_iter().filter(|holding| holding.name.starts_with(beginning)));
        let next = page.next.filter(|name| name.starts_with(beginning));
        Ok(LockList { locks, next_cursor: next.map(|name| name.to_string()) })
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

fn check_ttl(ttl_ms: u64) -> Result<(), Invalid> {
    Span(ttl_ms).check("ttl", LOCK_TTL_MS_MIN, LOCK_TTL_MS_MAX)
}

/// A place in line, given up when it is dropped.
struct PlaceInLine<'a> {
    engine: &'a Engine,
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
        let (engine, claim) = (self.engine.clone(), self.claim.clone());
        self.engine.tasks.spawn(async move {
            // After any request of this owner that is under way, which would take a new ticket.
            let _guard = engine.asking.lock(claim.clone()).await;
            if !registration.is_shared()
                && let Err(error) = engine.locks.abandon(&claim.1, &claim.0).await
            {
                tracing::debug!(%error, "a place in line could not be given up; it expires");
            }
        });
    }
}

/// An answer on its way to its caller. If the caller has gone, a new grant is released before the same owner's next request
/// is answered.
struct Answered {
    answer: Option<Acquired>,
    acquire: Acquire,
    engine: Engine,
    guard: Option<KeyedGuard<Claim>>,
}

impl Answered {
    fn heard(mut self) -> Acquired {
        self.answer.take().expect("it is heard once")
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        let Some(Acquired::Granted { grant, is_new: true }) = self.answer else { return };
        let (engine, guard) = (self.engine.clone(), self.guard.take());
        let Acquire { name, owner, .. } = self.acquire.clone();
        self.engine.tasks.spawn(async move {
            if let Err(error) = engine.locks.release(&name, &owner, grant.fence).await {
                tracing::debug!(%error, "a lock whose caller has gone could not be released; it expires");
            }
            drop(guard);
        });
    }
}
