//! The ledger: every job, durably.

use super::queues::Queues;
use super::trouble::Trouble;
use super::window::Window;
use crate::clock::Millis;
use crate::error::Error;
use crate::json::Span;
use crate::limits::MINUTE_MS;
use crate::model::edit::{Edit, Edited};
use crate::model::id::JobId;
use crate::model::job::{Job, Stage, State};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::sync::Arc;

/// The width of the buckets of rows that are due beyond the watermark: coarse, so that inserts append.
pub const BUCKET_MS: u64 = 10 * MINUTE_MS;

/// The kind of the registry's documents about the broker.
pub const BROKER: &str = "broker";
/// The document that names the incarnation of the broker's memory in which jobs are loaded.
pub const ADOPTED: &str = "adopted";
/// The document that names the incarnation of the memory in which all jobs have been loaded that are near.
pub const LOADED: &str = "loaded";
/// The document that names the incarnation of the memory that was compared: it has nothing that is older than the ledger.
pub const COMPARED: &str = "compared";
/// The document that holds the last generation that a memory of the broker may have begun with.
pub const GENERATION: &str = "generation";

/// Instead of a watermark: the rows go to the *overflow* of their queues, since the broker has no room for them.
pub const OVERFLOW: Millis = Millis::MAX;

/// The bucket of rows in the overflow.
pub const OVERFLOW_BUCKET: i64 = -1;

/// The bucket of a pending row: 0 below the watermark, else by its due time, from 1; or that of the overflow.
pub fn bucket(due_at: Millis, watermark: Millis) -> i64 {
    match watermark {
        OVERFLOW => OVERFLOW_BUCKET,
        _ if due_at < watermark => 0,
        _ => i64::try_from(due_at / BUCKET_MS).unwrap_or(i64::MAX).max(1),
    }
}

/// The place of a job in the index of its key: first while it holds the key, then in the order of ids. `None` without a key.
/// It makes one index do for both: at most one holder, and all jobs that had the key.
pub fn key_order(job: &Job, holds_key: bool) -> Option<u64> {
    job.key.as_ref().map(|_| if holds_key { 0 } else { job.id.get() })
}

/// Most buckets that a search by due time reads one by one.
const BUCKETS_FOUND_MAX: i64 = 16;

/// The buckets that pending rows with due times in this window may be in, besides 0 and that of the overflow; `None` if they
/// are too many to read one by one.
pub fn buckets(window: Window) -> Option<RangeInclusive<i64>> {
    let buckets = bucket(window.from, 0)..=bucket(window.to, 0);
    (buckets.end() - buckets.start() < BUCKETS_FOUND_MAX).then_some(buckets)
}

/// Remembers every job.
///
/// # Contract
/// - What an `await`ed verb answered is as durable as the ledger is set to be.
/// - Of one job the higher version wins: an entry, lease or edit below the stored version changes nothing.
/// - An edit, a removal, or the end of a later lease changes a row that has ended ([`OutboxEntry::replaces`]). Any other
///   entry about it comes from a broker that fell back to its state before the end, and is ignored.
/// - At most one row of a queue holds a key ([`Job::live_key`]), and at most one has an origin.
/// - A verb that fails has changed nothing. One of a store that is reached over a network may have made all or a part of the
///   change if no answer came in time. It may be repeated.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// A block of `count` sequences for ids that is never allotted twice, and that begins no lower than `now` says
    /// ([`block_start`](crate::model::id::block_start)).
    async fn allot(&self, count: u64, now: Millis) -> Result<Range<u64>, Error>;

    /// Records new jobs. `watermark` is the instant up to which jobs are loaded into the broker, or [`OVERFLOW`]. It only
    /// decides which [`bucket`] a pending row gets, for [`pending`](Self::pending) or [`overflow`](Self::overflow).
    async fn record(&self, jobs: Vec<Job>, watermark: Millis) -> Result<Vec<Recorded>, Error>;

    /// The jobs that [`record`](Self::record) would meet if it recorded one of these now, without recording it:
    /// [`Known`](Recorded::Known) before [`KeyHeld`](Recorded::KeyHeld), `None` if it would meet none. Ids are not compared.
    async fn known(&self, jobs: &[Job]) -> Result<Vec<Option<Recorded>>, Error>;

    /// Applies outbox entries to rows for which [`OutboxEntry::replaces`] is true. Returns the ids of
    /// [successors](OutboxEntry::Followed) that other jobs have: such an entry changed nothing, and is repeated with other ids
    /// for these. In a ledger that is the broker, the job has ended all the same, and only these are missing.
    async fn apply(&self, entries: Vec<OutboxEntry>, watermark: Millis) -> Result<Vec<JobId>, Error>;

    /// A page of pending jobs without a lease in buckets before `until`, by bucket and id. None of the overflow.
    async fn pending(&self, until: Millis, after: Option<Cursor>, limit: usize) -> Result<Page, Error>;

    /// The broker of this incarnation holds these jobs in these versions: they are marked as loaded. If another incarnation
    /// was [adopted](ADOPTED) meanwhile, none is marked. An empty incarnation, of a broker in the memory of one process, is
    /// not compared.
    ///
    /// A ledger that is the broker marks nothing, here and below.
    async fn loaded(&self, _jobs: &[(JobId, u64)], _incarnation: &str) -> Result<(), Error> {
        Ok(())
    }

    /// The broker may not hold these jobs: pending ones are marked as not loaded, by due time if `watermark` is 0, or in the
    /// [`OVERFLOW`].
    async fn not_loaded(&self, _ids: &[JobId], _watermark: Millis) -> Result<(), Error> {
        Ok(())
    }

    /// The most urgent pending jobs without a lease in the overflow of a queue that are due in this window: by priority,
    /// then `due_at`, then id. At most `limit`, and about as much payload as a page of other rows.
    async fn overflow(&self, _queue: &str, _due: Window, _limit: usize) -> Result<Vec<Job>, Error> {
        Ok(Vec::new())
    }

    /// The next queue by name, after this one, that has rows in the overflow.
    async fn overflowing(&self, _after: Option<&str>) -> Result<Option<Arc<str>>, Error> {
        Ok(None)
    }

    /// The number of rows in the overflow of a queue that are due by now, and when the first of them was due.
    async fn overflow_due(&self, _queue: &str, _now: Millis) -> Result<OverflowDue, Error> {
        Ok(OverflowDue::default())
    }

    /// The rows of these jobs.
    async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error>;

    /// The version and the stage of these rows, without reading more of them if they are large.
    async fn versions(&self, ids: &[JobId]) -> Result<Vec<Option<(u64, Stage)>>, Error> {
        let rows = self.get(ids).await?.into_iter();
        Ok(rows.map(|row| row.map(|row| (row.version, row.stage))).collect())
    }

    /// Rows by one selector, page by page.
    async fn find(&self, find: Find) -> Result<Found, Error>;

    /// Changes rows that the broker does not hold.
    async fn edit(&self, edits: Vec<Edit>, now: Millis, watermark: Millis) -> Result<Vec<Edited>, Error>;

    /// Removes at most `limit` finished jobs that are past their retention; returns how many.
    async fn prune(&self, retention: Retention, now: Millis, limit: usize) -> Result<usize, Error>;

    /// Rows by queue and how many there ever were, by name. Queues without rows may be
    /// left out.
    async fn tallies(&self, queues: Queues) -> Result<Vec<(Arc<str>, Tally)>, Error>;

    /// Forgets the totals of a queue without rows. Most ledgers have forgotten them with its last row.
    async fn remove_queue(&self, _queue: &Arc<str>) -> Result<(), Error> {
        Ok(())
    }

    /// What is wrong with it now, and why: what it has noticed itself. It waits for nothing. A ledger that many processes
    /// share may leave it to them to notice.
    fn troubles(&self) -> Vec<(Trouble, String)> {
        Vec::new()
    }

    /// Finishes the work under way and closes the store.
    async fn close(&self) -> Result<(), Error>;
}

/// The outcome of recording a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is new.
    Created,
    /// The id was recorded before: the push was sent twice.
    Repeat,
    /// Its origin is that of this job of its queue; nothing was recorded.
    Known(JobId),
    /// Its key is held by this job; nothing was recorded.
    KeyHeld(JobId),
}

/// A change of a job that the ledger does not know yet.
#[derive(Clone, Debug)]
pub enum OutboxEntry {
    /// The job's new state. Its payload has not changed, and may be left out.
    Changed(Job),
    /// The same, with everything changed that an edit may change: also payload, tags, kind, lease, expiry and the end of its key.
    Rewritten(Job),
    /// A change that ends the job, and whole new jobs that begin with this end. They are recorded together with it, or not at
    /// all: not if it replaces an end with which the same have begun ([`Stage::leads_like`]).
    Followed(Box<OutboxEntry>, Vec<Job>),
    /// The job is gone, with its record. The job as it was, in its last version; its payload may be left out.
    Removed(Job),
}

impl OutboxEntry {
    /// Whether an entry about this job changes a row with this version, epoch and stage. A higher version changes a
    /// pending row. Only the end of a later lease changes a row that an entry has ended: the broker lost the first end
    /// before it was recorded, and handed the job out again. A row that an edit has ended keeps its end. Its version is
    /// [odd](crate::model::id::Numbers::Ledger), as that of a taken job, and it has not succeeded.
    pub fn replaces(job: &Job, version: u64, epoch: u64, stage: Stage) -> bool {
        let has_edit_ended = !version.is_multiple_of(2) && stage != Stage::Succeeded;
        let is_later_end = !job.is_pending() && job.epoch > epoch && !has_edit_ended;
        job.version > version && (stage == Stage::Pending || is_later_end)
    }

    /// The same, followed by these new jobs, if there are any.
    #[must_use]
    pub fn followed_by(self, successors: Vec<Job>) -> Self {
        if successors.is_empty() { self } else { Self::Followed(Box::new(self), successors) }
    }

    /// The change itself, and the new jobs that begin with it.
    pub fn parts(self) -> (Self, Vec<Job>) {
        match self {
            Self::Followed(change, successors) => (*change, successors),
            change => (change, Vec::new()),
        }
    }

    /// The job that it is about.
    pub fn job(&self) -> &Job {
        match self {
            Self::Changed(job) | Self::Rewritten(job) | Self::Removed(job) => job,
            Self::Followed(change, _) => change.job(),
        }
    }

    /// The same, to be changed.
    pub fn job_mut(&mut self) -> &mut Job {
        match self {
            Self::Changed(job) | Self::Rewritten(job) | Self::Removed(job) => job,
            Self::Followed(change, _) => change.job_mut(),
        }
    }

    /// Whether the record of the job goes.
    pub fn removes(&self) -> bool {
        match self {
            Self::Changed(_) | Self::Rewritten(_) => false,
            Self::Removed(_) => true,
            Self::Followed(change, _) => change.removes(),
        }
    }

    /// The new jobs that begin with it.
    pub fn successors(&self) -> &[Job] {
        if let Self::Followed(_, successors) = self { successors } else { &[] }
    }

    /// About how many bytes it holds. A copy in another queue shares its payload with the job that it is made of, so that it
    /// counts twice.
    pub(crate) fn held_bytes(&self) -> u64 {
        let successors: usize = self.successors().iter().map(Job::held_bytes).sum();
        (self.job().held_bytes() + successors) as u64
    }
}

/// The due jobs in the overflow of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverflowDue {
    /// The number of jobs.
    pub jobs: u64,
    /// The earliest `due_at` of them.
    pub oldest_due: Option<Millis>,
}

/// A place in the order of pending rows, by bucket and id. Opaque except to the ledger that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The bucket.
    pub bucket: i64,
    /// The last id of it.
    pub id: u64,
}

/// Pending rows.
#[derive(Clone, Debug)]
pub struct Page {
    /// The rows.
    pub jobs: Vec<Job>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<Cursor>,
}

/// The index to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Everything.
    All,
    /// State, of all queues or one. Redis alone lists live jobs as it holds them, and parked ones in the order in which they
    /// were parked.
    State,
    /// A key in a queue, of live and finished jobs.
    Key(Arc<str>, Arc<str>),
    /// A tag.
    Tag(Arc<str>),
}

/// Where a job is in the order of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the order of ids: every job, but with [`Selector::State`] only those without an end, live or parked.
    Id(u64),
    /// With [`Selector::State`] after those, by the end: the newest first, and of those at the same instant the highest id.
    Ended(Reverse<Millis>, Reverse<u64>),
}

impl Place {
    /// Before those that ended at this instant or earlier.
    pub fn before_end(at: Millis) -> Self {
        Self::Ended(Reverse(at.saturating_add(1)), Reverse(JobId::MIN.get()))
    }

    /// Where a job is with [`Selector::State`].
    pub fn by_state(id: JobId, finished_at: Option<Millis>) -> Self {
        finished_at.map_or(Self::Id(id.get()), |at| Self::Ended(Reverse(at), Reverse(id.get())))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Ended(Reverse(at), Reverse(id)) => write!(f, "{at}.{id}"),
        }
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // Ledgers store them as numbers with a sign.
        let number = |text: &str| text.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok());
        let place = match text.split_once('.') {
            Some((at, id)) => number(at).zip(number(id)).map(|(at, id)| Self::Ended(Reverse(at), Reverse(id))),
            None => number(text).map(Self::Id),
        };
        place.ok_or_else(|| Error::invalid("cursor", "the `next_cursor` of an earlier answer", text))
    }
}

/// A search in the ledger.
#[derive(Clone, Debug)]
pub struct Find {
    /// The index to use.
    pub selector: Selector,
    /// Only jobs of this queue.
    pub queue: Option<Arc<str>>,
    /// Only jobs in these states; empty for all. Scheduled, ready and running are one here: pending.
    pub states: Vec<State>,
    /// Only jobs of this kind.
    pub kind: Option<Arc<str>>,
    /// Only jobs due in this range, inclusive.
    pub due: Window,
    /// The cursor of the previous page; opaque except to the ledger.
    pub after: Option<String>,
    /// The maximum number of jobs.
    pub limit: usize,
}

impl Find {
    /// The first page of a selection, with any kind and due time.
    pub fn of(selector: Selector, states: Vec<State>, limit: usize) -> Self {
        Self { selector, queue: None, states, kind: None, due: Window::ALL, after: None, limit }
    }

    /// The place after which the page begins, for a ledger that returns rows in the order of [`Place`]s.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the cursor is none of this selector.
    pub fn after_place(&self) -> Result<Place, Error> {
        let Some(text) = &self.after else { return Ok(Place::Id(0)) };
        match text.parse()? {
            Place::Ended(..) if self.selector != Selector::State => {
                Err(Error::invalid("cursor", "the `next_cursor` of an earlier answer", text))
            }
            place => Ok(place),
        }
    }

    /// Where a job is in the order of this search.
    pub fn place(&self, id: JobId, finished_at: Option<Millis>) -> Place {
        Place::by_state(id, finished_at.filter(|_| self.selector == Selector::State))
    }
}

/// A page of found rows.
#[derive(Clone, Debug)]
pub struct Found {
    /// The rows, in the order of their [places](Place). Redis alone lists only jobs that have ended in this order.
    pub jobs: Vec<Job>,
    /// The cursor of the next page; `None` at the end. It is the text of a [`Place`], but with Redis alone it may be another. A page
    /// may be short, or empty, and still have a next one. Letters, digits and `.;+/$_()-` only.
    pub next: Option<String>,
}

/// How long finished jobs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Retention {
    /// Succeeded and cancelled ones; by default 24 h.
    pub succeeded: Span,
    /// Failed ones; by default 30 d.
    pub failed: Span,
}

impl Retention {
    /// Sets how long succeeded and cancelled jobs are kept; by default 24 h.
    #[must_use]
    pub fn succeeded(self, time: impl Into<Span>) -> Self {
        Self { succeeded: time.into(), ..self }
    }

    /// Sets how long failed jobs are kept; by default 30 d.
    #[must_use]
    pub fn failed(self, time: impl Into<Span>) -> Self {
        Self { failed: time.into(), ..self }
    }
}

impl Default for Retention {
    fn default() -> Self {
        use crate::limits::DAY_MS;
        Self { succeeded: Span(DAY_MS), failed: Span(30 * DAY_MS) }
    }
}

/// All-time totals of a queue; they only grow. A job that is retried by hand may fail and succeed. An imported job counts as
/// pushed, and in its state.
///
/// Counted in the step that makes a transition durable, so they are exact even if processes die. They may be forgotten once
/// no job of the queue is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Totals {
    /// New ones, with copies that a rule has moved here.
    pub pushed: u64,
    /// Completed, or taken.
    pub succeeded: u64,
    /// Dead letters, including jobs that a rule has dropped or moved away.
    pub failed: u64,
    /// Cancelled.
    pub cancelled: u64,
}

/// Rows of a queue by stored state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Tally {
    /// Scheduled, ready and running.
    pub pending: u64,
    /// Completed.
    pub succeeded: u64,
    /// Dead letters.
    pub failed: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// All-time totals.
    pub totals: Totals,
}

impl Tally {
    /// Of pending, succeeded, failed and cancelled rows.
    #[doc(hidden)]
    pub fn new([pending, succeeded, failed, cancelled]: [u64; 4], totals: Totals) -> Self {
        Self { pending, succeeded, failed, cancelled, totals }
    }
}
