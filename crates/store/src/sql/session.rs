//! What a server does: whole statements, each for many rows. Limits of one statement are the server's own business.

use super::fault::Fault;
use super::row::{Changed, Head, Hit, Inserted};
use crate::sums::Sums;
use async_trait::async_trait;
use duetime_core::ports::{Cursor, Document, InboxRow, LeaseNote, OverflowDue, Queues, Window};
use duetime_core::{Job, JobId, Millis, Stage};
use std::sync::Arc;

/// A queue, and a key in it.
pub(crate) type Key = (Arc<str>, Arc<str>);

/// A key and who holds it.
pub(crate) type Held = (Key, JobId);

/// A server with its connections.
#[async_trait]
pub(crate) trait Database: Send + Sync + 'static {
    /// A connection, borrowed.
    type Session: Session;

    /// A connection that works, as far as can be told.
    async fn session(&self) -> Result<Self::Session, Fault>;

    /// Closes all that are not borrowed.
    async fn close(&self);
}

/// A stream of rows along an index, in the order of their ids.
#[derive(Clone, Debug)]
pub(crate) enum Stream {
    /// Everything.
    All,
    /// A queue's rows of one state.
    Queue(Arc<str>, Stage),
    /// A queue's rows with a key.
    Key(Arc<str>, Arc<str>),
    /// Rows with a tag.
    Tag(Arc<str>),
}

/// A connection, borrowed. Dropped while it is held, it is closed: nobody knows what it is in the middle of.
#[async_trait]
pub(crate) trait Session: Send {
    /// From here it is in the middle of something.
    fn hold(&mut self);
    /// It is not any more.
    fn release(&mut self);

    /// Begins a transaction.
    async fn begin(&mut self) -> Result<(), Fault>;
    /// Commits.
    async fn commit(&mut self) -> Result<(), Fault>;
    /// Ends the transaction without a change.
    async fn rollback(&mut self) -> Result<(), Fault>;

    /// Which of these ids have rows.
    async fn known(&mut self, ids: &[JobId]) -> Result<Vec<JobId>, Fault>;
    /// Inserts whole rows without their tags; answers how many were not there, by id or live key. Where not all were, the
    /// transaction is not committed.
    async fn insert(&mut self, rows: &[Inserted<'_>]) -> Result<usize, Fault>;
    /// Locks rows, in the order of their ids.
    async fn heads(&mut self, ids: &[JobId]) -> Result<Vec<Head>, Fault>;
    /// Rows, locked or not, in any order.
    async fn jobs(&mut self, ids: &[JobId], locks: bool) -> Result<Vec<Job>, Fault>;
    /// Who holds these keys.
    async fn holders(&mut self, keys: &[Key]) -> Result<Vec<Held>, Fault>;

    /// Writes all but payload and tags of rows that are locked.
    async fn change(&mut self, rows: &[Changed<'_>]) -> Result<(), Fault>;
    /// Writes payload and tags of rows that are locked.
    async fn rewrite(&mut self, jobs: &[&Job]) -> Result<(), Fault>;
    /// Files pending rows that still have these versions as near.
    async fn file_near(&mut self, jobs: &[(JobId, u64)]) -> Result<(), Fault>;
    /// Files pending rows by when they are due.
    async fn file_by_due(&mut self, ids: &[JobId]) -> Result<(), Fault>;
    /// Files pending rows in the overflow of their queues.
    async fn file_over(&mut self, ids: &[JobId]) -> Result<(), Fault>;
    /// Deletes rows.
    async fn delete(&mut self, ids: &[JobId]) -> Result<(), Fault>;
    /// Files jobs under tags.
    async fn tag(&mut self, tags: &[(&str, JobId)]) -> Result<(), Fault>;
    /// Takes jobs out of what they are filed under.
    async fn untag(&mut self, tags: &[(&str, JobId)]) -> Result<(), Fault>;
    /// Writes leases of pending rows with a lower version.
    async fn lease(&mut self, leases: &[LeaseNote]) -> Result<(), Fault>;
    /// Locks at most `limit` rows of this state that ended by then and that nobody else has locked.
    async fn past(&mut self, stage: Stage, ended_by: Millis, limit: usize) -> Result<Vec<Head>, Fault>;

    /// Adds to the sums by queue. They come in the order of their names.
    async fn tally(&mut self, changes: &[(Arc<str>, Sums)]) -> Result<(), Fault>;
    /// The sums of these queues, by name, also where they add up to nothing.
    async fn tallies(&mut self, queues: &Queues) -> Result<Vec<(Arc<str>, Sums)>, Fault>;
    /// Drops what these queues are counted by, where the rows add up to nothing.
    async fn drop_tallies(&mut self, queues: &[Arc<str>]) -> Result<(), Fault>;

    /// The first rows of a stream behind an id.
    async fn hits(&mut self, stream: &Stream, after: u64, limit: usize) -> Result<Vec<Hit>, Fault>;
    /// The first pending rows behind a cursor, up to a bucket.
    async fn waiting(&mut self, after: Cursor, last_bucket: i64, limit: usize) -> Result<Vec<Hit>, Fault>;
    /// The first priority from this one on that rows in the overflow of a queue have.
    async fn level(&mut self, queue: &str, from: u32) -> Result<Option<u32>, Fault>;
    /// Rows of one priority in the overflow of a queue without a lease, by due time and id.
    async fn over(&mut self, queue: &str, priority: u32, due: Window, limit: usize) -> Result<Vec<Hit>, Fault>;
    /// The next queue by name, after this one, that has rows in the overflow.
    async fn overflowing(&mut self, after: &str) -> Result<Option<Arc<str>>, Fault>;
    /// What is due in the overflow of a queue.
    async fn over_due(&mut self, queue: &str, now: Millis) -> Result<OverflowDue, Fault>;
    /// The ids of all rows with a lease.
    async fn leased(&mut self) -> Result<Vec<JobId>, Fault>;

    /// The numbers of the first rows of the inbox that have not been refused, each with the bytes of its payload.
    async fn inbox_hits(&mut self, limit: usize) -> Result<Vec<(i64, usize)>, Fault>;
    /// These rows of the inbox, in any order. Whatever stands there is no error.
    async fn inbox_rows(&mut self, numbers: &[i64]) -> Result<Vec<InboxRow>, Fault>;
    /// Locks those of these rows that have not been refused and that nobody else has locked; answers their numbers.
    async fn lock_inbox(&mut self, numbers: &[i64]) -> Result<Vec<i64>, Fault>;
    /// Deletes rows of the inbox.
    async fn delete_inbox(&mut self, numbers: &[i64]) -> Result<(), Fault>;
    /// Marks rows of the inbox with the reason why they were refused.
    async fn refuse_inbox(&mut self, rows: &[(i64, &str)]) -> Result<(), Fault>;

    /// Where the last block of ids ends; locked.
    async fn sequence_end(&mut self) -> Result<u64, Fault>;
    /// Sets it.
    async fn set_sequence_end(&mut self, end: u64) -> Result<(), Fault>;

    /// A document; locked where it is to be changed.
    async fn document(&mut self, kind: &str, name: &str, locks: bool) -> Result<Option<Document>, Fault>;
    /// All documents of a kind, by name.
    async fn documents(&mut self, kind: &str) -> Result<Vec<Document>, Fault>;
    /// Stores a document: a new one where its version is 1, else in place of a locked one.
    async fn put_document(&mut self, kind: &str, document: &Document) -> Result<(), Fault>;
    /// Removes a document; answers whether there was one.
    async fn remove_document(&mut self, kind: &str, name: &str) -> Result<bool, Fault>;
}
