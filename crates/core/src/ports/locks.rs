//! Locks: their holders and waiters.

use crate::error::Error;
use crate::json::Timestamp;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Called by the store when the turn of a waiter may have come: the lock's name, and the owner of the ticket that is now the
/// first in its line.
pub type TurnWake = Arc<dyn Fn(&Arc<str>, &Arc<str>) + Send + Sync>;

/// Keeps locks.
///
/// # Contract
/// - A lock has at most one holder: an owner, to whom it was granted for a time to live, under a fence. The grant ends when
///   that time has passed since the grant or the last renewal, by the store's own clock, or when it is released.
/// - Fences only grow and never repeat, over all locks of a store. If the store may lose its memory, they begin at the
///   [floor](crate::model::id::floor) of a new generation; one that is its own ledger has only its clock for that.
/// - The line is first come, first served. A waiter holds a *ticket*, of which an owner has at most one for each lock. It
///   lives for [`LOCK_TICKET_MS`](crate::limits::LOCK_TICKET_MS) and is refreshed by asking again. A lock is only granted to a
///   caller that is asking just then: a waiter that has disconnected is never granted it, and one that died blocks nobody once
///   its ticket has lapsed.
/// - A grant is answered once it is as durable as the store makes anything.
/// - No verb touches an unbounded number of locks in one atomic step. Names and owners are compared byte by byte; they
///   and times to live are within their [`limits`](crate::limits), which the engine checks.
///
/// Every verb may be repeated if its answer was lost: an acquire that was granted is granted again under the same fence; a
/// repeated release answers that the lock is not held.
#[async_trait]
pub trait Locks: Send + Sync {
    /// Begins: restores the locks of an earlier process. From now on it wakes an owner that becomes the first in a line, and
    /// the first in line if the lock is released or ends sooner than announced. (The expiry of a lock is not reported:
    /// [`Acquired::Held`] says when to look.) A wake may be lost, late or unnecessary. Called once, before any other verb.
    async fn start(&self, wake: TurnWake) -> Result<(), Error>;

    /// Grants the lock if it is free and nobody else is first in line, or says when to look again.
    ///
    /// - The owner who holds it already keeps its fence, and its time to live restarts.
    /// - With [`waiting`](Acquire::waiting) the owner takes a ticket, or refreshes the one it has; without, it loses
    ///   the one that it has. A grant uses the ticket up.
    async fn acquire(&self, acquire: Acquire) -> Result<Acquired, Error>;

    /// Gives up the owner's ticket, if it has one.
    async fn abandon(&self, name: &Arc<str>, owner: &Arc<str>) -> Result<(), Error>;

    /// Gives the lock this time to live from now on. `None` if it is not held by this owner under this fence, or no longer:
    /// then nothing is changed.
    async fn renew(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64, ttl_ms: u64) -> Result<Option<Grant>, Error>;

    /// Frees the lock. `false` if it is not held by this owner under this fence, or no longer.
    async fn release(&self, name: &Arc<str>, owner: &Arc<str>, fence: u64) -> Result<bool, Error>;

    /// Frees every lock of an owner, in bounded steps. Its grants that ended unreleased within
    /// [`LOCK_LOST_KEPT_MS`](crate::limits::LOCK_LOST_KEPT_MS) are counted as lost, once. Tickets are left alone.
    async fn release_all(&self, owner: &Arc<str>) -> Result<Released, Error>;

    /// The holder of the lock.
    async fn inspect(&self, name: &Arc<str>) -> Result<Option<Holding>, Error>;

    /// Locks that are held, by name, after this one. A page may be short and still have a next one.
    async fn list(&self, after: Option<&Arc<str>>, limit: usize) -> Result<LockList, Error>;

    /// Removes ended grants, lapsed tickets, and old records of lost grants. If the store's clock was set back, grants that it
    /// gave before last at most their time to live from now. The engine calls it every few seconds; nothing else depends on it.
    async fn sweep(&self) -> Result<(), Error>;
}

/// A request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The lock.
    pub name: Arc<str>,
    /// The owner; unique to one holder.
    pub owner: Arc<str>,
    /// How long it is held unless it is renewed, in milliseconds.
    pub ttl_ms: u64,
    /// Whether the owner keeps waiting if it is not granted.
    pub waiting: bool,
}

/// The answer to a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The owner holds it.
    Granted {
        /// Its end and its fence.
        grant: Grant,
        /// Whether it did not hold it before.
        is_new: bool,
    },
    /// It does not.
    Held {
        /// How long until the holder's time to live is over, in milliseconds. If nobody holds it, until the last of the
        /// tickets ahead in line lapses. At least 1.
        expires_in_ms: u64,
        /// When to ask again at the latest, in milliseconds from now: when the holder's time is over and all tickets
        /// ahead have lapsed, because that is not reported; but within
        /// [`LOCK_REFRESH_MS`](crate::limits::LOCK_REFRESH_MS), to refresh the ticket. At least 1.
        again_in_ms: u64,
    },
}

/// A lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LockGranted))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Grant {
    /// Grows with every grant of the store.
    pub fence: u64,
    /// When it ends unless it is renewed: by the store's wall clock, for display only. The time to live decides.
    pub expires_at: Timestamp,
}

impl Grant {
    /// A grant under this fence.
    #[doc(hidden)]
    pub fn new(fence: u64, expires_at: Timestamp) -> Self {
        Self { fence, expires_at }
    }
}

/// A held lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Holding {
    /// The lock.
    pub name: Arc<str>,
    /// Its holder.
    pub owner: Arc<str>,
    /// Its end and its fence.
    pub grant: Grant,
    /// Owners that wait for it. A waiter that has disconnected counts until its ticket lapses.
    pub waiting: u32,
}

impl Holding {
    /// A lock with this holder.
    #[doc(hidden)]
    pub fn new(name: Arc<str>, owner: Arc<str>, grant: Grant, waiting: u32) -> Self {
        Self { name, owner, grant, waiting }
    }
}

/// A page of locks that are held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LockPage))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct LockList {
    /// By name.
    pub locks: Vec<Holding>,
    /// The start of the next page; `None` at the end.
    #[cfg_attr(feature = "openapi", schema(required, value_type = Option<crate::json::schema::Cursor>))]
    pub next_cursor: Option<Arc<str>>,
}

/// The result of releasing all locks of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LocksReleased))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Released {
    /// The number of locks that it held, which are free now.
    pub released: u64,
    /// The number of other locks that it had held, whose time to live was over.
    pub lost: u64,
}
