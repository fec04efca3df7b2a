//! The statements. Those here are the same for every server: `?` stands for a value, `IN ({})` for a list, and `/*! … */` is
//! read by MySQL and MariaDB only. Each kind of server has its own text for the others.

use std::borrow::Cow;
use std::fmt::Write;

/// All columns of a job except those of its indexes, in the order in which [`job`](super::row::job) reads them.
macro_rules! columns {
    () => {
        "j.id, j.due_at, j.first_due_at, j.priority, j.attempt, j.crashes, j.version, j.epoch, j.created_at, \
         j.updated_at, j.started_at, j.finished_at, j.lease_until, j.lease_ms, j.expires_ms, j.state, j.key_until, \
         j.cancel_asked, j.queue, j.kind, j.job_key, j.options, j.tags, j.errors, j.message, j.result, j.payload, \
         j.progress, j.origin"
    };
}

/// Examines rows before they are read. Tables are joined in the order in which they are named.
macro_rules! hits {
    ($of:literal) => {
        concat!(
            "SELECT /*! STRAIGHT_JOIN */ j.id, COALESCE(j.bucket, 0), j.due_at, j.state, j.lease_until IS NOT NULL, j.queue, j.kind, \
             LENGTH(j.payload) + COALESCE(LENGTH(j.result), 0) + COALESCE(LENGTH(j.errors), 0), j.finished_at",
            $of
        )
    };
}
pub(super) use hits;

/// ids.
pub(super) const KNOWN: Bulk = Bulk::list("SELECT id FROM duetime_jobs WHERE id IN ({})");
/// ids.
pub(super) const HEADS: Bulk = Bulk::list(
    "SELECT id, version, epoch, queue, state, CASE WHEN key_order = 0 THEN job_key END, tags FROM duetime_jobs \
     WHERE id IN ({}) ORDER BY id FOR UPDATE",
);
/// ids.
pub(super) const VERSIONS: Bulk = Bulk::list("SELECT id, version, state FROM duetime_jobs WHERE id IN ({})");
/// ids.
pub(super) const JOBS: Bulk = Bulk::list(concat!("SELECT ", columns!(), " FROM duetime_jobs j WHERE id IN ({})"));
/// ids.
pub(super) const JOBS_LOCKED: Bulk =
    Bulk::list(concat!("SELECT ", columns!(), " FROM duetime_jobs j WHERE id IN ({}) ORDER BY id FOR UPDATE"));
/// ids.
pub(super) const DELETE: Bulk = Bulk::list("DELETE FROM duetime_jobs WHERE id IN ({})");
/// state, finished_at, limit.
pub(super) const PAST: &str = "SELECT id, version, epoch, queue, state, CASE WHEN key_order = 0 THEN job_key END, tags \
    FROM duetime_jobs /*! FORCE INDEX (duetime_jobs_finished) */ WHERE state = ? AND state <> 1 AND finished_at IS NOT NULL AND finished_at <= ? \
    ORDER BY finished_at LIMIT ? FOR UPDATE SKIP LOCKED";
/// queues.
pub(super) const TALLIES_LOCKED: Bulk = Bulk::list(
    "SELECT queue, slot, pending, succeeded, failed, cancelled FROM duetime_tallies WHERE queue IN ({}) \
     ORDER BY queue, slot FOR UPDATE",
);
/// after, limit.
pub(super) const ALL: &str = hits!(" FROM duetime_jobs j WHERE j.id > ? ORDER BY j.id LIMIT ?");
/// tag, after, limit.
pub(super) const BY_TAG: &str = hits!(
    " FROM (SELECT job_id FROM duetime_tags WHERE tag = ? AND job_id > ? ORDER BY job_id LIMIT ?) t \
     JOIN duetime_jobs j ON j.id = t.job_id ORDER BY j.id"
);
/// after.
pub(super) const STEP_END: &str =
    "SELECT id FROM duetime_jobs /*! FORCE INDEX (PRIMARY) */ WHERE id > ? ORDER BY id LIMIT 1 OFFSET 4999";
/// after, last.
pub(super) const DUE: &str =
    "SELECT queue, due_at FROM duetime_jobs /*! FORCE INDEX (PRIMARY) */ WHERE id > ? AND id <= ? AND state = 1";
/// limit.
pub(super) const FAILED: &str = "SELECT id, queue, kind, finished_at, SUBSTR(message, 1, 1000) \
    FROM duetime_jobs /*! FORCE INDEX (duetime_jobs_finished) */ \
    WHERE state = 20 AND finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT ?";
/// numbers.
pub(super) const LOCK_INBOX: Bulk = Bulk::list(
    "SELECT id FROM duetime_inbox /*! FORCE INDEX (PRIMARY) */ WHERE id IN ({}) AND error IS NULL ORDER BY id \
     FOR UPDATE SKIP LOCKED",
);
/// numbers.
pub(super) const DELETE_INBOX: Bulk = Bulk::list("DELETE FROM duetime_inbox WHERE id IN ({})");

/// Converts a statement for PostgreSQL: values are numbered, and a list is an array.
#[cfg(any(feature = "postgres", feature = "testing"))]
pub(super) fn numbered(statement: &'static str) -> Cow<'static, str> {
    if !statement.contains(['?', '{']) {
        return Cow::Borrowed(statement);
    }
    let statement = statement.replace("IN ({})", "= ANY(?)");
    let mut parts = statement.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (number, part) in (1..).zip(parts) {
        // Writing to a string cannot fail.
        let _ = write!(text, "${number}{part}");
    }
    Cow::Owned(text)
}

/// A statement for many rows. If the server takes rows as lists of values, `{}` stands for these. Without it the statement
/// runs once for each row.
pub(super) struct Bulk {
    pub(super) text: &'static str,
    /// The placeholders of one row.
    pub(super) row: &'static str,
    pub(super) between: &'static str,
}

impl Bulk {
    /// A statement that takes ids or names.
    pub(super) const fn list(text: &'static str) -> Self {
        Self { text, row: "?", between: ", " }
    }

    /// The text for this many rows.
    pub(super) fn text(&self, rows: usize) -> String {
        let Some((before, after)) = self.text.split_once("{}") else { return self.text.to_owned() };
        let mut text = before.to_owned();
        for row in 0..rows {
            let between = if row == 0 { "" } else { self.between };
            // Writing to a string cannot fail.
            let _ = write!(text, "{between}{}", self.row);
        }
        text + after
    }
}

/// The statements and their values. Statements about rows that a transaction has locked change nothing else.
pub(super) struct Statements {
    /// Whether rows of the overflow are ordered by one column, [`urgency`](super::row::urgency), rather than by queue,
    /// priority and `due_at`.
    pub(super) has_urgency: bool,

    /// Begins a transaction that only reads, and sees one state of the database.
    pub(super) begin_reading: &'static str,

    /// Whole rows, with the values of [`insert`](super::row::insert).
    pub(super) insert: Bulk,
    /// [Plain](super::row::NewRow::is_plain) rows.
    pub(super) insert_plain: Bulk,
    /// Rows with a [plain end](super::row::NewRow::is_plain_end).
    pub(super) end: Bulk,
    /// All columns that a run may change.
    pub(super) change: Bulk,
    /// The values of [`rewritten`](super::row::rewritten).
    pub(super) rewrite: Bulk,

    /// queue, key.
    pub(super) holders: Bulk,
    /// queue, origin.
    pub(super) origins: Bulk,

    /// If the versions of rows are queried first: ids.
    pub(super) versions: Option<Bulk>,
    /// ids, or if versions are not queried first, ids and versions.
    pub(super) mark_loaded: Bulk,
    /// ids.
    pub(super) mark_not_loaded: Bulk,
    /// ids.
    pub(super) mark_overflow: Bulk,
    /// tag, id.
    pub(super) tag: Bulk,
    /// tag, id.
    pub(super) untag: Bulk,

    /// queue, and eight numbers.
    pub(super) tally: Bulk,
    /// queues.
    pub(super) tallies: Bulk,
    /// queue, limit.
    pub(super) tallies_from: &'static str,
    /// queue, slot.
    pub(super) drop_tally: Bulk,

    /// queue, state, after, limit: rows without an end.
    pub(super) open_in: &'static str,
    /// state, instant, the same instant, id before which they ended at that instant, limit.
    pub(super) ended: &'static str,
    /// queue, then the same.
    pub(super) ended_in: &'static str,
    /// state, after, limit: parked rows.
    pub(super) parked: &'static str,
    /// queue, key, after, limit.
    pub(super) holder: &'static str,
    /// queue, key, after, limit: rows that had the key.
    pub(super) by_key: &'static str,
    /// The rest of the bucket in which the last page ended: bucket, after, limit.
    pub(super) waiting_in: &'static str,
    /// The buckets after it: bucket, last bucket, limit.
    pub(super) waiting_behind: &'static str,
    /// By urgency: from, to. Otherwise: queue, priority.
    pub(super) level: &'static str,
    /// By urgency: from, to, limit. Otherwise: queue, priority, from, to, limit.
    pub(super) over: &'static str,
    /// By urgency: after. Otherwise: queue.
    pub(super) overflowing: &'static str,
    /// By urgency: from, to, now as bytes. Otherwise: queue, now.
    pub(super) over_due: &'static str,

    /// limit.
    pub(super) inbox_hits: &'static str,
    /// numbers.
    pub(super) inbox_rows: Bulk,
    /// reason, number.
    pub(super) refuse_inbox: Bulk,
}
