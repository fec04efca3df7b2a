//! The inbox of a ledger: rows that applications insert in their own transactions, to become jobs.

use super::ledger::Recorded;
use crate::error::Error;
use crate::model::job::{Job, Payload};
use async_trait::async_trait;

/// The size at which a page of the inbox is full: 16 MiB.
pub const INBOX_BYTES_MAX: usize = 16 << 20;

/// The maximum length of a text column of the inbox, in characters. One more is read, to tell that a value is too long.
pub const INBOX_TEXT_MAX: usize = 1 << 20;

/// Rows that applications insert, on their way to the jobs of the same database.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// The first rows after this number that have not been refused, in the order of their insertion: at most `limit`, and as many
    /// as [`INBOX_BYTES_MAX`] has room for. The first ones of all follow `i64::MIN`.
    async fn waiting(&self, after: i64, limit: usize) -> Result<Vec<InboxRow>, Error>;

    /// Carries out verdicts on rows, by their numbers, in one transaction. A recorded job is marked as not loaded, by its
    /// due time, and its row is removed. If the row was gone before, nothing is recorded.
    ///
    /// An inbox in another file than the jobs records first, and removes rows then, perhaps later. It has rows with an origin, so that a
    /// row that is met again becomes no other job.
    async fn admit(&self, verdicts: Vec<(i64, Verdict)>) -> Result<Vec<Admitted>, Error>;
}

/// A row as an application inserted it; nothing of it is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxRow {
    /// Its number in the inbox, in the order of insertion.
    pub number: i64,
    /// How long ago it was inserted, by the clock of the database.
    pub age_ms: u64,
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// The payload; if it is beyond every limit, only enough to tell that.
    pub payload: Payload,
    /// When it is due, in milliseconds since 1970.
    pub due_at: Option<i64>,
    /// Alternative to `due_at`: the delay from the insertion.
    pub delay_ms: Option<i64>,
    /// The key.
    pub key: Option<String>,
    /// The tags, as JSON.
    pub tags: Option<String>,
    /// The priority.
    pub priority: Option<i64>,
    /// All other options of a push, as JSON.
    pub options: Option<String>,
    /// Its origin, if `options` has none: of an inbox that cannot remove rows in the transaction that records jobs.
    pub origin: Option<String>,
}

/// The decision about a row of the inbox.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is moved to the jobs, as this one.
    Record(Box<Job>),
    /// It stays, with this reason, and is not read again.
    Refuse(String),
    /// It is removed.
    Remove,
}

/// The outcome of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// The outcome of recording the job. Its row was removed only if the job was created. On a repeat, another job has this
    /// id, for example an imported one.
    Recorded(Recorded),
    /// The row was refused, or removed.
    Done,
    /// The row was gone, or another process was working on it: nothing was done.
    Gone,
}

impl Admitted {
    /// Whether the verdict was carried out.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Done | Self::Recorded(Recorded::Created))
    }
}
